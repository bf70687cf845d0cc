#!/usr/bin/env bash
# Installs the Matrix homeserver Synapse into .build/synapse, a virtual environment of its own, for the tests of chat.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/pip.sh"

lock_the_tree
ensure_environment "$BUILD/synapse" 'matrix-synapse>=1.163,<1.164'
