#!/usr/bin/env bash
# The daemon's log; follows it unless FOLLOW=0. JSON goes to stdout, so that `make logs | jq` works, the rest to stderr.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

docker inspect "$DAEMON" >/dev/null 2>&1 || fail "The daemon is not running; start it with 'make up'."
if [ "${FOLLOW:-1}" = 0 ]; then
    exec "$(any_python)" scripts/log_lines.py docker logs --tail "${TAIL:-200}" "$DAEMON"
fi
exec "$(any_python)" scripts/log_lines.py docker logs --follow --tail "${TAIL:-50}" "$DAEMON"
