# shellcheck shell=bash
# To be sourced after lib.sh: a package of the Python index in a virtual environment of its own below .build.

# environment_is_there DIRECTORY REQUIREMENT
environment_is_there() { [ "$(cat "$1/package" 2>/dev/null)" = "$2" ] && made_here "$1"; }

# install_environment DIRECTORY REQUIREMENT: a venv knows its own path, so it is made in place and its stamp written last.
install_environment() {
    "$(any_python)" -m venv --clear "$1"
    "$1/bin/python" -m pip install --disable-pip-version-check "$2"
    echo "$2" >"$1/package"
}

# ensure_environment DIRECTORY REQUIREMENT
ensure_environment() {
    local name=${2%%[<>=]*}
    ! environment_is_there "$@" || return 0
    step "installing $name" "$(basename "$1").log" \
        "Make 'pip download $name' work on this machine (index, proxy, certificates), then run this again." \
        install_environment "$@"
}
