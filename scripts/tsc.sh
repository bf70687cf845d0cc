#!/usr/bin/env bash
# Installs the TypeScript compiler into .build/tsc, for the tests that compile generated wrappers.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/npm.sh"

lock_the_tree
"$ROOT/scripts/node.sh"
ensure_packages "the TypeScript compiler" "$BUILD/tsc" typescript@7.0.2 @types/node@24.19.2
