#!/usr/bin/env bash
# Every static check; runs them all and fails if one failed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

failed=0

check() {
    say "— $*"
    "$VENV/bin/$1" "${@:2}" || failed=1
}

check_if_there() {
    if [ -x "$VENV/bin/$1" ]; then check "$@"; else say "— $1: not available here"; fi
}

# Known vulnerabilities of what is pinned; asks the package index, which may not be reachable or may not know of them.
audit() {
    local report
    report=$(mktemp)
    if ! have pip-audit && [ ! -x "$VENV/bin/pip-audit" ]; then
        say "— pip-audit: not available here"
    elif PATH=$VENV/bin:$PATH pip-audit --disable-pip --no-deps -r orchestrator/constraints.txt >"$report" 2>&1; then
        if grep -q 'could not be audited' "$report"; then say "— pip-audit: not available here"; else say "— pip-audit"; fi
    elif grep -q 'GHSA-\|PYSEC-\|CVE-' "$report"; then
        say "— pip-audit"
        cat "$report"
        failed=1
    else
        say "— pip-audit: not available here"
    fi
    rm -f "$report"
}

shell_scripts() { find scripts deploy .ci -type f -exec grep -lE '^#!.*\b(ba)?sh$|^# shellcheck shell=' {} + | sort; }

check ruff check .
check ruff format --check .
check mypy --strict orchestrator
check mypy --strict runner-image/runner
check mypy --strict runner-image/client-library/python
check mypy --strict scripts
check mypy --strict deploy
check mypy --strict bench
check mypy --strict tests/chaos tests/clients/scripted_model tests/figures tests/load tests/mutation
check lint-imports
mapfile -t scripts < <(shell_scripts)
check shellcheck --external-sources --source-path=SCRIPTDIR "${scripts[@]}"
check bandit --quiet --severity-level medium --configfile pyproject.toml --recursive orchestrator runner-image scripts deploy
check_if_there hadolint --failure-threshold error orchestrator/Dockerfile runner-image/Dockerfile
audit
[ "$failed" -eq 0 ] || fail "A check failed; 'make fmt' fixes formatting."
