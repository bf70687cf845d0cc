#!/usr/bin/env bash
# Puts the data of a backup in place of what the daemon has.
#   FILE=path    the backup
#   FORCE=1      also in place of newer data
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/owner.sh"
. "$ROOT/scripts/data.sh"
. "$ROOT/scripts/ready.sh"

is_running() { [ "$(docker inspect --format '{{.State.Running}}' "$DAEMON" 2>/dev/null)" = true ]; }

# The newest migration, which is the newest version of a journal that the daemon of this directory knows.
known_version() { basename -a orchestrator/journals/migrations/*.sql | sort | tail -n 1 | sed -E 's/^0*([0-9]+)_.*/\1/'; }

from_file() { on_data "$1" "$(known_version)" ${FORCE:+--force} <"$FILE"; }

start_again() {
    step "starting the daemon" compose.log "Start it with 'make up'." docker start "$DAEMON"
    step "waiting until it is ready" ready.log "The cause is in the lines above; 'make doctor' checks the parts." wait_until_ready
}

main() {
    local was_running='' status=0
    [ -n "${FILE:-}" ] || fail "Say which backup: make restore FILE=backups/….tar.gz"
    [ -r "$FILE" ] || fail "$FILE cannot be read."
    lock_the_tree
    require_engine_and_image
    refuse_if_started_elsewhere
    ensure_volume
    step "looking at the backup" restore.log "Nothing was changed." from_file check
    ! is_running || was_running=yes
    [ -z "$was_running" ] || step "stopping the daemon" down.log "The engine's message is above." docker stop --time 30 "$DAEMON"
    # A daemon that ran runs again in any case: what cannot be restored leaves its data as it was.
    (step "restoring the data" restore.log "The data is as it was." from_file restore) || status=$?
    [ -z "$was_running" ] || start_again
    [ "$status" -eq 0 ] || exit "$status"
    say
    say "restored: $(tail -n 1 "$LOGS/restore.log")."
    [ -n "$was_running" ] || say "Start the daemon with 'make up'."
}

main
