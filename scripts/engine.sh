#!/usr/bin/env bash
# Makes sure that a container engine answers. An engine that answers is used as it is and never touched.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly START_SECONDS=60
readonly ENGINE_LOG=$LOGS/dockerd.log
STARTED=''

refuse_if_not_ours_to_start() {
    if [ -n "${DOCKER_HOST:-}" ]; then
        fail "The engine at DOCKER_HOST=$DOCKER_HOST does not answer; start it or unset DOCKER_HOST, then run make again."
    fi
    if [ "$(uname -s)" != Linux ]; then
        fail "The container engine does not answer; start Docker Desktop (or your engine), then run make again."
    fi
    if ! is_root; then
        fail "The container engine does not answer and only root can start it; run 'sudo systemctl start docker' (or 'sudo make engine'), then run make again."
    fi
}

install_if_missing() {
    if ! have dockerd; then
        "$ROOT/scripts/apt.sh" docker.io
        hash -r
    fi
}

systemd_runs_this_machine() { [ -d /run/systemd/system ] && [ "$(cat /proc/1/comm)" = systemd ]; }

# Without systemd nothing may have mounted the control groups yet, and dockerd does not start without them.
mount_control_groups() {
    [ -z "$(ls -A /sys/fs/cgroup 2>/dev/null)" ] || return 0
    have cgroupfs-mount || "$ROOT/scripts/apt.sh" cgroupfs-mount
    cgroupfs-mount
}

# A package's start script may have started it already, or it is still starting.
a_dockerd_lives() {
    local pid
    pid=$(cat /var/run/docker.pid 2>/dev/null) && is_dockerd "$pid"
}

start_detached() {
    mount_control_groups
    # Its own session and no inherited descriptor: it must outlive this make and must not hold the tree's lock.
    setsid nohup dockerd >>"$ENGINE_LOG" 2>&1 </dev/null 9>&- &
    STARTED=$!
    echo "$STARTED" >"$BUILD/dockerd.pid"
}

start() {
    if systemd_runs_this_machine; then
        systemctl start docker
    elif ! a_dockerd_lives; then
        start_detached
    fi
}

ours_has_ended() { [ -n "$STARTED" ] && ! kill -0 "$STARTED" 2>/dev/null; }

wait_until_it_answers() {
    local deadline=$((SECONDS + START_SECONDS))
    until engine_answers; do
        ! ours_has_ended || return 1
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.3
    done
}

start_and_wait() {
    start
    wait_until_it_answers && return 0
    [ ! -f "$ENGINE_LOG" ] || tail -n 20 "$ENGINE_LOG"
    return 1
}

main() {
    if have docker; then
        ! engine_answers || return 0
        refuse_if_denied
    fi
    lock_the_tree
    refuse_if_not_ours_to_start
    install_if_missing
    step "starting the container engine" engine.log \
        "The engine's reason is above; all of it is in .build/log/dockerd.log (or journalctl -u docker)." \
        start_and_wait
}

main
