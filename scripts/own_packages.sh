# shellcheck shell=bash disable=SC2034  # a name is for those who source this
# Sourced after building.sh: the packages of the user's own servers. A directory with package.json or requirements.in and
# the lock beside it says what to fetch; nothing that is fetched here runs here.

readonly OWN=$BUILD/own

# Only what the registry has, by its digest: git, files and addresses could be anything, and another thing tomorrow.
own_npm() {
    npm_config_allow_git=none npm_config_allow_remote=none npm_config_allow_file=none npm_config_allow_directory=none \
        npm "$@" --ignore-scripts --no-audit --no-fund --loglevel=error
}

# lock_own DIRECTORY: pins what package.json or requirements.in names, with everything that it needs.
lock_own() {
    if [ -f "$1/package.json" ]; then
        (cd "$1" && rm -f package-lock.json &&
            own_npm install --package-lock-only --omit-lockfile-registry-resolved --omit=dev)
    else
        # Wheels only: to build anything else means to run what its author wrote, here.
        install_wheels "$(engine_platform)" "$1/target" --dry-run --ignore-installed --quiet \
            --report "$1/report.json" -r "$1/requirements.in"
        "$VENV/bin/python" scripts/wheel_hashes.py "$1/report.json" >"$1/requirements.txt"
        rm -rf "$1/report.json" "$1/target"
    fi
}

own_stamp() { { (cd "$1" && fingerprint .) && engine_platform; } | sha256sum; }

# fetch_own DIRECTORY TARGET: what the lock names, with the digests that it names. The stamp comes last.
fetch_own() {
    rm -rf "$2"
    mkdir -p "$2/node_modules" "$2/site-packages"
    if [ -f "$1/package-lock.json" ]; then
        cp "$1"/package*.json "$2/"
        own_npm ci --prefix "$2" --os=linux --cpu="$(npm_platform)" --omit=dev
        rm -rf "$2"/node_modules/.bin
        mkdir -p "$2/node_modules"
    else
        install_wheels "$(engine_platform)" "$2/site-packages" --no-deps --require-hashes --quiet -r "$1/requirements.txt"
    fi
    own_stamp "$1" >"$2/stamp"
}
