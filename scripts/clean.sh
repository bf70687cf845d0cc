#!/usr/bin/env bash
# Removes everything that make made, with the data and the keys. FORCE=1 does not ask.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/owner.sh"

readonly VOLUMES=("$VOLUME" "${STACK_VOLUMES[@]/#/$PROJECT-}")
LEFT=''

ask() {
    local answer=''
    [ -z "${FORCE:-}" ] || return 0
    say "This removes the recorded executions (volume $VOLUME), the data of the MCP servers (database, files, memory),"
    say "the keys and tokens (secrets/), the servers that you have added (servers.d/), the images, .venv and .build."
    read -r -p "Type yes to go on: " answer || true
    [ "$answer" = yes ] || fail "Nothing was removed."
}

leave() {
    say "$*"
    LEFT=yes
}

volumes_that_exist() { docker volume inspect --format '{{.Name}}' "${VOLUMES[@]}" 2>/dev/null | sed '/^$/d' || true; }

# Every clone has the same names for them.
remove_volumes() {
    local found
    if claimed; then
        docker volume rm --force "${VOLUMES[@]}" >/dev/null
        return
    fi
    found=$(volumes_that_exist | paste -sd ' ')
    [ -z "$found" ] ||
        leave "The data stays, because 'make up' was never run in this directory; if no other directory needs it, run: docker volume rm $found"
}

our_images() { docker image ls --format '{{.Repository}}' --filter 'reference=mcp-code-executor/*'; }

remove_images() {
    local image
    for image in $(our_images); do
        docker image rm --force "$image" >/dev/null 2>&1 || true
    done
    docker image prune --force --filter label=mcp-code-executor.stage >/dev/null
}

remove_from_engine() {
    if engine_answers; then
        remove_volumes
        remove_images
    elif have docker; then
        leave "The container engine is not running, so the images and the volume $VOLUME stay."
    fi
}

our_engine_pid() {
    local pid
    pid=$(cat "$BUILD/dockerd.pid" 2>/dev/null) && is_dockerd "$pid" && echo "$pid"
}

leave_backups() { [ ! -d backups ] || leave "The backups in backups/ stay; remove them yourself."; }

remove_build() {
    local engine
    if engine=$(our_engine_pid); then
        leave "The engine that make started still runs (pid $engine; 'kill $engine' stops it), so its log stays in .build."
        find "$BUILD" -mindepth 1 -not -name dockerd.pid -not -name dockerd.log -not -path "$LOGS" -delete
    else
        rm -rf "$BUILD"
    fi
}

# A directory of the user's own may hold more than our keys.
remove_keys() {
    local directory
    rm -rf secrets
    directory=$(realpath -m "$(secrets_dir)")
    [ ! -d "$directory" ] || leave "The keys in $directory stay, because CODE_EXECUTOR_SECRETS_DIR names it; remove them yourself."
}

remove_own_servers() {
    local directory
    rm -rf servers.d
    directory=$(servers_dir)
    [ ! -d "$directory" ] || leave "The servers in $directory stay, because CODE_EXECUTOR_SERVERS_DIR names it; remove them yourself."
}

main() {
    ask
    # Not while the question waits for its answer.
    lock_the_tree
    "$ROOT/scripts/down.sh"
    remove_from_engine
    remove_keys
    "$ROOT/scripts/install.sh" uninstall
    remove_own_servers
    rm -rf "$VENV" mcp_code_executor.egg-info
    leave_backups
    remove_build
    if [ -n "$LEFT" ]; then say "Everything else is removed."; else say "Everything is removed."; fi
}

main
