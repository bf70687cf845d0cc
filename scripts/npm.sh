# shellcheck shell=bash
# To be sourced after lib.sh: npm packages in a directory of their own below .build.

# have_packages DIRECTORY PACKAGE@VERSION...
have_packages() { [ "$(cat "$1/packages" 2>/dev/null)" = "$(printf '%s\n' "${@:2}")" ]; }

# install_packages DIRECTORY PACKAGE@VERSION...: the directory appears under its name only when it is complete. npm and
# the packages' own install scripts run on the Node.js that will run the packages.
install_packages() {
    local staging
    staging=$(mktemp -d "$1.XXXXXX")
    PATH=$BUILD/node/bin:$PATH npm install --prefix "$staging" --no-audit --no-fund --omit=dev --loglevel=error "${@:2}"
    printf '%s\n' "${@:2}" >"$staging/packages"
    chmod 0755 "$staging"
    rm -rf "$1"
    mv "$staging" "$1"
}

# ensure_packages WHAT DIRECTORY PACKAGE@VERSION...
ensure_packages() {
    have_packages "${@:2}" && return
    step "fetching $1" "$(basename "$2").log" \
        "Make 'npm view $3' work on this machine (registry, proxy, certificates), then run this again." \
        install_packages "${@:2}"
}
