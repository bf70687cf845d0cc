#!/bin/sh
# trim_packages.sh DIRECTORY…: removes what no program can use from packages that were copied by hard links: their own
# tests, what only a compiler reads, source maps and bundles for browsers.
set -eu
find "$@" -type d -name tests -prune -exec rm -rf {} +
find "$@" -type f \( -name '*.a' -o -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.hpp' -o -name '*.pxd' -o -name '*.pxi' \
    -o -name '*.pyx' -o -name '*.map' -o -name '*.cdn.js' -o -name '*.cdn.min.js' \) -delete
