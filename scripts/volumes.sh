#!/usr/bin/env bash
# volumes.sh OWNER NAME…: gives volumes of the stack, with all that is in them, to the user (UID or UID:GID) whose
# container is about to use them, and makes those that are not there. Nothing is done to what is that user's already.
#
# A proxy from a registry runs as another user than our own images. None of them has a capability, and without one not
# even root can write to the files of another.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# With the labels that compose looks for: it takes over what it would have made itself.
ensure_volume() {
    docker volume inspect "$1" >/dev/null 2>&1 ||
        docker volume create --label "com.docker.compose.project=$PROJECT" --label "com.docker.compose.volume=$2" "$1" >/dev/null
}

main() {
    local owner=$1 prefix name volume mounts=() places=()
    shift
    [[ $owner =~ ^[0-9]+(:[0-9]+)?$ ]] || fail "The owner of a volume must be a number, as in 1000 or 1000:1000, not $owner."
    prefix=$(configured STACK_PREFIX '')
    for name in "$@"; do
        volume=${prefix}mcp-code-executor-$name
        ensure_volume "$volume" "$name"
        mounts+=(--volume "$volume:/volumes/$name")
        places+=("/volumes/$name")
    done
    docker run --rm --interactive --network none --user 0 --read-only --cap-drop ALL --cap-add CHOWN \
        --security-opt no-new-privileges:true --memory 512m --pids-limit 16 "${mounts[@]}" \
        --entrypoint /usr/bin/python3 "$ORCHESTRATOR_IMAGE" -I -S - "$owner" "${places[@]}" \
        <"$ROOT/scripts/inside/hand_over.py"
}

main "$@"
