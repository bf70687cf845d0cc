#!/usr/bin/env bash
# Removes everything that make made, with the data and the keys. FORCE=1 does not ask.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

ask() {
    local answer=''
    [ -z "${FORCE:-}" ] || return 0
    say "This removes the recorded executions (volume $VOLUME), the data of the MCP servers (database, files, memory),"
    say "the keys (secrets/), the images, .venv and .build."
    read -r -p "Type yes to go on: " answer || true
    [ "$answer" = yes ] || fail "Nothing was removed."
}

our_images() { docker image ls --format '{{.Repository}}' --filter 'reference=mcp-code-executor/*'; }

remove_from_engine() {
    local image
    engine_answers || { warn "The engine is not running: the images and the volume $VOLUME stay."; return 0; }
    docker volume rm --force "$VOLUME" "${STACK_VOLUMES[@]/#/mcp-code-executor-}" >/dev/null
    for image in $(our_images); do
        docker image rm --force "$image" >/dev/null 2>&1 || true
    done
    docker image prune --force --filter label=mcp-code-executor.stage >/dev/null
}

our_engine_pid() {
    local pid
    pid=$(cat "$BUILD/dockerd.pid" 2>/dev/null) && kill -0 "$pid" 2>/dev/null && echo "$pid"
}

remove_files() {
    local engine
    rm -rf secrets "$VENV"
    if engine=$(our_engine_pid); then
        say "The engine that make started still runs (pid $engine; 'kill $engine' stops it), so its log stays in .build."
        find "$BUILD" -mindepth 1 -not -name dockerd.pid -not -name dockerd.log -not -path "$LOGS" -delete
    else
        rm -rf "$BUILD"
    fi
}

ask
"$ROOT/scripts/down.sh"
! have docker || remove_from_engine
remove_files
say "Everything is removed."
