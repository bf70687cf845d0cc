#!/usr/bin/env bash
# The containers of the daemon and of the MCP servers, and what the daemon says of itself.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

container_state() {
    docker ps --all --filter "name=^$DAEMON\$" --format '{{.Names}}: {{.Status}}, published at {{.Ports}}'
}

servers_state() {
    docker ps --all --filter "label=com.docker.compose.project=$PROJECT" --format '{{.Names}}: {{.Status}}' |
        grep -v "^$DAEMON:" || true
}

main() {
    local state
    engine_answers || fail "The container engine does not answer; 'make up' starts it."
    state=$(container_state)
    [ -n "$state" ] || fail "The daemon is not running; start it with 'make up'."
    say "$state"
    servers_state
    say "sandboxes: $(docker ps --quiet --filter label=mcp-code-executor=sandbox | wc -l)"
    "$(any_python)" scripts/ask_daemon.py health "$(api_url)" || fail "The daemon does not answer; see 'make logs'."
}

main
