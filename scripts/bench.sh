#!/usr/bin/env bash
# Measures the product beside its alternatives, with the packages that only this needs in .build/bench-venv.
# BENCH holds the benchmark's own options; `make bench BENCH=--help` shows them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly BENCH_VENV=$BUILD/bench-venv
readonly PINS=orchestrator/constraints.txt

inputs() { { cat pyproject.toml "$PINS" && "$VENV/bin/python" --version && pwd; } | sha256sum; }

install_packages() {
    "$VENV/bin/python" -m venv --clear "$BENCH_VENV"
    "$BENCH_VENV/bin/python" -m pip install --disable-pip-version-check -c "$PINS" -e '.[bench]'
    inputs >"$BENCH_VENV/.inputs"
}

ensure_packages() {
    if [ "$(cat "$BENCH_VENV/.inputs" 2>/dev/null)" = "$(inputs)" ]; then return; fi
    step "installing the benchmark's packages" bench-venv.log \
        "Make 'pip download llm-sandbox' work on this machine (index, proxy, certificates), then run make again." \
        install_packages
}

# One contestant more; without it the benchmark says that it does not take part.
ensure_bubblewrap() {
    if have bwrap || ! have apt-get || ! is_root; then return; fi
    "$ROOT/scripts/apt.sh" bubblewrap || warn "bubblewrap could not be installed; its rows will be missing."
}

main() {
    local options
    read -ra options <<<"${BENCH:-}"
    "$ROOT/scripts/node.sh"
    "$ROOT/scripts/mcp_servers.sh"
    ensure_bubblewrap
    ensure_packages
    exec "$BENCH_VENV/bin/python" -m bench "${options[@]}"
}

main
