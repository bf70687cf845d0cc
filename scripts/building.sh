# shellcheck shell=bash disable=SC2034  # some names are for those who source this
# Sourced by what gets images: pulling one; staging a context, hashing it, building only when it has changed.

readonly CONTEXTS=$BUILD/context
# What fetch.sh makes: the daemon's dependencies; what programs can import; what checks them; what browsers load.
readonly SITE_PACKAGES=$BUILD/site-packages
readonly PYTHON_PACKAGES=$BUILD/python-packages
readonly TYPESCRIPT_PACKAGES=$BUILD/typescript-packages
readonly CHECKERS=$BUILD/checkers
readonly CONSOLE=$BUILD/console
readonly PULL_SECONDS=180

in_engine() { docker image inspect "$@" >/dev/null 2>&1; }

# pull IMAGE LOG: in the foreground, otherwise Ctrl-C does not reach it.
pull() {
    say "  looking for $1 in a registry …"
    timeout --foreground "$PULL_SECONDS" docker pull "$1" >"$LOGS/$2" 2>&1
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

# install_wheels PLATFORM TARGET ARGUMENTS…: for the Python of the images, which need not be this machine's.
install_wheels() {
    local platforms
    mapfile -t platforms < <(platform_arguments "$1")
    "$VENV/bin/python" -m pip install --disable-pip-version-check --target "$2" --no-compile \
        --python-version 3.11 --implementation cp --only-binary=:all: "${platforms[@]}" "${@:3}"
}

# npm names the engine's processor in its own way.
npm_platform() { if [ "$(engine_platform)" = aarch64 ]; then echo arm64; else echo x64; fi; }

# install_modules SOURCE TARGET [install]: what the lock in SOURCE names, for the engine's platform. 'npm ci' refuses a lock that
# lacks the binaries of other systems, which not every registry has; 'npm install' takes such a lock, too.
install_modules() {
    mkdir -p "$2"
    cp "$1"/package*.json "$2/"
    # Scripts of packages would run here, as whoever runs make.
    npm "${3:-ci}" --prefix "$2" --os=linux --cpu="$(npm_platform)" --ignore-scripts --omit=dev --no-audit --no-fund --loglevel=error
    rm -rf "$2"/node_modules/.bin
}

# copy_packages SOURCE TARGET: hard links, because nothing writes to them. Modes as everybody may read them.
copy_packages() {
    chmod -R u=rwX,go=rX "$1"
    cp -Rl "$1" "$2"
}

# stage SOURCE TARGET: a copy with plain modes and without the caches that tools leave.
stage() {
    mkdir -p "$(dirname "$2")"
    cp -R --preserve=mode "$1" "$2"
    find "$2" -mindepth 1 \( -name __pycache__ -o -name '.*' \) -prune -exec rm -rf {} +
    chmod -R u=rwX,go=rX "$2"
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

hint_for_image() {
    echo "The whole output is in .build/log/image-$1.log; when a download failed in it, BASE=bootstrap (root, Debian) needs none."
}

ensure_image() {
    local name=$1 image=$2 base=$3 inputs
    inputs=$(inputs_of "$name" "$base")
    if [ "$(image_label "$image")" = "$inputs" ]; then return; fi
    step "building $image" "image-$name.log" "$(hint_for_image "$name")" build "$name" "$image" "$base" "$inputs"
}

# What an image is made of is told by its sources: the packages are pinned, so they need not be hashed each time.
sources_fingerprint() {
    {
        fingerprint "${@:2}" scripts/image
        cat "$BUILD/node/package"
        engine_platform
        docker image inspect --format '{{.Id}}' "$1"
    } | sha256sum | cut -d' ' -f1
}

# ensure_image_of_sources NAME IMAGE BASE STAGING SOURCES…
ensure_image_of_sources() {
    local name=$1 image=$2 base=$3 staging=$4 inputs
    inputs=$(sources_fingerprint "$base" "${@:5}")
    if [ "$(image_label "$image")" = "$inputs" ]; then return; fi
    "$staging" "$name"
    step "building $image" "image-$name.log" "$(hint_for_image "$name")" build "$name" "$image" "$base" "$inputs"
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
