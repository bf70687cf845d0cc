#!/usr/bin/env bash
# Every static check; runs them all and fails if one failed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

failed=0

check() {
    say "— $*"
    "$VENV/bin/$1" "${@:2}" || failed=1
}

shell_scripts() { find scripts .ci -type f -exec grep -lE '^#!.*\b(ba)?sh$|^# shellcheck shell=' {} + | sort; }

check ruff check .
check ruff format --check .
check mypy --strict orchestrator
check mypy --strict runner-image/runner
check mypy --strict runner-image/servers
check mypy --strict scripts/settings_table.py
check mypy --strict bench
check mypy --strict scripts/image/pick_packages.py
check mypy --strict scripts/stack/stack.py
check mypy --strict scripts/stack/proxy/start.py
check lint-imports
mapfile -t scripts < <(shell_scripts)
check shellcheck --external-sources --source-path=SCRIPTDIR "${scripts[@]}"
[ "$failed" -eq 0 ] || fail "A check failed; 'make fmt' fixes what is only a matter of format."
