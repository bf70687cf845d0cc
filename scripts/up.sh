#!/usr/bin/env bash
# Starts the MCP servers and the daemon, and returns when it is ready. Engine, .venv and images are there already.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/owner.sh"
. "$ROOT/scripts/ready.sh"

readonly OWN_SERVER_USER=10002:10002 # as in compose.yaml

ensure_keys() {
    local status=0
    "$VENV/bin/code-executor" keys ensure >"$LOGS/keys.log" 2>&1 || status=$?
    # Of settings that nobody reads, say; not what was made, which is told once by the command itself.
    [ "$status" -ne 0 ] || { sed -n 's/^code-executor: warning: /  /p' "$LOGS/keys.log" >&2 && return; }
    show_tail "$LOGS/keys.log"
    [ "$status" -ne 78 ] || fail "A setting or the role file is wrong, as the line above says; correct it in .env, the environment or roles.json, then run make again."
    fail "The keys in $(secrets_dir)/ could not be made; make that directory writable for $(id -un), then run make again."
}

# Who hands it to the daemon is another user; git keeps no read bits, so a strict umask at checkout hides the file.
require_readable_roles() {
    local roles directory
    roles=$(configured CODE_EXECUTOR_ROLES_FILE roles.json)
    [ -f "$roles" ] || fail "The role file $roles is missing; restore it, for example with 'git checkout roles.json'."
    [ -n "$(find -L "$roles" -perm -o=r)" ] || fail "The daemon cannot read $roles; run 'chmod a+r $roles', then run make again."
    directory=$(dirname "$(realpath "$roles")")
    [ -n "$(find "$directory" -maxdepth 0 -perm -o=x)" ] ||
        fail "The daemon cannot see $roles, because only you may enter its directory; run 'chmod a+x $directory', then run make again."
}

owner_of_port() {
    local owner=''
    owner=$(docker ps --filter "publish=$1" --format 'the container {{.Names}}' | head -n 1)
    if [ -z "$owner" ] && have ss; then
        owner=$(ss -Hltnp "sport = :$1" | sed -nE 's/.*users:\(\("([^"]+)",pid=([0-9]+).*/\1 (pid \2)/p' | head -n 1)
    fi
    echo "${owner:-another process}"
}

# The old container is gone before the new one is made, so its port is free for another address, too.
is_port_of_the_daemon() { docker port "$DAEMON" 9091/tcp 2>/dev/null | grep -q ":$1\$"; }

require_port() {
    local publish port reason
    publish=$(published)
    port=${publish##*:}
    reason=$("$VENV/bin/python" scripts/require_free_address.py "$publish" 2>&1) && return 0
    case $reason in
    *"in use"*)
        is_port_of_the_daemon "$port" ||
            fail "Port $port is taken by $(owner_of_port "$port"); stop it, or publish elsewhere: CODE_EXECUTOR_PUBLISH=127.0.0.1:9191 make up"
        ;;
    *) fail "$publish cannot be published here ($reason); set CODE_EXECUTOR_PUBLISH to an address of this machine." ;;
    esac
}

enabled_services() { cat "$STACK_BUILD/services" 2>/dev/null || true; }

keeps_running() { enabled_services | grep -qxF "$1" && ! grep -qxsF "$1" "$STACK_BUILD/changed"; }

# Compose starts again what compose.yaml or a variable changes, but does not see into the settings of a server.
remove_outdated_servers() {
    local service id
    while read -r service id; do
        keeps_running "$service" || docker rm --force "$id" >/dev/null
    done < <(stack_containers)
    rm -f "$STACK_BUILD/changed"
}

# Compose does not change a network that is there: a server would go on reaching the internet although it no longer should.
# Whoever is on it is made anew with it; the daemon's own shutdown ends what runs. What is not ours only leaves.
renew_networks() {
    local network internal is member
    while read -r network internal; do
        network=$PREFIX$network
        is=$(docker network inspect --format '{{.Internal}}' "$network" 2>/dev/null) || continue
        [ "$is" != "$internal" ] || continue
        for member in $(docker ps --all --filter "network=$network" --filter "label=com.docker.compose.project=$PROJECT" --format '{{.Names}}'); do
            [ "$member" != "$DAEMON" ] || docker stop --time 30 "$member"
            docker rm --force "$member"
        done
        leave_network "$network"
    done < <(stack networks)
}

# Our own images and a proxy from a registry write to the same volumes, each as another user.
hand_over_volumes() {
    local service owner=$OWN_SERVER_USER volumes=()
    while read -r service; do
        case $service in
        mcp-filesystem) volumes+=(workspace) ;;
        mcp-memory) volumes+=(memory) ;;
        mcp-proxy)
            volumes=(workspace memory)
            owner=$(configured MCP_PROXY_USER 0:0)
            ;;
        esac
    done < <(enabled_services)
    [ "${#volumes[@]}" -gt 0 ] || return 0
    "$ROOT/scripts/volumes.sh" "$owner" "${volumes[@]}" >"$LOGS/volumes.log" 2>&1 || {
        warn "  ${volumes[*]}: the files on these volumes could not be given to the user $owner, who may fail to write them:"
        warn "  $(tail -n 1 "$LOGS/volumes.log")"
    }
}

start_one_by_one() {
    local service
    for service in "$@"; do
        "$ROOT/scripts/compose.sh" up -d "$service" >>"$LOGS/servers.log" 2>&1 ||
            warn "  $service did not start and is left out: $(tail -n 1 "$LOGS/servers.log")"
    done
}

# The daemon does not need them: it says of each server whether it answers.
start_servers() {
    local services
    remove_outdated_servers
    renew_networks >"$LOGS/networks.log" 2>&1 ||
        warn "  A network of the servers could not be changed: $(tail -n 1 "$LOGS/networks.log")"
    [ -z "$(own_services)" ] || "$ROOT/scripts/own_servers.sh" renew >"$LOGS/own-networks.log" 2>&1 ||
        warn "  A network of your own servers could not be changed: $(tail -n 1 "$LOGS/own-networks.log")"
    mapfile -t services < <(enabled_services)
    [ "${#services[@]}" -gt 0 ] || return 0
    hand_over_volumes
    (step "starting the MCP servers" servers.log "" "$ROOT/scripts/compose.sh" up -d "${services[@]}") 2>/dev/null ||
        start_one_by_one "${services[@]}"
}

first_command() {
    if have curl; then
        cat <<END
  curl -s $(api_url)/execute -H "Authorization: Bearer \$(cat $(secrets_dir)/code-executor-admin.key)" \\
       -H 'Content-Type: application/json' -d '{"code": "console.log(2 + 2)"}'
END
    else
        say "  echo 'console.log(2 + 2)' | .venv/bin/code-executor run -"
    fi
}

# Neither in a log nor a reason to fail: 'code-executor console' makes another link, or says why it cannot.
console_link() {
    local link
    link=$(CODE_EXECUTOR_URL=$(api_url) "$VENV/bin/code-executor" console --no-open 2>/dev/null) || link=''
    case $link in
    http*) say "console: $link (works once, within 60 s; '.venv/bin/code-executor console' makes another)" ;;
    *) say "console: '.venv/bin/code-executor console' opens it" ;;
    esac
}

main() {
    lock_the_tree
    require_readable_roles
    ensure_keys
    require_port
    claim
    start_servers
    step "starting the daemon" compose.log "The engine's own message is above; 'make doctor' checks the parts." \
        "$ROOT/scripts/compose.sh" up -d orchestrator
    [ -z "$(own_services)" ] || step "joining the networks of your own servers" own-networks.log \
        "The engine's own message is above." "$ROOT/scripts/own_servers.sh" connect
    step "waiting until it is ready" ready.log "The cause is in the lines above; 'make doctor' checks the parts." \
        wait_until_ready
    remember_owner
    say
    say "ready at $(api_url). Try:"
    first_command
    console_link
}

main
