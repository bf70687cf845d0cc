#!/usr/bin/env bash
# Builds the runner image with stress-ng in it, for the tests and figures that watch a caller beside another's load.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

stage_stress() {
    local context=$CONTEXTS/stress
    rm -rf "$context"
    stage scripts/stress/Dockerfile "$context/Dockerfile"
    stage scripts/image "$context/image"
    docker image inspect --format '{{.Id}}' "$RUNNER_IMAGE" >"$context/runner-id"
}

main() {
    lock_the_tree
    choose_builder
    in_engine "$RUNNER_IMAGE" || fail "There is no runner image yet; run 'make image' first."
    "$ROOT/scripts/base.sh" stress stress-ng
    stage_stress
    ensure_image stress "$RUNNER_IMAGE-stress" "$(cat "$BUILD/base-image-stress")"
}

main
