#!/usr/bin/env bash
# install.sh [install|uninstall]: the command on the PATH, for this user: a link, and completion for bash and zsh.
#   FORCE=1   replaces a command of the same name that is another's
set -euo pipefail
. "$(dirname "$0")/lib.sh"

readonly NAME=code-executor
readonly COMMAND=$VENV/bin/$NAME
# Without the variable, that of the password file: 'make clean' must not end half-way for it.
HOME=${HOME:-~}
readonly LINK=$HOME/.local/bin/$NAME
readonly SHARE=${XDG_DATA_HOME:-$HOME/.local/share}
readonly FOR_BASH=$SHARE/bash-completion/completions/$NAME
readonly FOR_ZSH=$SHARE/zsh/site-functions/_$NAME

points_here() { [ -L "$LINK" ] && [ "$(readlink "$LINK")" = "$COMMAND" ]; }

require_free_name() {
    [ -e "$LINK" ] || [ -L "$LINK" ] || return 0
    points_here || [ -n "${FORCE:-}" ] ||
        fail "$LINK belongs to another ($(readlink "$LINK" || echo "a file of its own")); remove it, or replace it with FORCE=1."
}

# Whole or not at all, because a shell reads it whenever it likes.
write_completion() {
    mkdir -p "$(dirname "$2")"
    "$COMMAND" completion "$1" >"$2.new"
    mv "$2.new" "$2"
}

advise() {
    case :$PATH: in
    *":$HOME/.local/bin:"*) ;;
    *) say "$HOME/.local/bin is not on your PATH. Add to ~/.profile: export PATH=\"\$HOME/.local/bin:\$PATH\"" ;;
    esac
    ! have zsh || say "For zsh, add to ~/.zshrc, before compinit: fpath=($(dirname "$FOR_ZSH") \$fpath)"
}

install_here() {
    require_free_name
    mkdir -p "$(dirname "$LINK")"
    ln -sfn "$COMMAND" "$LINK"
    write_completion bash "$FOR_BASH"
    write_completion zsh "$FOR_ZSH"
    say "$LINK is $COMMAND"
    say "completion: $FOR_BASH, $FOR_ZSH; new shells have it"
    advise
}

uninstall_here() {
    if [ -L "$LINK" ] && ! points_here; then
        say "$LINK stays: it is another directory's ($(readlink "$LINK"))."
        return
    fi
    points_here || [ ! -e "$LINK" ] || { say "$LINK stays: 'make install' did not make it." && return; }
    if [ -L "$LINK" ] || [ -e "$FOR_BASH" ] || [ -e "$FOR_ZSH" ]; then
        rm -f "$LINK" "$FOR_BASH" "$FOR_ZSH"
        say "$NAME is no longer on the PATH."
    fi
}

case ${1:-install} in
install) install_here ;;
uninstall) uninstall_here ;;
esac
