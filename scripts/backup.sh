#!/usr/bin/env bash
# Backs up the daemon's data volume into one file, also while the daemon runs.
#   FILE=path    where to; by default a new file in backups/
#   FORCE=1      replaces a file that is there
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/data.sh"

file=${FILE:-backups/code-executor-$(date -u +%Y%m%dT%H%M%SZ).tar.gz}

write_backup() { on_data backup >"$file.partial"; }

main() {
    require_data
    [ ! -e "$file" ] || [ -n "${FORCE:-}" ] || fail "$file exists already; name another FILE, or replace it with FORCE=1."
    mkdir -p "$(dirname "$file")"
    # It holds what programs printed. Whole or not at all: one that broke off has another name.
    (umask 077 && : >"$file.partial")
    trap 'rm -f "$file.partial"' EXIT
    step "backing up the data" backup.log "The message is above." write_backup
    mv "$file.partial" "$file"
    say
    say "$file: $(du -h "$file" | cut -f1), $(tail -n 1 "$LOGS/backup.log")"
    say "It holds the daemon's data. Keys (secrets/), roles.json, servers.d/, .env and the data of the MCP servers are not in it."
}

main
