#!/usr/bin/env bash
# Everything that COMPARE.md quotes, in one command: tables as they come, and in bench/out/ the same as text, JSON and a chart
# for each group. bench/all.sh takes an hour, bench/all.sh --quick some two minutes (to see that it runs; not to be
# quoted); with names of groups, bench/all.sh keyed tower, only these.
set -euo pipefail
cd "$(dirname "$0")"
. ../ci/tools.sh

# What is measured, by which program.
groups=(
    "single flowgate-bench single"
    "types flowgate-bench types"
    "striped flowgate-bench striped"
    "semaphores flowgate-bench semaphores"
    "waiting flowgate-bench waiting"
    "keyed flowgate-bench-keyed"
    "fleet flowgate-bench-fleet"
    "decide flowgate-bench-decide"
    "sim flowgate-bench-sim"
    "adaptive flowgate-bench-adaptive"
    "tower flowgate-bench-tower"
    "clients flowgate-bench-clients"
    "field flowgate-bench-field"
    "verify flowgate-bench-verify --together 12"
)
# These have verdicts and no speeds: there is nothing to draw.
without_chart=" adaptive decide field fleet sim verify "

usage() {
    echo "usage: bench/all.sh [--quick] [GROUP…]; groups: ${groups[*]%% *}" >&2
    exit 2
}

quick=()
wanted=()
for word in "$@"; do
    case $word in
        --quick) quick=(--quick) ;;
        *)
            [[ " ${groups[*]%% *} " == *" $word "* ]] || usage
            wanted+=("$word")
            ;;
    esac
done

need_command cargo "the Rust toolchain, from https://rustup.rs"
# oha, hey, wrk, nginx and others; a client that is missing is left out, and the table says so.
./setup.sh
cargo build --release --locked --workspace
built=${CARGO_TARGET_DIR:-target}/release
mkdir -p out

failed=""
texts=()
charts=()
for group in "${groups[@]}"; do
    read -r name program words <<<"$group"
    [[ ${#wanted[@]} -eq 0 || " ${wanted[*]} " == *" $name "* ]] || continue
    printf '\n=== %s\n' "$name"
    # Words of an option each.
    # shellcheck disable=SC2086
    "$built/$program" $words "${quick[@]}" --json "out/$name.json" | tee "out/$name.txt" || failed+=" $name"
    texts+=("out/$name.txt")
    [[ $without_chart == *" $name "* ]] || charts+=("out/$name.json")
done

if [ ${#charts[@]} -gt 0 ]; then
    "$built/flowgate-bench-chart" "${charts[@]}"
fi

printf '\nGoals that were missed, or could not be judged:\n'
grep -H -E '^goal (MISSED|INVALID)|^DISTURBED' "${texts[@]}" || echo "none"
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
