#!/usr/bin/env bash
# apt.sh PACKAGE…: installs Debian packages through the machine's own apt configuration.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

require_apt_and_root() {
    have apt-get || fail "$* is missing; install it with this system's package manager, then run make again."
    is_root || fail "$* is missing and only root can install it; run: sudo apt-get install $*"
}

install() {
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    apt-get update
    apt-get install -y --no-install-recommends "$@"
}

require_apt_and_root "$@"
step "installing $*" apt.log \
    "Make 'apt-get update' work on this machine (mirror, proxy, disk space), then run make again." \
    install "$@"
