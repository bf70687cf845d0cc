#!/usr/bin/env bash
# Builds the runner and the orchestrator image; skips what has not changed. Everything is fetched here, on the host,
# where proxy and certificates are configured, and copied in. REFRESH=1 starts from a new base.
# CODE_EXECUTOR_RUNNER_PACKAGES=false leaves the packages for programs out of the runner image.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly FIRST_BUILD_MEGABYTES=4000
readonly RUNNER_SOURCES=(runner-image/Dockerfile runner-image/runner)

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

# The words that the daemon takes for a setting that is on or off.
with_packages() {
    local wanted
    wanted=$(configured CODE_EXECUTOR_RUNNER_PACKAGES true)
    case ${wanted,,} in
    true | t | 1 | yes | y | on) true ;;
    false | f | 0 | no | n | off) false ;;
    *) fail "CODE_EXECUTOR_RUNNER_PACKAGES=$wanted is unknown; use true or false." ;;
    esac
}

stage_runner() {
    local context=$CONTEXTS/runner
    rm -rf "$context"
    stage runner-image/Dockerfile "$context/Dockerfile"
    stage scripts/image "$context/image"
    stage runner-image/runner "$context/runner"
    mkdir -p "$context/node/bin" "$context/python"
    ln "$BUILD/node/bin/node" "$context/node/bin/node"
    copy_packages "$CHECKERS/bin" "$context/check"
    copy_packages "$CHECKERS/node_modules" "$context/node_modules"
}

stage_runner_with_packages() {
    stage_runner
    copy_packages "$PYTHON_PACKAGES/." "$CONTEXTS/runner/python/"
    cp -Rlf "$TYPESCRIPT_PACKAGES/node_modules/." "$CONTEXTS/runner/node_modules/"
    chmod -R u=rwX,go=rX "$CONTEXTS/runner/node_modules"
    sh scripts/image/trim_packages.sh "$CONTEXTS/runner/python" "$CONTEXTS/runner/node_modules"
}

ensure_runner() {
    if with_packages; then
        ensure_image_of_sources runner "$RUNNER_IMAGE" "$1" stage_runner_with_packages "${RUNNER_SOURCES[@]}" runner-image/packages
    else
        ensure_image_of_sources runner "$RUNNER_IMAGE" "$1" stage_runner "${RUNNER_SOURCES[@]}" runner-image/packages/checkers
    fi
}

stage_orchestrator() {
    local context=$CONTEXTS/orchestrator
    rm -rf "$context"
    stage orchestrator/Dockerfile "$context/Dockerfile"
    stage scripts/image "$context/image"
    stage orchestrator "$context/app/orchestrator"
    rm "$context"/app/orchestrator/{Dockerfile,constraints.txt}
    # Sources of what was built from them.
    rm -r "$context"/app/orchestrator/faces/console/{editor,packages}
    stage "$CONSOLE" "$context/app/console"
    stage runner-image/seccomp.json "$context/app/runner-image/seccomp.json"
    stage runner-image/client-library "$context/app/runner-image/client-library"
    stage runner-image/skill-programs "$context/app/runner-image/skill-programs"
    stage "$SITE_PACKAGES" "$context/site-packages"
}

# The older builder keeps its stages as images without a name: a cache, but not for ever.
prune_old_stages() {
    docker image prune --force --filter label=mcp-code-executor.stage --filter until=24h >"$LOGS/prune.log"
}

main() {
    local base parts=(base node daemon checkers console)
    lock_the_tree
    choose_builder
    ! with_packages || parts+=(python typescript)
    require_space_for_a_first_build
    # apt does one thing at a time, so what several parts need is there before they start.
    have npm || "$ROOT/scripts/apt.sh" npm binutils
    at_once "fetching what the images are made of" scripts/fetch.sh "${parts[@]}"
    base=$(cat "$BUILD/base-image")
    ensure_runner "$base"
    stage_orchestrator
    ensure_image orchestrator "$ORCHESTRATOR_IMAGE" "$base"
    prune_old_stages
}

main
