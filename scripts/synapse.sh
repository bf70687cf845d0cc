#!/usr/bin/env bash
# Installs the Matrix homeserver Synapse into .build/synapse, a virtual environment of its own, for the tests of chat.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly SYNAPSE=$BUILD/synapse
readonly PACKAGE='matrix-synapse>=1.163,<1.164'

python() {
    if [ -x "$VENV/bin/python" ]; then echo "$VENV/bin/python"; else echo "${PYTHON:-python3}"; fi
}

# A venv knows its own path, so it is made in place and its stamp is written last.
install_synapse() {
    "$(python)" -m venv --clear "$SYNAPSE"
    "$SYNAPSE/bin/python" -m pip install --disable-pip-version-check "$PACKAGE"
    echo "$PACKAGE" >"$SYNAPSE/package"
}

main() {
    lock_the_tree
    if [ "$(cat "$SYNAPSE/package" 2>/dev/null)" = "$PACKAGE" ]; then return; fi
    step "installing Synapse into .build/synapse" synapse.log \
        "Make 'pip download matrix-synapse' work on this machine (index, proxy, certificates), then run this again." \
        install_synapse
}

main
