#!/bin/sh
# verify_root.sh ROOT: fails the build when the image would hold what it must not.
set -eu
root=$1
privileged=$(find "$root" -perm /6000)
[ -z "$privileged" ] || { echo "setuid or setgid: $privileged" >&2; exit 1; }
writable=$(find "$root" -not -type l -perm /022 -not -path "$root/tmp" -not -path "$root/tmp/*")
[ -z "$writable" ] || { echo "writable by others: $writable" >&2; exit 1; }
# Such a file runs code at every start of Python.
starters=$(find "$root/usr/local" -name '*.pth' -o -name '*customize.py' 2>/dev/null || true)
[ -z "$starters" ] || { echo "runs at every start: $starters" >&2; exit 1; }
for name in apt apt-get dpkg perl pip pip3 npm npx bash su mount gcc; do
    [ ! -e "$root/usr/bin/$name" ] || { echo "$name is in the image" >&2; exit 1; }
done
