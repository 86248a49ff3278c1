#!/usr/bin/env bash
# Draws the pictures in docs/pictures: ci/pictures.sh [--check]. With --check, draws them into a temporary folder and fails if one
# of those in the repository differs.
#
# Their sources are crates/flowgate-chart/examples/pictures.rs, which runs each limiter on a manual clock, and
# docs/pictures/load.txt, the output of a real run of `flowgate load`.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

draw() {
    cargo run --quiet --locked -p flowgate-chart --example pictures -- "$1" >&2
}

if ! has_flag --check "$@"; then
    draw docs/pictures
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp docs/pictures/*.txt "$folder"
draw "$folder" 2>"$folder/drawn" || {
    cat "$folder/drawn" >&2
    exit 1
}
rm "$folder/drawn"
if ! diff -rq docs/pictures "$folder" >&2; then
    echo "ci/pictures.sh: a picture is not what its source draws; run ci/pictures.sh and commit the result" >&2
    exit 1
fi
