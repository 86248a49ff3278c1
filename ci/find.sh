#!/usr/bin/env bash
# Does `flowgate find` give the same, right answer each time? Repeats a search against a server that completes 300 requests per
# second: ci/find.sh [RUNS, default 20]. A run takes up to 90 s, on a machine that does nothing else. Prints each result, and fails if
# fewer than 19 of 20 are within 2 %. A run in which this machine was late says nothing, and does not count.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
cargo build --release --locked -p flowgate-cli
flowgate=${CARGO_TARGET_DIR:-target}/release/flowgate
files=$(mktemp -d)
# One worker that needs 1/300 s for each request, with a queue of up to a second.
"$flowgate" serve --listen 0 --limiter 'queue 300/s burst 300' 2>"$files/serve" &
server=$!
trap 'kill "$server"; rm -rf "$files"' EXIT
until grep -q '^listening on ' "$files/serve"; do sleep 0.1; done
url=$(sed 's/^listening on //; s/,.*//; q' "$files/serve")

judged=0 near=0
for run in $(seq "${1:-20}"); do
    code=0
    "$flowgate" find "$url" --slo 'p99<100ms' --within 90s --json "$files/found" --quiet 2>"$files/errors" || code=$?
    result=$(sed -n 's/^  "\(kept\|broken\)": \([0-9.]*\),$/\2/p' "$files/found" | tr '\n' ' ')
    read -r kept broken <<<"$result" || true
    case $code in
    0 | 3) ;;
    4)
        echo "run $run: $(cat "$files/errors")"
        continue
        ;;
    *)
        cat "$files/errors" >&2
        exit 1
        ;;
    esac
    if [ -z "${broken:-}" ]; then
        echo "run $run: ${kept:-0}/s and no more, because this machine was late"
        continue
    fi
    judged=$((judged + 1))
    is_near=$(awk "BEGIN { middle = (${kept:-0} + $broken) / 2; print (middle > 294 && middle < 306) ? 1 : 0 }")
    near=$((near + is_near))
    echo "run $run: ${kept:-0}/s to $broken/s"
done
echo "$near of $judged results are within 2 % of 300/s"
[ $((near * 20)) -ge $((judged * 19)) ] && [ "$judged" -gt 0 ]
