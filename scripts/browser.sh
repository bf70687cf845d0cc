#!/usr/bin/env bash
# Gets what the tests of the console need: Debian's Chromium, Playwright in .venv, and axe-core in .build/axe.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly LOCK=tests/console/packages
readonly AXE=$BUILD/axe
readonly PINS=orchestrator/constraints.txt

install_playwright() {
    "$VENV/bin/python" -m pip install --disable-pip-version-check -c "$PINS" -e '.[browser]'
}

install_axe() {
    rm -rf "$AXE"
    install_modules "$LOCK" "$AXE"
    cp "$LOCK/package-lock.json" "$AXE/installed"
}

main() {
    lock_the_tree
    [ -x /usr/bin/chromium ] || "$ROOT/scripts/apt.sh" chromium
    have npm || "$ROOT/scripts/apt.sh" npm
    "$VENV/bin/python" -c 'import playwright' 2>/dev/null ||
        step "installing Playwright" playwright.log \
            "Make 'pip download playwright' work on this machine (index, proxy, certificates), then run make again." \
            install_playwright
    cmp --silent "$LOCK/package-lock.json" "$AXE/installed" ||
        step "fetching axe-core" axe.log \
            "Make 'npm view axe-core' work on this machine (registry, proxy, certificates), then run make again." \
            install_axe
}

main
