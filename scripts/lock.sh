#!/usr/bin/env bash
# Pins every direct and transitive dependency anew: of pyproject.toml, of the runner image, of the console, of the MCP servers and
# of the clients in the tests.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly PINS=orchestrator/constraints.txt
readonly FRESH=$BUILD/lock-venv
readonly PACKAGES=deploy/stack/packages
readonly RUNNER_PACKAGES=runner-image/packages
readonly CONSOLE_PACKAGES=orchestrator/faces/console/packages
readonly CLIENTS=tests/clients/environments

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

# resolve_each DIRECTORY: whatever is in its directories.
resolve_each() {
    local file
    for file in "$1"/*/requirements.in; do
        resolve "$file" "${file%.in}.txt" "Written by 'make lock' from requirements.in."
    done
    for file in "$1"/*/package.json; do
        resolve_npm "$(dirname "$file")"
    done
}

# resolve_wheels REQUIREMENTS PINS: with hashes, because what programs import is fetched for either platform.
resolve_wheels() {
    local platform reports=()
    for platform in x86_64 aarch64; do
        reports+=("$BUILD/lock-$platform.json")
        install_wheels "$platform" "$FRESH" --dry-run --ignore-installed --report "$BUILD/lock-$platform.json" -r "$1"
    done
    {
        echo "# Written by 'make lock' from requirements.in."
        "$VENV/bin/python" scripts/wheel_hashes.py "${reports[@]}"
    } >"$2.new"
    mv "$2.new" "$2"
    rm -f "${reports[@]}"
}

resolve_runner() {
    local directory
    for directory in "$RUNNER_PACKAGES"/*; do
        resolve_wheels "$directory/requirements.in" "$directory/requirements.txt"
        resolve_npm "$directory"
    done
}

[ -x "$VENV/bin/python" ] || fail "There is no .venv yet; run 'make venv' first."
step "resolving the dependencies" lock.log "Make 'pip download aiohttp' work on this machine, then run make again." \
    resolve_project
step "resolving those of the runner image" lock-runner.log "Make 'pip download pandas' and 'npm view zod' work on this machine, then run make again." \
    resolve_runner
step "resolving those of the console" lock-console.log "Make 'npm view uplot' work on this machine, then run make again." \
    resolve_npm "$CONSOLE_PACKAGES"
step "resolving those of the MCP servers" lock-servers.log "Make 'npm view mcp-minio' work on this machine, then run make again." \
    resolve_each "$PACKAGES"
step "resolving those of the clients in the tests" lock-clients.log "Make 'npm view ai' work on this machine, then run make again." \
    resolve_each "$CLIENTS"
