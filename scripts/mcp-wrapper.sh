#!/usr/bin/env bash
# Speaks MCP on stdin and stdout for a client on this host: finds the caller's Linux group, reads the key of the group's
# role, and goes into the daemon's container with the key in the environment. Stands alone, so that it can be linked
# or copied to wherever clients look for it.
#   mcp-wrapper.sh            MCP on stdio
#   mcp-wrapper.sh --headers  the HTTP header with the key as JSON, for Claude Code's headersHelper
set -euo pipefail

readonly ADMIN_GROUP=${CODE_EXECUTOR_ADMIN_GROUP:-administrators}
readonly DEVELOPER_GROUP=${CODE_EXECUTOR_DEVELOPER_GROUP:-developers}
readonly CONTAINER=${CODE_EXECUTOR_CONTAINER:-mcp-code-executor}
ROOT=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
readonly ROOT SECRETS=${CODE_EXECUTOR_SECRETS_DIR:-$ROOT/secrets}

# As in sysexits.h.
readonly BAD_USE=64 NO_KEY=66 UNAVAILABLE=69 NO_PERMISSION=77

fail() {
    printf 'mcp-wrapper: %s\n' "$2" >&2
    exit "$1"
}

in_group() { [[ " $(id -Gn) " == *" $1 "* ]]; }

role() {
    if in_group "$ADMIN_GROUP"; then
        echo admin
    elif in_group "$DEVELOPER_GROUP"; then
        echo developer
    else
        fail $NO_PERMISSION "You ($(id -un)) are in neither the group $ADMIN_GROUP nor the group $DEVELOPER_GROUP; ask an administrator to add you, then log in again."
    fi
}

key() {
    local role file key
    role=$(role) || exit
    file=$SECRETS/code-executor-$role.key
    [ -e "$file" ] || fail $NO_KEY "There is no key file $file; create it with 'make up', or set CODE_EXECUTOR_SECRETS_DIR to the directory that has it."
    [ -r "$file" ] || fail $NO_KEY "You ($(id -un)) cannot read the key file $file; it must belong to your group and have mode 640."
    key=$(tr -d '[:space:]' <"$file")
    [[ $key =~ ^[[:alnum:]_.~+/=-]+$ ]] || fail $NO_KEY "The key file $file does not hold a key; create a new one with 'make rotate-keys ROLE=$role'."
    printf '%s' "$key"
}

check_container() {
    local running
    command -v docker >/dev/null || fail $UNAVAILABLE "The docker command is missing; install the container engine's client."
    running=$(docker container inspect --format '{{.State.Running}}' "$CONTAINER" 2>&1) || case $running in
    *"ermission denied"*) fail $NO_PERMISSION "You ($(id -un)) may not use the container engine; ask an administrator to add you to the group docker." ;;
    *"o such container"*) fail $UNAVAILABLE "There is no container $CONTAINER; start it with 'make up'." ;;
    *) fail $UNAVAILABLE "The container engine does not answer; start it, then 'make up'." ;;
    esac
    [ "$running" = true ] || fail $UNAVAILABLE "The container $CONTAINER is not running; start it with 'make up'."
}

print_headers() {
    local key
    key=$(key) || exit
    printf '{"Authorization": "Bearer %s"}\n' "$key"
}

speak_mcp() {
    CODE_EXECUTOR_KEY=$(key) || exit
    export CODE_EXECUTOR_KEY
    check_container
    # The name alone: docker takes the value from the environment, so that no list of processes shows it.
    exec docker exec -i -e CODE_EXECUTOR_KEY "$CONTAINER" code-executor mcp
}

case ${1:-} in
'') speak_mcp ;;
--headers) print_headers ;;
*) fail $BAD_USE "Unknown option $1; the only one is --headers." ;;
esac
