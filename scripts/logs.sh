#!/usr/bin/env bash
# The daemon's log; follows it unless FOLLOW=0.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

docker inspect "$DAEMON" >/dev/null 2>&1 || fail "The daemon is not running; start it with 'make up'."
if [ "${FOLLOW:-1}" = 0 ]; then
    exec docker logs --tail "${TAIL:-200}" "$DAEMON"
fi
exec docker logs --follow --tail "${TAIL:-50}" "$DAEMON"
