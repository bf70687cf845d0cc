#!/usr/bin/env bash
# Makes .venv with the project and its development tools; does nothing while pyproject.toml and the pins are unchanged.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly STAMP=$VENV/.inputs
readonly PINS=orchestrator/constraints.txt

recent_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

makes_venvs() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if have "$candidate" && recent_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

usable_python() {
    local python
    python=$(find_python) && makes_venvs "$python"
}

ensure_python() {
    ! usable_python || return 0
    have apt-get || fail "Python 3.11 or newer is missing; install it (or set PYTHON=…), then run make again."
    "$ROOT/scripts/apt.sh" python3 python3-venv
    hash -r
    usable_python ||
        fail "$(python3 --version) cannot create a virtual environment of Python 3.11 or newer; set PYTHON=… to an interpreter that can."
}

inputs() { { cat pyproject.toml "$PINS" && find_python && pwd; } | sha256sum; }

usable_venv() { made_here "$VENV" && recent_enough "$VENV/bin/python"; }

# Removed instead of cleared: what a link leads to belongs to another tree.
make_venv() {
    rm -rf "$VENV"
    "$(find_python)" -m venv "$VENV"
}

install_project() {
    usable_venv || make_venv
    "$VENV/bin/python" -m pip install --disable-pip-version-check -c "$PINS" -e '.[dev]'
    inputs >"$STAMP"
}

main() {
    lock_the_tree
    ensure_python
    if [ "$(cat "$STAMP" 2>/dev/null)" = "$(inputs)" ]; then return; fi
    step "installing Python packages into .venv" venv.log \
        "Make 'pip download aiohttp' work on this machine (index, proxy, certificates), then run make again." \
        install_project
}

main
