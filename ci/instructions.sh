#!/usr/bin/env bash
# Counts the instructions of each operation of the limiters under callgrind and fails when one needs
# over 2 % more than its ceiling in bench/instructions/ceilings.txt.
#
#   ci/instructions.sh             compare
#   ci/instructions.sh --update    lower each ceiling to what is measured now, and add those that are missing
#
# Counts are repeatable to a fraction of an instruction with one compiler. --update raises no ceiling: where a new compiler
# needs more, change the row by hand and say why.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. ci/tools.sh

ceilings=bench/instructions/ceilings.txt
growth_percent=2

update=0
if has_flag --update "$@"; then update=1; fi

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_package valgrind valgrind

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs package $1 under callgrind with the arguments after it. Prints "operation clock instructions", from the pairs of
# windows of N and of 2N operations: the least count of each, since what is not the operation's own only adds.
count() {
    local package=$1 window="$work/$1" program operation clock n once twice number=0
    shift
    program=$(cargo build --release --locked --quiet --manifest-path bench/Cargo.toml \
        -p "$package" --message-format json-render-diagnostics |
        sed -n "s/.*\"executable\":\"\([^\"]*$package\)\".*/\1/p")
    # One dump per window, holding only what ran inside it; callgrind numbers them in order from 1.
    if ! timeout 300 valgrind --tool=callgrind --callgrind-out-file="$window" \
        --collect-atstart=no --toggle-collect='*counted_window*' --dump-after='*dumped_window*' \
        "$program" "$@" >"$window.operations" 2>"$window.valgrind"; then
        cat "$window.valgrind" >&2
        echo "ci/instructions.sh: $package did not finish under valgrind" >&2
        exit 1
    fi
    while read -r operation clock n; do
        once=$(awk '/^summary:/ { print $2 }' "$window.$((number + 1))")
        twice=$(awk '/^summary:/ { print $2 }' "$window.$((number + 2))")
        number=$((number + 2))
        echo "$operation $clock $n $once $twice"
    done <"$window.operations" | awk '
    { key = $1 " " $2; n[key] = $3 }
    !(key in once) { order[++keys] = key; once[key] = $4; twice[key] = $5 }
    $4 < once[key] { once[key] = $4 }
    $5 < twice[key] { twice[key] = $5 }
    END {
        for (i = 1; i <= keys; i++) {
            key = order[i]
            printf "%s %.1f\n", key, (twice[key] - once[key]) / n[key]
        }
    }
'
}

count flowgate-instructions >"$work/measured"
# Layers, ours and others, around a service; in a program of their own, as they need more than flowgate.
count flowgate-bench-tower --count >>"$work/measured"

if [ "$update" = 1 ]; then
    {
        echo "# Instructions per operation, by ci/instructions.sh; --update rewrites this file."
        echo "# $(rustc --version | cut -d' ' -f1,2), $(uname -m), $(valgrind --version)"
        echo "# operation clock instructions"
        awk 'FNR == NR { if ($0 !~ /^#/ && NF == 3) ceiling[$1 " " $2] = $3; next }
            ($1 " " $2) in ceiling && ceiling[$1 " " $2] < $3 { $3 = ceiling[$1 " " $2] }
            { print }' "$ceilings" "$work/measured" | column -t
    } >"$work/ceilings"
    mv "$work/ceilings" "$ceilings"
    echo "wrote $ceilings"
fi

awk -v growth="$growth_percent" '
    FNR == NR { if ($0 !~ /^#/ && NF == 3) ceiling[$1 " " $2] = $3; next }
    FNR == 1 {
        printf "%-45s %-8s %10s %10s %8s\n", "operation", "clock", "measured", "ceiling", "change"
    }
    {
        key = $1 " " $2
        if (!(key in ceiling)) {
            printf "%-45s %-8s %10.1f %10s %8s  NO CEILING\n", $1, $2, $3, "-", "-"
            bad++
            next
        }
        change = 100 * ($3 - ceiling[key]) / ceiling[key]
        note = ""
        if (change > growth) { note = "  GREW"; bad++ }
        if (change < -growth) { note = "  less"; less++ }
        printf "%-45s %-8s %10.1f %10.1f %+7.1f%%%s\n", $1, $2, $3, ceiling[key], change, note
        delete ceiling[key]
    }
    END {
        for (key in ceiling) { printf "%s has a ceiling but was not measured\n", key; bad++ }
        if (less) print less " need less than their ceiling; keep the gain with --update"
        if (bad) {
            print "FAILED: " bad " rows grew over " growth " %, have no ceiling, or were not measured;" \
                " ci/instructions.sh --update adds what has no ceiling"
            exit 1
        }
        print "ok: no operation grew over " growth " %"
    }
' "$ceilings" "$work/measured"
