#!/bin/sh
# Becomes PostgreSQL with a database `app`. Runs in our image and in the one of the registry alike. The roles:
#   mcp_user    the MCP server `postgres` logs in as it. It reads everything, and as a member of mcp_owner it also writes,
#               unless MCP_POSTGRES_READ_ONLY is true or the volume is full
#   mcp_owner   cannot log in; may create in the database, and owns the sample and what mcp_user made before the last start
#   mcp_reader  reads everything; for servers that only read. Cannot log in where it is given no password
# The superuser is reached from inside the container only: docker exec -it mcp-postgres psql -U postgres app
# MCP_POSTGRES_EXTENSION names an extension that has to be loaded when the server starts, and that the database then has.
set -eu
: "${PGDATA:?}" "${MCP_POSTGRES_PASSWORD:?}"
READ_ONLY=${MCP_POSTGRES_READ_ONLY:-false}
MAX_MEGABYTES=${MCP_POSTGRES_MAX_MEGABYTES:-4096}
EXTENSION=${MCP_POSTGRES_EXTENSION:-}
LOOK_EVERY_SECONDS=5
# Not below the data, because that moves when it is complete.
SAMPLE_OFFERED=$PGDATA.sample-offered
EXTENSION_MADE=$PGDATA.extension-made
HERE=$(dirname "$0")

case $READ_ONLY in true | false) ;; *) echo "MCP_POSTGRES_READ_ONLY must be true or false, not $READ_ONLY." >&2 && exit 64 ;; esac
case $MAX_MEGABYTES in '' | *[!0-9]*) echo "MCP_POSTGRES_MAX_MEGABYTES must be a number, not $MAX_MEGABYTES." >&2 && exit 64 ;; esac

# The statements hold a password: not even a failing one goes to the log. Whoever writes to the schema `public` could put
# functions and operators in the way of ours, so only those of the system are found.
# A statement that fails ends the start: no role may keep rights that it should have lost.
# Not through a pipe: after a crash, the server's id is that of this shell, and only a parent of that id is no other server.
as_superuser() {
    statements=$1 && shift
    postgres --single "$@" -D "$PGDATA" -c exit_on_error=on -c log_min_error_statement=panic -c jit=off \
        -c search_path=pg_catalog -c shared_preload_libraries="$EXTENSION" app >/dev/null <<END
$statements
END
}

# A start that is interrupted must not leave half a cluster behind under the final name.
make_cluster() {
    new=$PGDATA.new
    rm -rf "$new"
    initdb --pgdata="$new" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --auth-local=peer --auth-host=reject
    echo "CREATE DATABASE app;" | postgres --single -D "$new" -c exit_on_error=on postgres >/dev/null
    mv "$new" "$PGDATA"
}

# On every start, because the password in secrets/ may have been made anew, and because a role may change its own password and
# settings. The server's sessions are shared by all callers, so none may end them, lock in them or let them sleep; nor may a
# query fill the disk. In this mode of PostgreSQL a line is a statement.
make_roles() {
    for role in mcp_owner mcp_user mcp_reader; do
        echo "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '$role') THEN CREATE ROLE $role; END IF; END \$\$;"
        echo "ALTER ROLE $role NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT PASSWORD NULL;"
        echo "ALTER ROLE $role RESET ALL;"
        echo "ALTER ROLE $role IN DATABASE app RESET ALL;"
    done
    # A role may make others members of itself.
    echo "DO \$\$ DECLARE m record; BEGIN FOR m IN SELECT roleid::regrole r, member::regrole s FROM pg_auth_members WHERE roleid::regrole::text IN ('mcp_owner', 'mcp_user', 'mcp_reader') AND member::regrole::text IN ('mcp_owner', 'mcp_user', 'mcp_reader') LOOP EXECUTE format('REVOKE %s FROM %s', m.r, m.s); END LOOP; END \$\$;"
    for role in mcp_user mcp_reader; do
        echo "ALTER ROLE $role LOGIN CONNECTION LIMIT 20;"
        echo "ALTER ROLE $role SET statement_timeout = '60s';"
        echo "ALTER ROLE $role SET lock_timeout = '30s';"
        echo "ALTER ROLE $role SET idle_in_transaction_session_timeout = '60s';"
        echo "ALTER ROLE $role SET temp_file_limit = '512MB';"
        echo "GRANT pg_read_all_data TO $role;"
    done
    echo "ALTER ROLE mcp_user PASSWORD '$MCP_POSTGRES_PASSWORD';"
    [ -z "${MCP_POSTGRES_READER_PASSWORD:-}" ] || echo "ALTER ROLE mcp_reader PASSWORD '$MCP_POSTGRES_READER_PASSWORD';"
    echo "ALTER ROLE mcp_reader SET default_transaction_read_only = on;"
    echo "DO \$\$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^(pg_((terminate|cancel)_backend|sleep|(try_)?advisory_|logical_emit_message)|lo_|lowrite\$)' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END \$\$;"
    # What a superuser has created stays his own; what callers have created belongs to the role that can lose its rights.
    echo "REASSIGN OWNED BY mcp_user, mcp_reader TO mcp_owner;"
    echo "DROP OWNED BY mcp_user, mcp_reader;"
    echo "REVOKE CONNECT, TEMPORARY ON DATABASE app FROM PUBLIC;"
    echo "GRANT CONNECT ON DATABASE app TO mcp_user, mcp_reader;"
    echo "GRANT CREATE ON DATABASE app TO mcp_owner;"
    echo "GRANT CREATE ON SCHEMA public TO mcp_owner;"
}

# An extension of another version than the one that is installed does not load, and can only be updated by the first statement
# of a session: so even asking whether there is one would be too late.
ensure_extension() {
    [ -n "$EXTENSION" ] || return 0
    if [ -e "$EXTENSION_MADE" ]; then
        as_superuser "ALTER EXTENSION $EXTENSION UPDATE;"
    else
        as_superuser "CREATE EXTENSION IF NOT EXISTS $EXTENSION SCHEMA public;"
        : >"$EXTENSION_MADE"
    fi
}

# By rights, because any session can leave a read-only transaction. A right that was given to everybody would remain, and
# a function or an aggregate may run with the rights of its owner.
forbid_writing() {
    echo "REVOKE mcp_owner FROM mcp_user;"
    echo "REASSIGN OWNED BY mcp_user TO mcp_owner;"
    echo "DROP OWNED BY mcp_user;"
    echo "GRANT CONNECT ON DATABASE app TO mcp_user;"
    echo "DO \$\$ DECLARE o record; BEGIN FOR o IN SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, oid::regclass AS name FROM pg_class WHERE relowner = 'mcp_owner'::regrole AND relkind IN ('r', 'v', 'm', 'p', 'f', 'S') LOOP EXECUTE format('REVOKE ALL ON %s %s FROM PUBLIC, mcp_reader CASCADE', o.kind, o.name); END LOOP; END \$\$;"
    echo "DO \$\$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proowner = 'mcp_owner'::regrole LOOP EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC, mcp_reader CASCADE', f); END LOOP; END \$\$;"
    echo "DO \$\$ DECLARE s regnamespace; BEGIN FOR s IN SELECT oid FROM pg_namespace WHERE nspowner = 'mcp_owner'::regrole LOOP EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM PUBLIC, mcp_reader CASCADE', s); END LOOP; END \$\$;"
}

allow_writing() { echo "GRANT mcp_owner TO mcp_user;"; }

allow_connections() {
    cat >"$PGDATA/pg_hba.conf" <<END
local all postgres                       peer
host  app mcp_user,mcp_reader samenet    scram-sha-256
END
}

# Once for each volume: whoever deletes the sample does not find it again.
offer_sample() {
    as_superuser "$(cat "$HERE/sample.sql")" -j
    : >"$SAMPLE_OFFERED"
}

# Without the write-ahead log: it has a limit of its own below, and stays for a while after what it was written for is gone.
megabytes_used() { du -sm --exclude=pg_wal "$(dirname "$PGDATA")" 2>/dev/null | cut -f1; }
is_full() { [ "$(megabytes_used)" -gt "$MAX_MEGABYTES" ]; }
has_room() { [ "$(megabytes_used)" -le "$((MAX_MEGABYTES * 9 / 10))" ]; }

# psql reads nobody's settings and asks for nothing.
while_running() { PGOPTIONS='-c search_path=pg_catalog' psql --no-psqlrc --quiet --no-password -v ON_ERROR_STOP=1 -U postgres app >/dev/null; }

# PostgreSQL has no quotas: while the volume holds too much, nobody but the superuser writes. Sessions are ended first,
# because they hold locks, and because what they have not committed takes up room.
watch_volume() {
    while sleep "$LOOK_EVERY_SECONDS"; do
        if [ "$WRITING" = allowed ] && is_full; then
            echo "The volume holds more than $MAX_MEGABYTES MB: mcp_user may not write until the superuser has deleted something." >&2
            {
                echo "ALTER ROLE mcp_user NOLOGIN;"
                echo "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mcp_user';"
                forbid_writing
                echo "ALTER ROLE mcp_user LOGIN;"
            } | while_running && WRITING=forbidden
        elif [ "$WRITING" = forbidden ] && has_room; then
            echo "The volume has room again: mcp_user may write." >&2
            allow_writing | while_running && WRITING=allowed
        fi
    done
}

[ -s "$PGDATA/PG_VERSION" ] || make_cluster
ensure_extension
as_superuser "$(make_roles)"
[ -e "$SAMPLE_OFFERED" ] || offer_sample
if [ "$READ_ONLY" = true ] || is_full; then
    WRITING=forbidden
    as_superuser "$(forbid_writing)"
else
    WRITING=allowed
    as_superuser "$(allow_writing)"
fi
# As a child of init: of its own children, PostgreSQL expects that they are its sessions.
[ "$READ_ONLY" = true ] || (watch_volume &)
allow_connections
exec postgres -c listen_addresses='*' -c jit=off -c password_encryption=scram-sha-256 -c max_wal_size=512MB \
    -c shared_preload_libraries="$EXTENSION"
