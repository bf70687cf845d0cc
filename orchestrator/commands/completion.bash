# bash completion for {program}: made by '{program} completion bash' from the commands themselves.
{function}() {{
    local -A words=(
{words}
    )
    local -A values=(
{values}
    )
    local -A files=(
{files}
    )
    local command={program} word current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ -z ${{words["$command $word"]+known}} ]] || command="$command $word"
    done
    if [[ -n ${{values["$command $previous"]+known}} ]]; then
        case ${{values["$command $previous"]}} in
        '<file>') mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        *) # Of a list with commas, what follows the last one; of words without, the whole.
            word=${{current%"${{current##*,}}"}}
            mapfile -t COMPREPLY < <(compgen -P "$word" -W "${{values["$command $previous"]}}" -- "${{current##*,}}") ;;
        esac
        return
    fi
    if [[ -n ${{files["$command"]+known}} && $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "${{words["$command"]}}" -- "$current")
}}
complete -F {function} {program}
