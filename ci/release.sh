#!/usr/bin/env bash
# Runs the library's tests as users run the code: optimized, without debug assertions. ci/long.sh does so for every crate.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
cargo test -p flowgate --locked --profile testrelease --lib --test it
# The scenarios of adaptive limits, shortly: does each of them still run?
cargo run -p flowgate-sim --locked --profile testrelease --example adaptive_scenarios -- table --quick
