#!/usr/bin/env bash
# Speaks MCP on stdin and stdout for a client on this host: finds the caller's role, reads the key of the role, and starts
# the bridge with the key in the environment: that of .venv, or without one, that in the daemon's container. Stands alone,
# so that it can be linked or copied to wherever clients look for it.
#   mcp-wrapper.sh            MCP on stdio
#   mcp-wrapper.sh --headers  the HTTP header with the key as JSON, for Claude Code's headersHelper
set -euo pipefail

readonly ADMIN_GROUP=${CODE_EXECUTOR_ADMIN_GROUP:-administrators}
readonly DEVELOPER_GROUP=${CODE_EXECUTOR_DEVELOPER_GROUP:-developers}
readonly CONTAINER=${CODE_EXECUTOR_CONTAINER:-mcp-code-executor}
ROOT=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
readonly ROOT SECRETS=${CODE_EXECUTOR_SECRETS_DIR:-$ROOT/secrets} VENV=$ROOT/.venv/bin

# As in sysexits.h.
readonly BAD_USE=64 NO_KEY=66 UNAVAILABLE=69 NO_PERMISSION=77

fail() {
    printf 'mcp-wrapper: %s\n' "$2" >&2
    exit "$1"
}

# Not everybody's user and groups have names; id then gives numbers, and complains.
me() { id -un 2>/dev/null || true; }

in_group() { [[ " $(id -Gn 2>/dev/null) " == *" $1 "* ]]; }

key_file() { printf '%s/code-executor-%s.key' "$SECRETS" "$1"; }

# What the caller chose, else what the group is for. Only who is in neither group gets the strongest key that they can read,
# as root and the owner of the keys do: a member of developers is a developer, whatever else they can read.
role() {
    if [ -n "${CODE_EXECUTOR_ROLE:-}" ]; then
        [[ $CODE_EXECUTOR_ROLE =~ ^[[:alnum:]_-]+$ ]] || fail $BAD_USE "CODE_EXECUTOR_ROLE must be the name of a role, such as admin or developer."
        echo "$CODE_EXECUTOR_ROLE"
    elif in_group "$ADMIN_GROUP"; then
        echo admin
    elif in_group "$DEVELOPER_GROUP"; then
        echo developer
    elif [ -r "$(key_file admin)" ]; then
        echo admin
    elif [ -r "$(key_file developer)" ]; then
        echo developer
    else
        refuse
    fi
}

refuse() {
    local file me
    file=$(key_file developer) me=$(me)
    [[ -e $file || (-d $SECRETS && ! -x $SECRETS) ]] || fail_without_key "$file"
    fail $NO_PERMISSION "You ($me) can read no key in $SECRETS and are in neither the group $ADMIN_GROUP nor the group $DEVELOPER_GROUP; ask an administrator to run 'groupadd -f $DEVELOPER_GROUP; usermod -aG $DEVELOPER_GROUP $me; chgrp $DEVELOPER_GROUP $file', then log in again."
}

fail_without_key() {
    fail $NO_KEY "There is no key file $1; create it with 'make up', or set CODE_EXECUTOR_SECRETS_DIR to the directory that has it."
}

key() {
    local role file key
    role=$(role) || exit
    file=$(key_file "$role")
    [ -e "$file" ] || fail_without_key "$file"
    [ -r "$file" ] || fail $NO_KEY "You ($(me)) cannot read the key file $file; ask an administrator to give it to your group with 'chgrp GROUP $file' and mode 640."
    key=$(tr -d '[:space:]' <"$file")
    [[ $key =~ ^[[:alnum:]_.~+/=-]+$ ]] || fail $NO_KEY "The key file $file does not hold a key; create a new one with 'make rotate-keys ROLE=$role'."
    printf '%s' "$key"
}

check_container() {
    local running
    command -v docker >/dev/null || fail $UNAVAILABLE "The docker command is missing; install the container engine's client."
    running=$(docker container inspect --format '{{.State.Running}}' "$CONTAINER" 2>&1) || case $running in
    *"ermission denied"*) fail $NO_PERMISSION "You ($(me)) may not use the container engine; ask an administrator to add you to the group docker." ;;
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
    # The bridge of .venv needs no access to the engine, which is as good as root. Not everybody can run it: its Python may
    # be in a home directory that is closed to others.
    if [ -z "${CODE_EXECUTOR_CONTAINER:-}" ] && [ -x "$VENV/python" ] && [ -x "$VENV/code-executor" ]; then
        exec "$VENV/code-executor" mcp
    fi
    check_container
    # The name alone: docker takes the value from the environment, so that no list of processes shows it.
    exec docker exec -i -e CODE_EXECUTOR_KEY "$CONTAINER" code-executor mcp
}

case ${1:-} in
'') speak_mcp ;;
--headers) print_headers ;;
*) fail $BAD_USE "Unknown option $1; the only one is --headers." ;;
esac
