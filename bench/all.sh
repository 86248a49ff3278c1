#!/usr/bin/env bash
# Everything that COMPARE.md quotes, in one command: tables as they come, and in bench/out/ the same as text, JSON and a chart
# for each group. bench/all.sh takes about 75 minutes, bench/all.sh --quick some two (to see that it runs; not to be quoted).
set -euo pipefail
cd "$(dirname "$0")"
. ../ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
quick=()
case "${1:-}" in
    "") ;;
    --quick) quick=(--quick) ;;
    *)
        echo "usage: bench/all.sh [--quick]" >&2
        exit 2
        ;;
esac

# oha, hey, wrk and nginx; a client that is missing is left out, and the table says so.
./setup.sh
cargo build --release --locked --workspace
built=${CARGO_TARGET_DIR:-target}/release
mkdir -p out

failed=""
# group NAME PROGRAM [WORD…]
group() {
    local name=$1 program=$2
    shift 2
    printf '\n=== %s\n' "$name"
    "$built/$program" "$@" "${quick[@]}" --json "out/$name.json" | tee "out/$name.txt" || failed+=" $name"
}

group single flowgate-bench single
group types flowgate-bench types
group striped flowgate-bench striped
group semaphores flowgate-bench semaphores
group waiting flowgate-bench waiting
group keyed flowgate-bench-keyed
group tower flowgate-bench-tower
group clients flowgate-bench-clients
group field flowgate-bench-field
group verify flowgate-bench-verify

"$built/flowgate-bench-chart" out/{single,types,striped,semaphores,waiting,keyed,tower,clients}.json

printf '\nGoals that were missed, or could not be judged:\n'
grep -H -E '^goal (MISSED|INVALID)|^DISTURBED' out/*.txt || echo "none"
if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
