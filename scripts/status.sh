#!/usr/bin/env bash
# The containers of the daemon and of the MCP servers, whose they are, and what the daemon says of itself.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/owner.sh"

container_state() {
    docker ps --all --filter "name=^$DAEMON\$" --format '{{.Names}}: {{.Status}}, published at {{.Ports}}'
}

servers_state() {
    docker ps --all --filter "label=com.docker.compose.project=$PROJECT" --format '{{.Names}}: {{.Status}}' |
        grep -v "^$DAEMON:" || true
}

# Where that daemon is published: the settings of this directory say nothing about one that belongs to another.
url_of_container() {
    local address
    address=$(docker port "$DAEMON" 9091/tcp | head -n 1)
    printf 'http://%s' "${address/0.0.0.0/127.0.0.1}"
}

main() {
    local state directory url
    engine_answers || fail "The container engine does not answer; 'make up' starts it."
    state=$(container_state)
    [ -n "$state" ] || fail "The daemon is not running; start it with 'make up'."
    directory=$(started_in)
    url=$(api_url)
    say "$state"
    if [ "$directory" -ef "$ROOT" ]; then
        say "started in: $directory"
    else
        say "started in: $directory, which is not this directory; settings, roles and keys are read there, not here."
        say "            'make up' here takes the daemon over, with its data."
        url=$(url_of_container)
    fi
    servers_state
    say "sandboxes: $(docker ps --quiet --filter label=mcp-code-executor=sandbox | wc -l)"
    "$(any_python)" scripts/ask_daemon.py health "$url" || fail "The daemon does not answer; see 'make logs'."
}

status=0
report=$(main) || status=$?
# All at once, and whoever reads may have seen enough before its end.
trap '' PIPE
[ -z "$report" ] || say "$report" 2>/dev/null || true
exit "$status"
