#!/usr/bin/env bash
# Installs real MCP servers into .build/mcp-servers and PyPI's mcp-proxy into .build/mcp-proxy, for the tests on them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/npm.sh"
. "$(dirname "$0")/pip.sh"

readonly SERVERS=$BUILD/mcp-servers
readonly PROXY=$BUILD/mcp-proxy
readonly NPM_PACKAGES=(
    @modelcontextprotocol/server-filesystem@2026.8.31
    @modelcontextprotocol/server-memory@2026.8.31
)
readonly PROXY_PACKAGE='mcp-proxy>=0.13,<0.14'

node_is_recent() { [ "$("$1" -p 'Number(process.versions.node.split(".")[0]) >= 20' 2>/dev/null)" = true ]; }

ensure_node() {
    ! node_is_recent "$BUILD/node/bin/node" || return 0
    ! node_is_recent node || return 0
    "$ROOT/scripts/node.sh"
}

main() {
    lock_the_tree
    ensure_node
    ensure_packages "MCP servers" "$SERVERS" "${NPM_PACKAGES[@]}"
    ensure_environment "$PROXY" "$PROXY_PACKAGE"
}

main
