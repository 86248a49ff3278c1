#!/usr/bin/env bash
# Does a load of ten minutes grow? Prints what the memory of `flowgate load` is in each minute.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
cargo build --release --locked
"${CARGO_TARGET_DIR:-target}/release/flowgate" load -q 5000 -z 10m --quiet &
load=$!
for minute in 1 2 3 4 5 6 7 8 9; do
    sleep 60
    echo "minute $minute: $(grep VmRSS "/proc/$load/status")"
done
# On a machine that stands still now and then the rate is not held (status 4); that is not asked here.
wait "$load" || [ $? = 4 ]
