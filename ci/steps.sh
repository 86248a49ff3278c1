# Sourced by .ci/run and ci/long.sh: runs scripts one after the other and prints how long each took.

began=$SECONDS
summary=""

# step MINUTES NAME COMMAND…: runs a command. Ends this script if the command fails, or takes longer than MINUTES.
step() {
    local minutes=$1 name=$2 start=$SECONDS result=0
    shift 2
    printf '\n=== %s\n' "$name"
    timeout --kill-after=30s "${minutes}m" "$@" || result=$?
    # timeout's own status is 124, or 137 if it had to kill.
    case $result in
    0)
        summary+=$(printf '%-14s %5ds' "$name" $((SECONDS - start)))$'\n'
        return
        ;;
    124 | 137) printf '\n=== %s STOOD STILL: ended after %d min' "$name" "$minutes" ;;
    *) printf '\n=== %s FAILED with status %d after %ds' "$name" "$result" $((SECONDS - start)) ;;
    esac
    printf ' (%ds in all); alone: %s\n%s' $((SECONDS - began)) "$*" "$summary"
    exit 1
}

# steps_passed: prints how long each step took.
steps_passed() {
    printf '\n=== all steps passed in %ds\n%s' $((SECONDS - began)) "$summary"
}
