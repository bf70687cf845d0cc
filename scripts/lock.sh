#!/usr/bin/env bash
# Pins every direct and transitive dependency anew, from a clean resolve of pyproject.toml.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly PINS=orchestrator/constraints.txt
readonly FRESH=$BUILD/lock-venv

requirements() {
    "$VENV/bin/python" - <<'END'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")
END
}

resolve() {
    "$VENV/bin/python" -m venv --clear "$FRESH"
    "$FRESH/bin/python" -m pip install --disable-pip-version-check -r <(requirements)
    {
        echo "# Written by 'make lock'; holds for the daemon's image and for .venv."
        "$FRESH/bin/python" -m pip freeze
    } >"$PINS.new"
    mv "$PINS.new" "$PINS"
    rm -rf "$FRESH"
}

[ -x "$VENV/bin/python" ] || fail "There is no .venv yet; run 'make venv' first."
step "resolving the dependencies" lock.log "Make 'pip download aiohttp' work on this machine, then run make again." resolve
