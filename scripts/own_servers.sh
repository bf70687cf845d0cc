#!/usr/bin/env bash
# What `code-executor servers` does on this machine and on the engine; it holds the tree's lock meanwhile.
#   own_servers.sh lock DIRECTORY           pins what DIRECTORY names, with everything that it needs
#   own_servers.sh fetch DIRECTORY TARGET   fetches what the lock in DIRECTORY names into TARGET
#   own_servers.sh start NAME               its image, its container and its network; the daemon joins that
#   own_servers.sh renew                    takes away networks of another kind than the entries want now
#   own_servers.sh connect                  the daemon and databases join the networks of all of them
#   own_servers.sh remove NAME              its container, network and image, and what was built for it
#   own_servers.sh restart-daemon           where its container has to be another: it reaches this machine, or no longer
set -euo pipefail
SPEAKER=code-executor
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"
. "$ROOT/scripts/owner.sh"
. "$ROOT/scripts/own_packages.sh"

require_engine() {
    refuse_if_denied
    engine_answers || fail "The container engine does not answer; run 'make up', which starts it, then run this again."
    refuse_if_started_elsewhere
}

lock() {
    require_engine
    [ ! -f "$1/package.json" ] || have npm || "$ROOT/scripts/apt.sh" npm
    step "resolving the packages" own-lock.log \
        "Check the name and the version of the package, and that npm and pip work on this machine, then run this again." \
        lock_own "$1"
}

fetch() {
    step "fetching the packages" own-fetch.log \
        "Make npm and pip work on this machine (registry, proxy, certificates), then run this again." fetch_own "$1" "$2"
}

exists() { docker container inspect "$1" >/dev/null 2>&1; }

on_network() { docker container inspect --format '{{json .NetworkSettings.Networks}}' "$2" | grep -qF "\"$1\":"; }

# join SERVICE: whoever else is on its network. One that is on it already stays.
join() {
    local member members network=$PREFIX$1
    members=$(stack own-members "$1" | sed "s/^/$PREFIX/")
    for member in "$DAEMON" $members; do
        exists "$member" || continue
        on_network "$network" "$member" || docker network connect "$network" "$member"
    done
}

join_all() {
    local service
    for service in $(own_services); do
        # One that did not start has no network, and costs the others nothing.
        ! docker network inspect "$PREFIX$service" >/dev/null 2>&1 || join "$service"
    done
}

enlist() {
    touch "$STACK_BUILD/services"
    grep -qxF "$1" "$STACK_BUILD/services" || echo "$1" >>"$STACK_BUILD/services"
}

strike_off() {
    [ -f "$STACK_BUILD/services" ] || return 0
    sed -i "/^$1\$/d" "$STACK_BUILD/services"
}

write_compose_file() {
    local services
    mkdir -p "$STACK_BUILD"
    mapfile -t services < <(own_services)
    stack write-own "${services[@]}"
}

# renew SERVICE: compose does not change a network that is there, and whoever is on it would stay.
renew() {
    local network=$PREFIX$1 kind
    kind=$(docker network inspect --format '{{index .Labels "mcp-code-executor.network"}}' "$network" 2>/dev/null) || return 0
    [ "$kind" != "$(stack own-network "$1")" ] || return 0
    ! exists "$network" || docker rm --force "$network"
    leave_network "$network"
}

renew_all() {
    local service
    for service in $(own_services); do
        renew "$service"
    done
}

bring_up() {
    renew "$1"
    "$ROOT/scripts/compose.sh" up -d "$1"
    join "$1"
}

start() {
    local service=mcp-own-$1 usable
    require_engine
    [ -f "$BUILD/base-image" ] || fail "What a server's image is made from is missing; run 'make up' first, then run this again."
    usable=$(stack own)
    grep -qxF "$service" <<<"$usable" || fail "The entry of $1 in $(servers_dir) cannot be used; the cause is above."
    enlist "$service"
    write_compose_file
    "$ROOT/scripts/stack.sh" "$service"
    exists "$DAEMON" || return 0
    step "starting its container" own-start.log "The engine's own message is above." bring_up "$service"
}

take_away() {
    ! exists "$PREFIX$1" || docker rm --force "$PREFIX$1"
    leave_network "$PREFIX$1"
    ! in_engine "mcp-code-executor/$1" || docker image rm --force "mcp-code-executor/$1"
}

remove() {
    local service=mcp-own-$1
    if engine_answers; then
        refuse_if_started_elsewhere
        step "removing its container" own-remove.log "The engine's own message is above." take_away "$service"
    else
        warn "The container engine does not answer, so the image of $1 stays; 'make clean' removes it."
    fi
    strike_off "$service"
    rm -rf "${OWN:?}/$1" "${STACK_BUILD:?}/$service" "${CONTEXTS:?}/$service"
    write_compose_file
}

restart_daemon() {
    exists "$DAEMON" || return 0
    require_engine
    write_compose_file
    step "restarting the daemon" own-daemon.log "The engine's own message is above." "$ROOT/scripts/compose.sh" up -d orchestrator
    join_all
}

case ${1:-} in
lock | fetch | start | remove) "$@" ;;
renew) renew_all ;;
connect) join_all ;;
restart-daemon) restart_daemon ;;
*) fail "own_servers.sh does not know '${1:-}'." ;;
esac
