#!/bin/sh
# finish_packages.sh ROOT DIRECTORY: what a read-only image cannot make at the first import of its packages.
set -eu
root=$1 directory=$2
[ -d "$root$directory/matplotlib" ] || exit 0
sh "$(dirname "$0")/compile_python.sh" "$root" "$directory"
# The list of fonts, which matplotlib makes otherwise.
mkdir -p "$root/opt/matplotlib"
PYTHONPATH=$root$directory MPLCONFIGDIR=$root/opt/matplotlib python3 -B -c 'import matplotlib.font_manager'
ls "$root"/opt/matplotlib/fontlist-*.json
# A type checker cannot read a compiled module: it takes one that has neither stub nor source for missing.
find "$root$directory" -name '*.cpython-*.so' | while read -r module; do
    source=${module%%.cpython-*}.py
    [ -e "$source" ] || [ -e "${source}i" ] ||
        printf 'from typing import Any\ndef __getattr__(name: str) -> Any: ...\n' >"${source}i"
done
