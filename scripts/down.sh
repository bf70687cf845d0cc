#!/usr/bin/env bash
# Stops the daemon and the MCP servers that were started in this directory, and removes every container and network of
# theirs. Data, keys and images stay.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/owner.sh"

# Its own shutdown destroys its sandboxes, so it gets the time that compose.yaml gives it.
# The launcher goes last: without it no sandbox is removed.
stop_daemon() {
    local name
    for name in "$DAEMON" "$ROLES" "$LAUNCHER"; do
        # A volume has the name of the container that copies the roles.
        docker container inspect "$name" >/dev/null 2>&1 || continue
        docker stop --time 30 "$name"
        docker rm --force "$name"
    done
}

stop_servers() {
    local found
    found=$(stack_containers | cut -d' ' -f2)
    [ -n "$found" ] || return 0
    xargs docker stop --time 5 <<<"$found"
    xargs docker rm --force <<<"$found"
}

ids() { docker "$1" ls --quiet "${@:2}"; }

# Without an id there never was a sandbox of ours; an empty label would be anybody's.
ids_of_owners() {
    local owner
    while read -r owner; do
        [ -z "$owner" ] || ids "$@" --filter "label=mcp-code-executor.owner=$owner" || return
    done < <(owners)
}

remove_sandboxes() {
    local found
    # One may end by itself between the listing and its removal.
    found=$(ids_of_owners container --all)
    [ -z "$found" ] || xargs docker rm --force --volumes <<<"$found" >/dev/null 2>&1 || true
    found=$(ids_of_owners container --all)
    [ -z "$found" ] || fail "These containers could not be removed: $found; restart the container engine, then run 'make down' again."
}

# What the user has connected to the network of a server of their own only leaves it.
remove_own_networks() {
    local network
    for network in $(docker network ls --format '{{.Name}}' --filter "label=com.docker.compose.project=$PROJECT" --filter label=mcp-code-executor.network); do
        leave_network "$network"
    done
}

# The sandboxes of earlier versions had a network.
remove_networks() {
    local found
    remove_own_networks
    found=$(ids_of_owners network && ids network --filter "label=com.docker.compose.project=$PROJECT")
    [ -z "$found" ] || xargs docker network rm <<<"$found" >/dev/null ||
        fail "One of our networks is still in use (message above); stop the containers on it, then run 'make down' again."
}

remove_everything() {
    remember_owner
    stop_daemon
    stop_servers
    remove_sandboxes
    remove_networks
}

main() {
    if ! engine_answers; then
        refuse_if_denied
        say "The container engine is not running, so there is nothing to stop."
        return
    fi
    refuse_if_started_elsewhere
    step "stopping the daemon, its sandboxes and servers" down.log "The engine's message is above." remove_everything
}

main
