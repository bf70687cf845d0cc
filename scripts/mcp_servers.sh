#!/usr/bin/env bash
# Installs real MCP servers into .build/mcp-servers and PyPI's mcp-proxy into .build/mcp-proxy, for the tests on them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

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

# The directory appears under its name only when it is complete.
install_servers() {
    local staging
    staging=$(mktemp -d "$BUILD/mcp-servers.XXXXXX")
    npm install --prefix "$staging" --no-audit --no-fund --omit=dev --loglevel=error "${NPM_PACKAGES[@]}"
    printf '%s\n' "${NPM_PACKAGES[@]}" >"$staging/packages"
    chmod 0755 "$staging"
    rm -rf "$SERVERS"
    mv "$staging" "$SERVERS"
}

# A venv knows its own path, so it is made in place and its stamp is written last.
install_proxy() {
    "$(python)" -m venv --clear "$PROXY"
    "$PROXY/bin/python" -m pip install --disable-pip-version-check "$PROXY_PACKAGE"
    echo "$PROXY_PACKAGE" >"$PROXY/package"
}

servers_are_there() { [ "$(cat "$SERVERS/packages" 2>/dev/null)" = "$(printf '%s\n' "${NPM_PACKAGES[@]}")" ]; }

proxy_is_there() { [ "$(cat "$PROXY/package" 2>/dev/null)" = "$PROXY_PACKAGE" ]; }

main() {
    lock_the_tree
    ensure_node
    servers_are_there || step "fetching MCP servers" mcp-servers.log \
        "Make 'npm view ${NPM_PACKAGES[0]}' work on this machine (registry, proxy, certificates), then run this again." \
        install_servers
    proxy_is_there || step "installing mcp-proxy" mcp-proxy.log \
        "Make 'pip download mcp-proxy' work on this machine (index, proxy, certificates), then run this again." \
        install_proxy
}

main
