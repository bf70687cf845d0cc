#!/usr/bin/env bash
# Builds the runner and the orchestrator image; skips what has not changed. Everything is fetched here, on the host,
# where proxy and certificates are configured, and copied in. REFRESH=1 starts from a new base.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly FIRST_BUILD_MEGABYTES=3000
readonly SITE_PACKAGES=$BUILD/site-packages
readonly CONTEXTS=$BUILD/context

free_megabytes() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }

require_space_for_a_first_build() {
    local place free
    ! docker image inspect "$RUNNER_IMAGE" "$ORCHESTRATOR_IMAGE" >/dev/null 2>&1 || return 0
    for place in "$BUILD" "$(docker info --format '{{.DockerRootDir}}')"; do
        [ -d "$place" ] || continue
        free=$(free_megabytes "$place")
        [ "$free" -ge "$FIRST_BUILD_MEGABYTES" ] ||
            fail "Only $free MB are free at $place and a first build needs $FIRST_BUILD_MEGABYTES; free some (for example 'docker system prune'), then run make again."
    done
}

engine_platform() {
    case $(docker info --format '{{.Architecture}}') in
    aarch64 | arm64) echo aarch64 ;;
    *) echo x86_64 ;;
    esac
}

# pip takes the platforms literally: a newer glibc does not imply the older tags.
platform_arguments() {
    local tag
    for tag in 2_36 2_35 2_34 2_31 2_28 2_27 2_26 2_24 2_17 2_12 2_5; do
        printf -- '--platform\nmanylinux_%s_%s\n' "$tag" "$1"
    done
    printf -- '--platform\nmanylinux2014_%s\n' "$1"
}

runtime_requirements() {
    "$VENV/bin/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")'
}

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

# stage SOURCE TARGET: a copy with plain modes and without the caches that tools leave.
stage() {
    mkdir -p "$(dirname "$2")"
    cp -R --preserve=mode "$1" "$2"
    find "$2" -mindepth 1 \( -name __pycache__ -o -name '.*' \) -prune -exec rm -rf {} +
    chmod -R u=rwX,go=rX "$2"
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
    stage "$SITE_PACKAGES" "$context/site-packages"
}

inputs_of() {
    { (cd "$CONTEXTS/$1" && fingerprint .) && docker image inspect --format '{{.Id}}' "$2"; } |
        sha256sum | cut -d' ' -f1
}

proxy_arguments() {
    local name
    for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
        [ -z "${!name:-}" ] || printf -- '--build-arg\n%s\n' "$name"
    done
}

build() {
    local name=$1 image=$2 base=$3 inputs=$4 proxies
    mapfile -t proxies < <(proxy_arguments)
    docker build "${BUILDER_ARGUMENTS[@]}" "${proxies[@]}" --build-arg "BASE_IMAGE=$base" --label "mcp-code-executor.inputs=$inputs" \
        --label "mcp-code-executor.image=$name" --tag "$image:latest" "$CONTEXTS/$name"
    # The image that this one replaces; one that a container still uses stays.
    docker image prune --force --filter "label=mcp-code-executor.image=$name"
}

# The older builder keeps its stages as images without a name: a cache, but not for ever.
prune_old_stages() {
    docker image prune --force --filter label=mcp-code-executor.stage --filter until=24h >"$LOGS/prune.log"
}

ensure_image() {
    local name=$1 image=$2 base=$3 inputs
    inputs=$(inputs_of "$name" "$base")
    if [ "$(image_label "$image")" = "$inputs" ]; then return; fi
    step "building $image" "image-$name.log" \
        "The whole output is in .build/log/image-$name.log; when a download failed in it, BASE=bootstrap (root, Debian) needs none." \
        build "$name" "$image" "$base" "$inputs"
}

# The CLI without buildx has only the older builder, which leaves the container of a failed step behind unless told.
choose_builder() {
    if docker buildx version >/dev/null 2>&1; then
        export DOCKER_BUILDKIT=1
        BUILDER_ARGUMENTS=()
    else
        export DOCKER_BUILDKIT=0
        BUILDER_ARGUMENTS=(--force-rm)
    fi
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
