#!/bin/sh
# compile_python.sh ROOT DIRECTORY…: bytecode for what lies in ROOT, because a read-only image can never cache its own.
# Unchecked: the sources cannot change, so starting an interpreter needs not compare their times.
set -eu
root=$1
shift
for directory in "$@"; do
    find "$root$directory" -name __pycache__ -prune -exec rm -rf {} +
    python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$root" -p / "$root$directory"
done
