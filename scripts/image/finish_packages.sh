#!/bin/sh
# finish_packages.sh ROOT DIRECTORY: bytecode, and the list of fonts that matplotlib otherwise makes at its first import.
set -eu
root=$1 directory=$2
[ -d "$root$directory/matplotlib" ] || exit 0
sh "$(dirname "$0")/compile_python.sh" "$root" "$directory"
mkdir -p "$root/opt/matplotlib"
PYTHONPATH=$root$directory MPLCONFIGDIR=$root/opt/matplotlib python3 -B -c 'import matplotlib.font_manager'
ls "$root"/opt/matplotlib/fontlist-*.json
