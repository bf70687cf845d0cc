#!/usr/bin/env bash
# Stops the daemon and its MCP servers and removes every container and network of ours. Data, keys and images stay.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Its own shutdown destroys its sandboxes, so it gets the time that compose.yaml gives it.
stop_daemon() {
    docker inspect "$DAEMON" >/dev/null 2>&1 || return 0
    docker stop --time 30 "$DAEMON"
    docker rm --force "$DAEMON"
}

stop_servers() {
    local found
    found=$(stack_containers | cut -d' ' -f2)
    [ -n "$found" ] || return 0
    xargs docker stop --time 5 <<<"$found"
    xargs docker rm --force <<<"$found"
}

ids() { docker "$1" ls --quiet "${@:2}"; }

remove_sandboxes() {
    local found
    # One may end by itself between the listing and its removal.
    found=$(ids container --all --filter label=mcp-code-executor)
    [ -z "$found" ] || xargs docker rm --force --volumes <<<"$found" >/dev/null 2>&1 || true
    found=$(ids container --all --filter label=mcp-code-executor)
    [ -z "$found" ] || fail "These containers could not be removed: $found"
}

remove_networks() {
    local found name
    found=$(
        ids network --filter label=mcp-code-executor=network
        for name in "$API_NETWORK" "${STACK_NETWORKS[@]}"; do ids network --filter "name=^$name\$"; done
    )
    [ -z "$found" ] || xargs docker network rm <<<"$found" >/dev/null ||
        fail "A network of ours is still in use (message above); stop the containers on it, then run 'make down' again."
}

remove_everything() {
    stop_daemon
    stop_servers
    remove_sandboxes
    remove_networks
}

main() {
    if ! engine_answers; then
        refuse_if_denied
        say "The engine is not running, so nothing of ours runs."
        return
    fi
    step "stopping the daemon, its sandboxes and servers" down.log "The engine's message is above." remove_everything
}

main
