#!/usr/bin/env bash
# fetch.sh PART: gets one part of the images unless it is there. A process for each, so that they can run at once.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly LOCKS=runner-image/packages
readonly CONSOLE_SOURCES=orchestrator/faces/console

daemon_requirements() { "$VENV/bin/python" scripts/requirements.py; }

daemon_inputs() { daemon_requirements && cat orchestrator/constraints.txt; }

fetch_daemon() {
    install_wheels "$(engine_platform)" "$SITE_PACKAGES" -c orchestrator/constraints.txt -r <(daemon_requirements)
    rm -rf "${SITE_PACKAGES:?}/bin"
}

python_inputs() { cat "$LOCKS/programs/requirements.txt"; }

fetch_python() {
    install_wheels "$(engine_platform)" "$PYTHON_PACKAGES" --no-deps -r "$LOCKS/programs/requirements.txt"
    rm -rf "${PYTHON_PACKAGES:?}"/{bin,share}
}

typescript_inputs() { cat "$LOCKS/programs/package-lock.json"; }

fetch_typescript() { install_modules "$LOCKS/programs" "$TYPESCRIPT_PACKAGES"; }

checkers_inputs() { cat "$LOCKS/checkers"/{requirements.txt,package-lock.json}; }

fetch_checkers() {
    local compiler
    install_wheels "$(engine_platform)" "$CHECKERS/wheels" --no-deps -r "$LOCKS/checkers/requirements.txt"
    install_modules "$LOCKS/checkers" "$CHECKERS"
    compiler=$CHECKERS/node_modules/@typescript/typescript-linux-$(npm_platform)/lib
    # npm leaves out an optional package that it takes to be another platform's, and says nothing.
    [ -f "$compiler/tsc" ] || fail "npm $(npm --version) has left out the compiler for the engine's platform; version 10.1 or later gets it."
    mkdir "$CHECKERS/bin"
    install -m 0755 "$CHECKERS/wheels/bin/ty" "$CHECKERS/bin/ty"
    mkdir "$CHECKERS/bin/typescript"
    mv "$compiler"/{tsc,*.d.ts} "$CHECKERS/bin/typescript/"
    rm -rf "$CHECKERS/node_modules/@typescript" "$CHECKERS/wheels"
}

console_inputs() { cat "$CONSOLE_SOURCES/packages/package-lock.json" "$CONSOLE_SOURCES"/editor/*.js; }

# bundle ENTRY RESULT: one module that needs no other, without what only people need.
bundle() {
    NODE_PATH=$CONSOLE/node_modules node "$CONSOLE/node_modules/esbuild-wasm/bin/esbuild" "$1" --outfile="$2" \
        --bundle --minify --format=esm --target=es2022 --log-level=warning
}

fetch_console() {
    local modules=$CONSOLE/node_modules
    install_modules "$CONSOLE_SOURCES/packages" "$CONSOLE"
    bundle "$CONSOLE_SOURCES/editor/editor.js" "$CONSOLE/editor.js"
    bundle "$modules/uplot/dist/uPlot.esm.js" "$CONSOLE/uplot.js"
    cp "$modules/uplot/dist/uPlot.min.css" "$CONSOLE/uplot.css"
    cp "$modules/htm/preact/standalone.module.js" "$CONSOLE/htm.js"
    # Their authors want to be named wherever the code is; the bundles do not do so.
    (cd "$modules" && find . -iname 'licen[cs]e*' -not -path './esbuild-wasm/*' -print0 | sort -z | xargs -0 tail -n +1) >"$CONSOLE/licenses.txt"
    rm -rf "$modules" "$CONSOLE"/package*.json
}

# ensure PART DIRECTORY TITLE PROBE
ensure() {
    local part=$1 directory=$2 inputs
    inputs=$({ "${part}_inputs" && engine_platform; } | sha256sum)
    if [ "$(cat "$directory.inputs" 2>/dev/null)" = "$inputs" ]; then return; fi
    rm -rf "$directory" "$directory.inputs"
    step "fetching $3" "fetch-$part.log" \
        "Make $4 work on this machine (index, proxy, certificates), then run make again." "fetch_$part"
    echo "$inputs" >"$directory.inputs"
}

case $1 in
base | node) exec "$ROOT/scripts/$1.sh" ;;
daemon) ensure daemon "$SITE_PACKAGES" "the daemon's dependencies" "'pip download aiohttp'" ;;
python) ensure python "$PYTHON_PACKAGES" "Python packages for programs" "'pip download pandas'" ;;
typescript) ensure typescript "$TYPESCRIPT_PACKAGES" "TypeScript packages for programs" "'npm view zod'" ;;
checkers) ensure checkers "$CHECKERS" "the checkers of programs" "'pip download ty' and 'npm view typescript'" ;;
console) ensure console "$CONSOLE" "the packages of the console" "'npm view uplot'" ;;
*) fail "There is no part $1 to fetch; use base, node, daemon, python, typescript, checkers or console." ;;
esac
