#!/usr/bin/env bash
# Installs MCP clients that others wrote into .build/clients, for the tests that connect them to the daemon.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/npm.sh"

lock_the_tree
"$ROOT/scripts/node.sh"
ensure_packages "MCP clients" "$BUILD/clients" \
    @modelcontextprotocol/conformance@0.1.16 \
    @modelcontextprotocol/inspector@2.12.0 \
    @anthropic-ai/claude-code@2.1.325
