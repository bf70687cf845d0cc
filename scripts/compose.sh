#!/usr/bin/env bash
# compose.sh ARGUMENTS…: the compose plugin or docker-compose, whichever is there, with what compose.yaml needs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly PROJECT=mcp-code-executor

# For the command line on this side only: a key must not reach the daemon, and paths of this machine mean nothing there.
readonly NOT_FOR_THE_DAEMON='PUBLISH|TEST_[A-Z_]*|KEY|URL|SECRETS_DIR|DOCKER_HOST|SECCOMP_FILE'

write_settings() {
    local name
    umask 077
    {
        [ ! -f .env ] || grep -E '^CODE_EXECUTOR_' .env || true
        for name in $(compgen -e CODE_EXECUTOR_ || true); do
            printf '%s=%s\n' "$name" "${!name}"
        done
    } | { grep -vE "^CODE_EXECUTOR_($NOT_FOR_THE_DAEMON)=" || true; } >"$BUILD/daemon.env"
}

socket() {
    local endpoint=${DOCKER_HOST:-}
    [ -n "$endpoint" ] || endpoint=$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null) ||
        endpoint=unix:///var/run/docker.sock
    case $endpoint in
    unix://*) echo "${endpoint#unix://}" ;;
    *) fail "The engine is at $endpoint, but the daemon needs its socket on this machine; run make where the engine runs." ;;
    esac
}

# Asked from inside a container, because that is where it counts: in a virtual machine or a rootless engine
# the group there is another than the one seen from here.
group_of_socket() {
    docker run --rm --network none --user 0 --entrypoint /usr/bin/python3 --volume "$1:/var/run/docker.sock" \
        "$ORCHESTRATOR_IMAGE" -I -S -c 'import os; print(os.stat("/var/run/docker.sock").st_gid)'
}

export_socket() {
    DOCKER_SOCKET=$(socket)
    DOCKER_GID=$(group_of_socket "$DOCKER_SOCKET")
    export DOCKER_SOCKET DOCKER_GID
}

require_compose() {
    docker compose version >/dev/null 2>&1 || have docker-compose || "$ROOT/scripts/apt.sh" docker-compose
}

compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose --project-name "$PROJECT" "$@"
    else
        docker-compose --project-name "$PROJECT" "$@"
    fi
}

main() {
    require_compose
    write_settings
    [ "$1" != up ] || export_socket
    compose "$@"
}

main "$@"
