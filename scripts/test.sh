#!/usr/bin/env bash
# test.sh [unit|all|clients|servers|console|screenshots]: the quick unit tests come first, then those that start processes, then those on the real
# engine. Those with the clients of others and with the servers that are asked for by name are apart, as these are large to
# fetch. TEST_SERVERS="minio n8n" is about these servers only.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ ! -x "$BUILD/node/bin/node" ] || export CODE_EXECUTOR_TEST_NODE=${CODE_EXECUTOR_TEST_NODE:-$BUILD/node/bin/node}

directories_besides_unit() {
    find tests -mindepth 2 -name 'test_*.py' -not -path 'tests/unit/*' -not -path 'tests/clients/*' -not -path 'tests/servers/*' -not -path 'tests/console/*' -printf '%P\n' | cut -d/ -f1 | sort -u | sed 's|^|tests/|'
}

# PYTEST="-k name -x" adds arguments, PYTEST="-n 0 --pdb" runs all of them in one process.
run_pytest() {
    local arguments
    read -r -a arguments <<<"${PYTEST:-}"
    "$VENV/bin/pytest" "$@" "${arguments[@]}"
}

test_clients() {
    "$ROOT/scripts/clients.sh"
    say "tests with the clients of others"
    run_pytest tests/clients
}

test_servers() {
    local services service
    export TEST_SERVERS=${TEST_SERVERS:-postgres minio timescaledb playwright openmemory n8n}
    require_compose
    read -r -a services <<<"$TEST_SERVERS"
    mapfile -t services < <(stack services "${services[@]}")
    for service in "${services[@]}"; do
        "$ROOT/scripts/stack.sh" "$service"
    done
    say "tests with MCP servers: $TEST_SERVERS"
    run_pytest tests/servers
}

# In a browser; with the name of a directory, also what it looks like.
test_console() {
    "$ROOT/scripts/browser.sh"
    say "tests of the console in Chromium"
    SCREENSHOTS=${1:-} run_pytest tests/console
}

main() {
    local rest
    # Not `test_clients && return`: that would go on after a failure, and end well.
    case ${1:-all} in
    clients) test_clients; return ;;
    servers) test_servers; return ;;
    console) test_console; return ;;
    screenshots)
        PYTEST="-k screenshot ${PYTEST:-}" test_console "$BUILD/screenshots"
        say "They are in .build/screenshots."
        return
        ;;
    esac
    say "unit tests"
    # Not even collected: in these folders every test starts processes. schemathesis takes a second to load.
    run_pytest -n 2 -m "not processes" -p no:schemathesis --ignore=tests/unit/client_library --ignore=tests/unit/runner --ignore=tests/unit/setup --ignore=tests/unit/console tests/unit
    [ "${1:-all}" = all ] || return 0
    "$ROOT/scripts/tsc.sh"
    say "unit tests that start interpreters, compilers and scripts"
    run_pytest -n 2 -m processes tests/unit
    mapfile -t rest < <(directories_besides_unit)
    [ "${#rest[@]}" -gt 0 ] || return 0
    require_compose
    "$ROOT/scripts/stack.sh" mcp-prometheus # which is tested there, and has the tool that tests its rules
    say "tests on the engine: ${rest[*]}"
    run_pytest "${rest[@]}"
}

main "$@"
