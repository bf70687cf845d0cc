#!/bin/sh
# Becomes PostgreSQL with a database `app` and a role `mcp_reader` that can read it and nothing else. Runs in our image
# and in the one of the registry alike. Its superuser is reached from inside the container only:
# docker exec -it mcp-postgres psql -U postgres app
set -eu
: "${PGDATA:?}" "${MCP_POSTGRES_PASSWORD:?}"

# The statements hold a password: not even a failing one goes to the log.
as_superuser() { postgres --single -D "$1" -c log_min_error_statement=panic -c jit=off "$2" >/dev/null; }

# A start that is interrupted must not leave half a cluster behind under the final name.
make_cluster() {
    new=$PGDATA.new
    rm -rf "$new"
    initdb --pgdata="$new" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --auth-local=peer --auth-host=reject
    echo "CREATE DATABASE app;" | as_superuser "$new" postgres
    mv "$new" "$PGDATA"
}

# On every start, because the password in secrets/ may have been made anew, and because a role may change its own password and
# settings. The server's sessions are shared by all callers, so none may end them, lock in them or let them sleep; nor may a
# reader fill the disk. In this mode of PostgreSQL a line is a statement.
make_reader() {
    as_superuser "$PGDATA" app <<END
DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'mcp_reader') THEN CREATE ROLE mcp_reader; END IF; END \$\$;
ALTER ROLE mcp_reader LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE CONNECTION LIMIT 40 PASSWORD '$MCP_POSTGRES_PASSWORD';
ALTER ROLE mcp_reader RESET ALL;
ALTER ROLE mcp_reader IN DATABASE app RESET ALL;
ALTER ROLE mcp_reader SET default_transaction_read_only = on;
ALTER ROLE mcp_reader SET statement_timeout = '60s';
ALTER ROLE mcp_reader SET temp_file_limit = '512MB';
DO \$\$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname ~ '^(pg_((terminate|cancel)_backend|sleep|(try_)?advisory_|logical_emit_message)|lo_|lowrite\$)' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END \$\$;
GRANT pg_read_all_data TO mcp_reader;
REVOKE CONNECT, TEMPORARY ON DATABASE app FROM PUBLIC;
GRANT CONNECT ON DATABASE app TO mcp_reader;
END
}

allow_reader() {
    cat >"$PGDATA/pg_hba.conf" <<END
local all postgres                peer
host  app mcp_reader samenet      scram-sha-256
END
}

[ -s "$PGDATA/PG_VERSION" ] || make_cluster
make_reader
allow_reader
exec postgres -c listen_addresses='*' -c jit=off -c password_encryption=scram-sha-256
