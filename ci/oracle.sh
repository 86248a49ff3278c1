#!/usr/bin/env bash
# Compares every limiter with its exact model, and keyed limiters with one limiter for each key and with the bound of each key,
# without debug assertions:
# ci/oracle.sh [OPERATIONS each, default 10 million].
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
export FLOWGATE_OPS=${1:-10000000}
cargo test -p flowgate --locked --profile testrelease --test it -- agree keys::exhaustive::c1_c4_c5_c7_random
# These models know the state, which only the crate itself can see.
cargo test -p flowgate --locked --profile testrelease --lib -- warm_up dual_token_bucket
