#!/usr/bin/env bash
# test.sh [unit|all|clients]: the quick unit tests come first, then those that start processes, then those on the real
# engine. Those with the clients of others are apart, as these are large to fetch.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ ! -x "$BUILD/node/bin/node" ] || export CODE_EXECUTOR_TEST_NODE=${CODE_EXECUTOR_TEST_NODE:-$BUILD/node/bin/node}

directories_besides_unit() {
    find tests -mindepth 2 -name 'test_*.py' -not -path 'tests/unit/*' -not -path 'tests/clients/*' -printf '%P\n' | cut -d/ -f1 | sort -u | sed 's|^|tests/|'
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

main() {
    local rest
    if [ "${1:-all}" = clients ]; then
        test_clients
        return
    fi
    say "unit tests"
    # Not even collected: in these folders every test starts processes. schemathesis takes a second to load.
    run_pytest -n 2 -m "not processes" -p no:schemathesis --ignore=tests/unit/client_library --ignore=tests/unit/runner --ignore=tests/unit/setup tests/unit
    [ "${1:-all}" = all ] || return 0
    "$ROOT/scripts/tsc.sh"
    say "unit tests that start interpreters, compilers and scripts"
    run_pytest -n 2 -m processes tests/unit
    mapfile -t rest < <(directories_besides_unit)
    [ "${#rest[@]}" -gt 0 ] || return 0
    require_compose
    say "tests on the engine: ${rest[*]}"
    run_pytest "${rest[@]}"
}

main "$@"
