#!/usr/bin/env bash
# Pins every direct and transitive dependency anew: of pyproject.toml and of the MCP servers.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly PINS=orchestrator/constraints.txt
readonly FRESH=$BUILD/lock-venv
readonly PACKAGES=deploy/stack/packages

# resolve REQUIREMENTS PINS COMMENT
resolve() {
    "$VENV/bin/python" -m venv --clear "$FRESH"
    "$FRESH/bin/python" -m pip install --disable-pip-version-check -r "$1"
    {
        echo "# $3"
        "$FRESH/bin/python" -m pip freeze
    } >"$2.new"
    mv "$2.new" "$2"
    rm -rf "$FRESH"
}

resolve_project() {
    "$VENV/bin/python" scripts/requirements.py dev >"$BUILD/requirements.in"
    resolve "$BUILD/requirements.in" "$PINS" "Written by 'make lock'; holds for the daemon's image and for .venv."
}

# Integrity without addresses: the registry is whichever npm is configured for.
resolve_npm() {
    (cd "$1" && rm -f package-lock.json &&
        npm install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund)
}

resolve_servers() {
    local file
    for file in "$PACKAGES"/*/requirements.in; do
        resolve "$file" "${file%.in}.txt" "Written by 'make lock' from requirements.in."
    done
    for file in "$PACKAGES"/*/package.json; do
        resolve_npm "$(dirname "$file")"
    done
}

[ -x "$VENV/bin/python" ] || fail "There is no .venv yet; run 'make venv' first."
step "resolving the dependencies" lock.log "Make 'pip download aiohttp' work on this machine, then run make again." \
    resolve_project
step "resolving those of the MCP servers" lock-servers.log "Make 'npm view mcp-minio' work on this machine, then run make again." \
    resolve_servers
