# Completes a line of playgate. Readline splits words also at "@", "=" and ":", which addresses and options contain: their
# parts are joined again, and a candidate is returned without the text that Readline leaves in front of it.
_playgate() {
    local line=${COMP_LINE:0:COMP_POINT} last=-1 index part kept candidate
    local -a words=() candidates=()
    for ((index = 0; index <= COMP_CWORD; index++)); do
        if [[ $index -eq 0 || $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            words[++last]=
        fi
        part=${COMP_WORDS[index]}
        # The last part ends at the cursor.
        ((index < COMP_CWORD)) || part=$line
        words[last]+=$part
        line=${line#"$part"}
    done
    mapfile -t candidates < <(
        COMPLETE=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$last playgate -- "${words[@]}" 2>/dev/null
    )
    kept=${words[last]%"$2"}
    COMPREPLY=()
    for candidate in "${candidates[@]}"; do
        candidate=${candidate#"${kept//[\\\"\']/}"}
        # Within quotes a space needs no escape.
        [[ $kept == *[\"\'] ]] || printf -v candidate %q "$candidate"
        COMPREPLY+=("$candidate")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && $COMPREPLY == *[=/:] ]]; then compopt -o nospace; fi
}
complete -o bashdefault -o nosort -F _playgate playgate
