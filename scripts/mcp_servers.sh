#!/usr/bin/env bash
# Installs real MCP servers into .build/mcp-servers and PyPI's mcp-proxy into .build/mcp-proxy, for the tests on them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/npm.sh"

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

python() {
    if [ -x "$VENV/bin/python" ]; then echo "$VENV/bin/python"; else echo "${PYTHON:-python3}"; fi
}

# A venv knows its own path, so it is made in place and its stamp is written last.
install_proxy() {
    "$(python)" -m venv --clear "$PROXY"
    "$PROXY/bin/python" -m pip install --disable-pip-version-check "$PROXY_PACKAGE"
    echo "$PROXY_PACKAGE" >"$PROXY/package"
}

proxy_is_there() { [ "$(cat "$PROXY/package" 2>/dev/null)" = "$PROXY_PACKAGE" ]; }

main() {
    lock_the_tree
    ensure_node
    ensure_packages "MCP servers" "$SERVERS" "${NPM_PACKAGES[@]}"
    proxy_is_there || step "installing mcp-proxy" mcp-proxy.log \
        "Make 'pip download mcp-proxy' work on this machine (index, proxy, certificates), then run this again." \
        install_proxy
}

main
