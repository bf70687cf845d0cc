#!/usr/bin/env bash
# Installs MCP clients that others wrote into .build/clients, for the tests that connect them to the daemon.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly CLIENTS=$BUILD/clients
readonly NPM_PACKAGES=(
    @modelcontextprotocol/conformance@0.1.16
    @modelcontextprotocol/inspector@2.12.0
    @anthropic-ai/claude-code@2.1.325
)

# The directory appears under its name only when it is complete. npm and the packages' own install scripts
# run on the Node.js that will run the packages.
install_clients() {
    local staging
    staging=$(mktemp -d "$BUILD/clients.XXXXXX")
    PATH=$BUILD/node/bin:$PATH npm install --prefix "$staging" --no-audit --no-fund --omit=dev --loglevel=error \
        "${NPM_PACKAGES[@]}"
    printf '%s\n' "${NPM_PACKAGES[@]}" >"$staging/packages"
    chmod 0755 "$staging"
    rm -rf "$CLIENTS"
    mv "$staging" "$CLIENTS"
}

clients_are_there() { [ "$(cat "$CLIENTS/packages" 2>/dev/null)" = "$(printf '%s\n' "${NPM_PACKAGES[@]}")" ]; }

main() {
    lock_the_tree
    "$ROOT/scripts/node.sh"
    clients_are_there || step "fetching MCP clients" clients.log \
        "Make 'npm view ${NPM_PACKAGES[0]}' work on this machine (registry, proxy, certificates), then run this again." \
        install_clients
}

main
