#!/usr/bin/env bash
# Draws the pictures of the documentation: ci/pictures.sh [--check]. With --check, draws them into a temporary folder and fails if
# one of those in the repository differs.
#
# crates/flowgate-sim/examples/adaptive_scenarios draws adaptive-*.svg, in virtual time.
# crates/flowgate-chart/examples/pictures.rs draws the others. It runs each limiter, and a fleet, on a manual clock. Its other sources are records of
# real runs in docs/pictures, made by these commands:
#
#   load.txt      cargo run --release -- load --rate 1000/s --duration 5s
#   verify.json   flowgate serve --limiter 'token 100/s burst 20' --listen 18080 &
#                 flowgate verify http://127.0.0.1:18080/ --expect '100/s burst 20' --json verify.json
#   clients.json  in bench/, after ./setup.sh: cargo run --release --locked -p flowgate-bench-clients -- pace --json clients.json
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

# With the features of the whole workspace, as `cargo test` builds them: after the tests, nothing is left to build.
built=${CARGO_TARGET_DIR:-target}/debug/examples
draw() {
    cargo build --quiet --locked --workspace --example pictures --example adaptive_scenarios >&2 &&
        "$built/pictures" "$1" >&2 &&
        "$built/adaptive_scenarios" pictures "$1/docs/pictures" >&2
}

if ! has_flag --check "$@"; then
    draw .
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"/{docs/pictures,crates/flowgate/src/guide/pictures,crates/flowgate-fleet/src/guide/pictures}
cp docs/pictures/*.{txt,json} "$folder/docs/pictures"
draw "$folder" 2>"$folder/drawn" || {
    cat "$folder/drawn" >&2
    exit 1
}
for drawn in docs/pictures crates/flowgate/src/guide/pictures crates/flowgate-fleet/src/guide/pictures; do
    if ! diff -rq "$drawn" "$folder/$drawn" >&2; then
        echo "ci/pictures.sh: a picture is not what its source draws; run ci/pictures.sh and commit the result" >&2
        exit 1
    fi
done
