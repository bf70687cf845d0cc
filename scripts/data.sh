# shellcheck shell=bash
# Sourced by what backs up and restores: the daemon's data volume, and how to work on it.

readonly DATA_DIRECTORY=/var/lib/code-executor

require_engine_and_image() {
    engine_answers || { refuse_if_denied && fail "The container engine does not answer; 'make up' starts it."; }
    docker image inspect "$ORCHESTRATOR_IMAGE" >/dev/null 2>&1 || fail "The daemon's image is missing; run 'make up' first."
}

require_data() {
    require_engine_and_image
    docker volume inspect "$VOLUME" >/dev/null 2>&1 || fail "There is no data yet: the volume $VOLUME does not exist."
}

# With the labels that compose would give it, which else takes it for another's.
ensure_volume() {
    docker volume inspect "$VOLUME" >/dev/null 2>&1 ||
        docker volume create --label "com.docker.compose.project=$PROJECT" --label com.docker.compose.volume=data "$VOLUME" >/dev/null
}

# on_data VERB …: as the daemon's user, without a network. The program comes as an argument, because stdin may be a backup,
# and from here, because the image may be of an older version.
on_data() {
    local verb=$1
    shift
    docker run --rm --interactive --network none --cap-drop ALL --security-opt no-new-privileges:true \
        --volume "$VOLUME:$DATA_DIRECTORY" --entrypoint /usr/bin/python3 "$ORCHESTRATOR_IMAGE" \
        -ISB -c "$(<"$ROOT/scripts/inside/data_backup.py")" "$verb" "$DATA_DIRECTORY" "$@"
}
