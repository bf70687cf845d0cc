# shellcheck shell=bash disable=SC2034  # the names are for those who source this
# Sourced by every script: where things are, how to speak, how to fail.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/.build
LOGS=$BUILD/log
VENV=$ROOT/.venv
# With STACK_PREFIX, which compose.yaml knows too, another installation runs beside this one; the tests do so.
PREFIX=${STACK_PREFIX:-}
PROJECT=${PREFIX}mcp-code-executor
DAEMON=$PROJECT
LAUNCHER=$PROJECT-launcher
ROLES=$PROJECT-roles
VOLUME=$PROJECT-data
STACK_VOLUMES=(launcher roles workspace memory postgres timescale s3 arango n8n images prometheus grafana)
STACK_BUILD=$BUILD/stack
BASE_IMAGE=mcp-code-executor/base
RUNNER_IMAGE=mcp-code-executor/runner
ORCHESTRATOR_IMAGE=mcp-code-executor/orchestrator
readonly ROOT BUILD LOGS VENV PREFIX DAEMON LAUNCHER ROLES VOLUME STACK_VOLUMES STACK_BUILD PROJECT BASE_IMAGE RUNNER_IMAGE ORCHESTRATOR_IMAGE

cd "$ROOT"
# What is made here is read by other users in containers.
umask 022
mkdir -p "$LOGS"

# Many commands catch Ctrl-C and end as if they had failed; without this the script would go on after them.
readonly INTERRUPTED=130
end_on_interrupt() { trap 'exit "$INTERRUPTED"' INT; }
end_on_interrupt

say() { printf '%s\n' "$*"; }

warn() { printf '%s\n' "$*" >&2; }

fail() {
    printf '\n%s: %s\n' "${SPEAKER:-make}" "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" -eq 0 ]; }

# made_here VENV: its commands name the interpreter by its whole path, so one that was moved does not work any more. In
# the form for long paths that is not in the first line and may be quoted.
made_here() { grep -qsF -e "!$1/bin/python" -e " $1/bin/python" -e "\"$1/bin/python" "$1/bin/pip"; }

engine_answers() { docker info >/dev/null 2>&1; }

# is_dockerd PID: the process that a file names may be long gone, and its number another's.
is_dockerd() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = dockerd ]; }

refuse_if_denied() {
    case $(docker info 2>&1 || true) in
    *"permission denied"*)
        fail "The engine's socket refuses $(id -un); run 'sudo usermod -aG docker $(id -un)', log in again, then run make again."
        ;;
    esac
}

# step TITLE LOG HINT COMMAND…: one line with the elapsed seconds; output goes to the log, its tail is shown on failure.
step() {
    local title=$1 log=$LOGS/$2 hint=$3 began=$SECONDS ticker='' parent=$BASHPID status
    shift 3
    if [ -t 1 ]; then
        _tick "$title" "$parent" 9>&- &
        ticker=$!
    fi
    set +e
    # A subshell of its own, so that `set -e` still holds inside the command; it inherits no trap.
    (
        set -e
        end_on_interrupt
        "$@"
    ) >"$log" 2>&1
    status=$?
    set -e
    [ -z "$ticker" ] || _stop_ticker "$ticker"
    [ "$status" -ne "$INTERRUPTED" ] || exit "$INTERRUPTED"
    if [ "$status" -ne 0 ]; then
        printf '  %-52s failed after %d s\n' "$title" $((SECONDS - began))
        show_tail "$log"
        fail "$title failed. $hint"
    fi
    printf '  %-52s %3d s\n' "$title" $((SECONDS - began))
}

# at_once TITLE COMMAND NAME…: runs COMMAND NAME for every name at the same time. The lines of their steps come as they
# end; of those that fail, one says why. In the foreground, because Ctrl-C does not reach what runs in the background.
at_once() {
    local title=$1 command=$2 said=$BUILD/at-once ticker='' clear='' status=0 name
    shift 2
    rm -rf "$said"
    mkdir "$said"
    if [ -t 1 ]; then
        _tick "$title" "$BASHPID" 9>&- &
        ticker=$!
        clear=$'\r\033[K'
    fi
    # shellcheck disable=SC2016  # the inner shell sets them
    printf '%s\0' "$@" |
        xargs -0 -n 1 -P "$#" bash -c '"$0" "$2" 2>"$1/$2" && rm "$1/$2"' "$command" "$said" |
        sed -u "s/^/$clear/" || status=$?
    [ -z "$ticker" ] || _stop_ticker "$ticker"
    if [ "$status" -eq 0 ]; then
        rm -r "$said"
        return
    fi
    for name in "$@"; do
        [ ! -s "$said/$name" ] || { cat "$said/$name" >&2 && exit 1; }
    done
    fail "$title failed; run make again."
}

# _tick TITLE PARENT: ends by itself too, because whoever ends the parent does not know of it.
_tick() {
    local began=$SECONDS
    while kill -0 "$2" 2>/dev/null; do
        printf '  %-52s %3d s …\r' "$1" $((SECONDS - began))
        sleep 1
    done
}

_stop_ticker() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
    printf '\r\033[K'
}

show_tail() {
    warn "--- the last lines of ${1#"$ROOT"/}"
    tail -n 25 "$1" >&2 || true
    warn "---"
}

# One build at a time in this tree; file descriptor 9 must be closed for whatever outlives the script.
lock_the_tree() {
    have flock || return 0
    exec 9>"$BUILD/lock"
    flock -n 9 && return 0
    say "  waiting for another make in this directory …"
    flock -w 900 9 || fail "Another make has held $BUILD/lock for 15 minutes; end it, then run this again."
}

# any_python: the one of .venv, or before there is one, the machine's own.
any_python() { if [ -x "$VENV/bin/python" ]; then echo "$VENV/bin/python"; else echo "${PYTHON:-python3}"; fi; }

# in_settings_file NAME: its value in .env.
in_settings_file() { [ ! -r .env ] || "$(any_python)" -I -S deploy/settings_file.py .env "$1"; }

# configured NAME DEFAULT: from the environment, otherwise from .env, otherwise the default.
configured() {
    local name=$1 default=$2 value
    value=${!name:-$(in_settings_file "$name")}
    printf '%s' "${value:-$default}"
}

servers_dir() { realpath -m "$(configured CODE_EXECUTOR_SERVERS_DIR servers.d)"; }

secrets_dir() { configured CODE_EXECUTOR_SECRETS_DIR secrets; }

published() { configured CODE_EXECUTOR_PUBLISH 127.0.0.1:9091; }

# The address at which this machine reaches the published port: 0.0.0.0 and :: are for binding only.
api_address() {
    local publish host port
    publish=$(published)
    port=${publish##*:}
    host=${publish%"$port"}
    host=${host%:}
    case $host in '' | 0.0.0.0 | '[::]') host=127.0.0.1 ;; esac
    printf '%s:%s' "$host" "$port"
}

api_url() { printf 'http://%s' "$(api_address)"; }

stack() { "$VENV/bin/python" -m deploy.stack "$@"; }

require_compose() {
    docker compose version >/dev/null 2>&1 || have docker-compose || "$ROOT/scripts/apt.sh" docker-compose
}

# The user's own servers that run in containers, as the last make or `code-executor servers` has prepared them.
own_services() { grep -s '^mcp-own-' "$STACK_BUILD/services" || true; }

# The containers of the MCP servers and of what they need, as "SERVICE ID" lines.
stack_containers() {
    docker ps --all --filter "label=com.docker.compose.project=$PROJECT" \
        --format '{{.Label "com.docker.compose.service"}} {{.ID}}' | grep -vE '^(orchestrator|launcher|roles) ' || true
}

# leave_network NETWORK: removes it, after whoever is on it has left. Those that are stopped, too: they could never start
# again with a network that is gone.
leave_network() {
    local member
    docker network inspect "$1" >/dev/null 2>&1 || return 0
    for member in $(docker ps --all --filter "network=$1" --format '{{.Names}}'); do
        docker network disconnect --force "$1" "$member"
    done
    docker network rm "$1"
}

# sha256 of the names, modes and contents of everything below the given paths, without the caches that Python leaves.
fingerprint() {
    find "$@" -name __pycache__ -prune -o \( -type f -o -type l \) -print0 | LC_ALL=C sort -z |
        xargs -0 -r stat -c '%a %n' | sha256sum
    find "$@" -name __pycache__ -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
}

image_label() {
    docker image inspect --format '{{index .Config.Labels "mcp-code-executor.inputs"}}' "$1" 2>/dev/null || true
}
