#!/usr/bin/env bash
# Finds the base image, the engine's or a registry's, otherwise makes one from Debian packages, and writes its name
# to .build/base-image. base.sh NAME PACKAGES… does so for an image that needs more packages, into .build/base-image-NAME:
# a pulled base stays as it is, because the image's own build can install them; ours comes with them.
#   BASE=auto|pull|bootstrap      how to get it (auto: pull, otherwise bootstrap)
#   BASE_IMAGE_NAME=…             what to pull
#   SUITE=trixie                  another Debian, for an image whose packages are in no other
#   REFRESH=1                     get it anew, with today's security updates
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/building.sh"

readonly OWN_SUITE=bookworm
readonly SUITE=${SUITE:-$OWN_SUITE}
readonly VARIANT=${1:+-$1}
readonly VARIANT_PACKAGES="${*:2}"
readonly PACKAGES=python3,ca-certificates${VARIANT_PACKAGES:+,${VARIANT_PACKAGES// /,}}
readonly IMAGE=$BASE_IMAGE$VARIANT
if [ "$SUITE" = "$OWN_SUITE" ]; then PULLED=${BASE_IMAGE_NAME:-debian:$SUITE-slim}; else PULLED=debian:$SUITE-slim; fi
readonly PULLED
readonly HOW=${BASE:-auto}
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

use() { echo "$1" >"$BUILD/base-image$VARIANT"; }

bootstrap_inputs() { { echo "$SUITE $PACKAGES" && declare -f bootstrap; } | sha256sum | cut -d' ' -f1; }

try_pull() { pull "$PULLED" pull.log; }

# The machine's own mirrors; nothing when it runs another Debian than ours, then mmdebstrap knows its own.
host_mirrors() {
    # shellcheck disable=SC2016  # apt fills in the fields
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep -E " $OWN_SUITE(-updates|-security)? main\$" | sort -u |
        sed -e "s| $OWN_SUITE| $SUITE|" -e "s|^|deb [signed-by=$KEYRING] |" || true
}

# What the host's apt needs to reach its mirrors (proxy, certificates) is needed here too, but not in the image.
host_apt_options() { apt-config dump Acquire | grep -E '^Acquire::(http|https|Check-Valid-Until|ForceIPv4|Retries)' || true; }

bootstrap() {
    local options=$BUILD/apt-options$VARIANT tar=$BUILD/base$VARIANT.tar mirrors
    host_apt_options >"$options"
    mapfile -t mirrors < <(host_mirrors)
    # shellcheck disable=SC2016  # mmdebstrap's hook sets $1
    mmdebstrap --variant=minbase --format=tar --include="$PACKAGES" --aptopt="$options" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --customize-hook='rm -rf "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/sources.list*' \
        "$SUITE" "$tar" "${mirrors[@]}"
    docker import --change "LABEL mcp-code-executor.inputs=$(bootstrap_inputs)" "$tar" "$IMAGE"
    rm -f "$tar" "$options"
}

require_bootstrap_tools() {
    { have apt-get && is_root; } ||
        fail "$PULLED cannot be pulled ($(tail -n 1 "$LOGS/pull.log")); make the registry reachable, or set BASE_IMAGE_NAME to an image that is, or run make as root on Debian."
    have mmdebstrap || "$ROOT/scripts/apt.sh" mmdebstrap
}

ensure_bootstrapped() {
    ! bootstrapped || return 0
    require_bootstrap_tools
    step "making the base image$VARIANT from Debian packages" "base$VARIANT.log" \
        "Make 'apt-get update' work on this machine, or set BASE_IMAGE_NAME to a Debian image that can be pulled." \
        bootstrap
}

bootstrapped() { [ -z "${REFRESH:-}" ] && [ "$(image_label "$IMAGE")" = "$(bootstrap_inputs)" ]; }

pulled() { [ -z "${REFRESH:-}" ] && in_engine "$PULLED"; }

use_pulled() {
    pulled || try_pull || fail "$PULLED cannot be pulled ($(tail -n 1 "$LOGS/pull.log")); make the registry reachable, or set BASE_IMAGE_NAME to an image that is."
    use "$PULLED"
}

use_bootstrapped() {
    ensure_bootstrapped
    use "$IMAGE"
}

use_with_more_packages() {
    local base
    base=$(cat "$BUILD/base-image")
    if [ "$base" = "$BASE_IMAGE" ]; then
        use_bootstrapped
    elif [ "$SUITE" = "$OWN_SUITE" ]; then
        use "$base"
    else
        use_pulled
    fi
}

use_what_is_there() {
    if pulled; then
        use "$PULLED"
    elif bootstrapped; then
        use "$IMAGE"
    elif try_pull; then
        use "$PULLED"
    else
        use_bootstrapped
    fi
}

if [ -n "$VARIANT" ]; then
    use_with_more_packages
    exit
fi
case $HOW in
auto) use_what_is_there ;;
pull) use_pulled ;;
bootstrap) use_bootstrapped ;;
*) fail "BASE=$HOW is unknown; use auto, pull or bootstrap." ;;
esac
