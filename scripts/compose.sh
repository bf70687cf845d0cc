#!/usr/bin/env bash
# compose.sh ARGUMENTS…: the compose plugin or docker-compose, whichever is there, with what compose.yaml needs.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# For their owner only: there are secrets among them.
write_settings() {
    (umask 077 && stack daemon-env "$(servers_file)" >"$BUILD/daemon.env" && stack launcher-env >"$BUILD/launcher.env") ||
        fail "The daemon's settings could not be written; the cause is above."
}

servers_file() { configured CODE_EXECUTOR_SERVERS_FILE "$STACK_BUILD/daemon/servers.json"; }

export_servers_file() {
    local file
    file=$(realpath -m "$(servers_file)")
    [ "$(dirname "$file")" != "$ROOT" ] ||
        fail "The daemon would see all of $ROOT; put $(basename "$file") into a directory of its own and set CODE_EXECUTOR_SERVERS_FILE to its new path."
    SERVERS_FILE_NAME=$(basename "$file")
    SERVERS_FILE_DIRECTORY=$(dirname "$file")
    mkdir -p "$STACK_BUILD/daemon"
    export SERVERS_FILE_NAME SERVERS_FILE_DIRECTORY
}

# All of the directory, because the name is given to another file when this one is replaced; the daemon does not see it.
export_roles_file() {
    local file
    file=$(realpath -m "$(configured CODE_EXECUTOR_ROLES_FILE roles.json)")
    ROLES_FILE_NAME=$(basename "$file")
    ROLES_FILE_DIRECTORY=$(dirname "$file")
    export ROLES_FILE_NAME ROLES_FILE_DIRECTORY
}

# What the daemon sees of the user's own servers. Made here: the engine would make them as root.
export_own_servers() {
    local tokens
    CODE_EXECUTOR_SERVERS_DIR=$(servers_dir)
    [ "$CODE_EXECUTOR_SERVERS_DIR" != "$ROOT" ] ||
        fail "The daemon would see all of $ROOT; set CODE_EXECUTOR_SERVERS_DIR to a directory of its own."
    tokens=$(secrets_dir)/own
    mkdir -p "$CODE_EXECUTOR_SERVERS_DIR" "$tokens/daemon" "$tokens/containers"
    # Nobody else on this machine passes; the daemon has what is inside mounted.
    chmod 0700 "$tokens"
    export CODE_EXECUTOR_SERVERS_DIR
}

# After compose.yaml, because the networks of the servers are additions to it.
export_files() {
    COMPOSE_FILE=$(configured COMPOSE_FILE compose.yaml):$STACK_BUILD/networks.yaml
    [ ! -f "$STACK_BUILD/own.yaml" ] || COMPOSE_FILE+=:$STACK_BUILD/own.yaml
    export COMPOSE_FILE
}

# What scripts/stack.sh has chosen, and the secrets that compose.yaml hands to the servers.
export_stack() {
    local line
    while IFS= read -r line; do
        export "${line?}"
    done < <(cat "$STACK_BUILD/compose.env" 2>/dev/null; stack secrets)
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
    docker run --rm --interactive --network none --user 0 --entrypoint /usr/bin/python3 \
        --volume "$1:/var/run/docker.sock" "$ORCHESTRATOR_IMAGE" -I -S - <"$ROOT/scripts/inside/group_of_socket.py"
}

export_socket() {
    DOCKER_SOCKET=$(socket)
    DOCKER_GID=$(group_of_socket "$DOCKER_SOCKET")
    export DOCKER_SOCKET DOCKER_GID
}

compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose --project-name "$PROJECT" "$@"
    else
        docker-compose --project-name "$PROJECT" "$@"
    fi
}

main() {
    export STARTED_IN=$ROOT
    require_compose
    write_settings
    export_servers_file
    export_roles_file
    export_own_servers
    export_files
    export_stack
    [ "$1" != up ] || export_socket
    compose "$@"
}

main "$@"
