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

health() {
    "$VENV/bin/python" - "$(api_url)/health" <<'END'
import json, sys, urllib.error, urllib.request
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    body = direct.open(sys.argv[1], timeout=5).read()
except urllib.error.HTTPError as error:
    body = error.read()
except OSError as error:
    sys.exit(f"no answer at {sys.argv[1]}: {error}")
for name, value in json.loads(body).items():
    print(f"  {name}: {value if isinstance(value, str) else json.dumps(value)}")
END
}

main() {
    local state
    engine_answers || fail "The engine does not answer, so nothing runs; 'make up' starts it."
    state=$(container_state)
    [ -n "$state" ] || fail "The daemon does not run; 'make up' starts it."
    say "$state"
    servers_state
    say "sandboxes: $(docker ps --quiet --filter label=mcp-code-executor=sandbox | wc -l)"
    health || fail "The daemon does not answer; see 'make logs'."
}

main
