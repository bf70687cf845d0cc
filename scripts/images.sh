#!/usr/bin/env bash
# Builds the runner and the orchestrator image; skips what has not changed. Everything is fetched here, on the host,
# where proxy and certificates are configured, and copied in. REFRESH=1 starts from a new base.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly FIRST_BUILD_MEGABYTES=3000
readonly SITE_PACKAGES=$BUILD/site-packages

free_megabytes() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }

require_space_for_a_first_build() {
    local place free
    ! in_engine "$RUNNER_IMAGE" "$ORCHESTRATOR_IMAGE" || return 0
    for place in "$BUILD" "$(docker info --format '{{.DockerRootDir}}')"; do
        [ -d "$place" ] || continue
        free=$(free_megabytes "$place")
        [ "$free" -ge "$FIRST_BUILD_MEGABYTES" ] ||
            fail "Only $free MB are free at $place, and a first build needs $FIRST_BUILD_MEGABYTES MB; free some space (for example 'docker system prune'), then run make again."
    done
}

runtime_requirements() { "$VENV/bin/python" scripts/requirements.py; }

fetch_site_packages() {
    local platforms
    mapfile -t platforms < <(platform_arguments "$(engine_platform)")
    rm -rf "$SITE_PACKAGES"
    "$VENV/bin/python" -m pip install --disable-pip-version-check --target "$SITE_PACKAGES" --no-compile \
        --python-version 3.11 --implementation cp --only-binary=:all: "${platforms[@]}" \
        -c orchestrator/constraints.txt -r <(runtime_requirements)
    rm -rf "${SITE_PACKAGES:?}/bin"
}

ensure_site_packages() {
    local inputs
    inputs=$({ runtime_requirements && cat orchestrator/constraints.txt && engine_platform; } | sha256sum)
    if [ "$(cat "$BUILD/site-packages.inputs" 2>/dev/null)" = "$inputs" ]; then return; fi
    step "fetching the daemon's dependencies" dependencies.log \
        "Make 'pip download aiohttp' work on this machine (index, proxy, certificates), then run make again." \
        fetch_site_packages
    echo "$inputs" >"$BUILD/site-packages.inputs"
}

stage_runner() {
    local context=$CONTEXTS/runner
    rm -rf "$context"
    stage runner-image/Dockerfile "$context/Dockerfile"
    stage scripts/image "$context/image"
    stage runner-image/runner "$context/runner"
    mkdir -p "$context/node/bin"
    ln "$BUILD/node/bin/node" "$context/node/bin/node"
}

stage_orchestrator() {
    local context=$CONTEXTS/orchestrator
    rm -rf "$context"
    stage orchestrator/Dockerfile "$context/Dockerfile"
    stage scripts/image "$context/image"
    stage orchestrator "$context/app/orchestrator"
    rm "$context"/app/orchestrator/{Dockerfile,constraints.txt}
    stage runner-image/seccomp.json "$context/app/runner-image/seccomp.json"
    stage runner-image/client-library "$context/app/runner-image/client-library"
    stage "$SITE_PACKAGES" "$context/site-packages"
}

# The older builder keeps its stages as images without a name: a cache, but not for ever.
prune_old_stages() {
    docker image prune --force --filter label=mcp-code-executor.stage --filter until=24h >"$LOGS/prune.log"
}

main() {
    local base
    lock_the_tree
    choose_builder
    require_space_for_a_first_build
    "$ROOT/scripts/base.sh"
    base=$(cat "$BUILD/base-image")
    "$ROOT/scripts/node.sh"
    ensure_site_packages
    stage_runner
    ensure_image runner "$RUNNER_IMAGE" "$base"
    stage_orchestrator
    ensure_image orchestrator "$ORCHESTRATOR_IMAGE" "$base"
    prune_old_stages
}

main
