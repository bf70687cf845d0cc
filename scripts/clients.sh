#!/usr/bin/env bash
# clients.sh [NAME…]: installs MCP clients that others wrote (all, or those named) into .build/clients, each as its lock
# in tests/clients/environments says, for the tests that connect them to the daemon.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly LOCKS=tests/clients/environments
readonly CLIENTS=$BUILD/clients

needs_node() { [ -e "$LOCKS/$1/package-lock.json" ]; }

# A virtual environment knows its own path and its interpreter; a lock alone does not tell whether it still works.
inputs() { { cat "$LOCKS/$1"/* && echo "$CLIENTS/$1" && any_python; } | sha256sum; }

is_there() { [ "$(cat "$CLIENTS/$1/.inputs" 2>/dev/null)" = "$(inputs "$1")" ]; }

# The packages' own install scripts run on the Node.js that will run the packages. Not 'npm ci': it refuses a lock that
# lacks the binaries of other systems, which not every registry has.
fetch_npm() {
    cp "$LOCKS/$1/package.json" "$LOCKS/$1/package-lock.json" "$CLIENTS/$1"
    (cd "$CLIENTS/$1" && PATH=$BUILD/node/bin:$PATH npm install --no-audit --no-fund --omit=dev --loglevel=error)
}

# Everything is pinned, so nothing is resolved; modules are compiled when they are first imported, which most never are.
fetch_pip() {
    "$(any_python)" -m venv --without-pip "$CLIENTS/$1"
    "$(any_python)" -m pip --python "$CLIENTS/$1/bin/python" --disable-pip-version-check \
        install --quiet --no-deps --no-compile -r "$LOCKS/$1/requirements.txt"
}

fetch() {
    local began=$SECONDS
    rm -rf "${CLIENTS:?}/$1"
    mkdir -p "$CLIENTS/$1"
    if needs_node "$1"; then fetch_npm "$1"; else fetch_pip "$1"; fi
    inputs "$1" >"$CLIENTS/$1/.inputs"
    echo "$1: $((SECONDS - began)) s, $(du -sm "$CLIENTS/$1" | cut -f1) MB"
}

# Two at a time: one waits for the network while the other unpacks.
fetch_all() { printf '%s\n' "$@" | xargs -n 1 -P 2 "$ROOT/scripts/clients.sh" --fetch; }

main() {
    local name names=("$@") missing=()
    [ "$#" -gt 0 ] || mapfile -t names < <(find "$LOCKS" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
    lock_the_tree
    for name in "${names[@]}"; do
        [ -d "$LOCKS/$name" ] || fail "There is no client '$name' in $LOCKS."
        is_there "$name" || missing+=("$name")
    done
    "$ROOT/scripts/node.sh"
    [ "${#missing[@]}" -gt 0 ] || return 0
    step "installing MCP clients: ${#missing[@]}" clients.log \
        "Make 'npm view npm' and 'pip download pip' work on this machine (registry, index, proxy), then run this again." \
        fetch_all "${missing[@]}"
}

if [ "${1:-}" = --fetch ]; then fetch "$2"; else main "$@"; fi
