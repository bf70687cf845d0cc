# shellcheck shell=bash
# Sourced by what starts the daemon: how to wait for it.

readonly READY_SECONDS=90
readonly NEVER_READY=3 # what scripts/ask_daemon.py exits with

daemon_state() { docker inspect --format '{{.State.Status}}' "$DAEMON" 2>/dev/null || echo absent; }

stopped() {
    case $(daemon_state) in exited | dead | restarting | absent) true ;; *) false ;; esac
}

wait_until_ready() {
    local deadline=$((SECONDS + READY_SECONDS)) url status problem=''
    url=$(api_url)
    while ! stopped && [ "$SECONDS" -lt "$deadline" ]; do
        status=0
        problem=$("$VENV/bin/python" scripts/ask_daemon.py ready "$url") || status=$?
        [ "$status" -ne 0 ] || return 0
        [ "$status" -ne "$NEVER_READY" ] || break
        sleep 0.3
    done
    echo "The daemon is $(daemon_state). Its last log lines:"
    docker logs --tail 20 "$DAEMON" 2>&1
    [ -z "$problem" ] || echo "It is not ready: $problem"
    return 1
}
