# shellcheck shell=bash
# Sourced by what starts and what removes: what on the engine belongs to this directory, and not to another clone, to the
# tests or to a benchmark.

# The ids under which sandboxes were made here, one on a line: the launcher's, and those of versions before it. The file is
# there, though empty, as soon as make up has made anything; it stays when the launcher's container, which knows its id
# too, is gone.
readonly OWNER_FILE=$BUILD/owner
readonly OWNER_SECONDS=10
readonly WORKING_DIR=com.docker.compose.project.working_dir

claim() { touch "$OWNER_FILE"; }

claimed() { [ -e "$OWNER_FILE" ]; }

owners() { cat "$OWNER_FILE" 2>/dev/null || true; }

# A launcher that does not run cannot be asked; then what is known already has to do.
remember_owner() {
    local id
    id=$(timeout --foreground "$OWNER_SECONDS" docker exec --interactive "$LAUNCHER" /usr/bin/python3 -I -S - \
        <"$ROOT/scripts/inside/owner_id.py" 2>/dev/null) || return 0
    [ -z "$id" ] || grep -qxsF "$id" "$OWNER_FILE" || echo "$id" >>"$OWNER_FILE"
}

# The directory of the make that started the daemon, or, without a daemon, its servers.
started_in() {
    local directory
    directory=$(docker container inspect --format "{{index .Config.Labels \"$WORKING_DIR\"}}" "$DAEMON" 2>/dev/null) ||
        directory=$(docker ps --all --filter "label=com.docker.compose.project=$PROJECT" \
            --format "{{.Label \"$WORKING_DIR\"}}" | head -n 1)
    printf '%s' "$directory"
}

# Names and volumes are fixed, so there is one daemon on an engine. The same directory may have several paths.
refuse_if_started_elsewhere() {
    local directory
    directory=$(started_in)
    [ -z "$directory" ] || [ "$directory" -ef "$ROOT" ] ||
        fail "The daemon and its servers were started in $directory, not here; run 'make down' there, or 'make up' here, which takes them over."
}
