#!/usr/bin/env bash
# Takes Node.js from the npm registry (the package holds the binary) into .build/node/bin/node.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly NODE_VERSION=24.21.0
readonly NODE=$BUILD/node

# The engine's architecture, not this machine's: the engine may live in a virtual machine.
architecture() {
    local machine
    machine=$(docker info --format '{{.Architecture}}' 2>/dev/null) || machine=$(uname -m)
    case $machine in
    x86_64 | amd64) echo x64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) fail "There is no Node.js package for $machine; use a machine with an x86_64 or arm64 engine." ;;
    esac
}

# npm checks the archive against the registry's own digest.
fetch() {
    local package=$1 staging
    staging=$(mktemp -d "$BUILD/node.XXXXXX")
    (cd "$staging" && npm pack --loglevel=error "$package" && tar -xzf ./*.tgz)
    ! have strip || strip "$staging/package/bin/node" || true
    rm -rf "$NODE"
    mkdir -p "$NODE/bin"
    install -m 0755 "$staging/package/bin/node" "$NODE/bin/node"
    echo "$package" >"$NODE/package"
    rm -rf "$staging"
}

main() {
    local package
    package=node-linux-$(architecture)@$NODE_VERSION
    if [ "$(cat "$NODE/package" 2>/dev/null)" = "$package" ]; then return; fi
    have npm || "$ROOT/scripts/apt.sh" npm binutils
    step "fetching Node.js $NODE_VERSION" node.log \
        "Make 'npm view $package' work on this machine (registry, proxy, certificates), then run make again." \
        fetch "$package"
}

main
