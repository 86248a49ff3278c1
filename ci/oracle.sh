#!/usr/bin/env bash
# Every limiter against its exact model, and keyed ones against one limiter for each key: ci/oracle.sh [OPERATIONS each,
# default 10 million].
set -euo pipefail
cd "$(dirname "$0")/.."
export FLOWGATE_OPS=${1:-10000000}

tests=(differential fixed_window sliding_window segmented_window approximate_window decaying_bucket keyed_differential)
cargo test -p flowgate --locked --profile testrelease "${tests[@]/#/--test=}" -- agree
# The warm-up's model knows its state, which only the crate itself can see.
cargo test -p flowgate --locked --profile testrelease --lib -- warm_up
