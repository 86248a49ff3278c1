#!/usr/bin/env bash
# Builds the benchmarks and runs them briefly, to see that they still work: no goal is judged by these runs.
# bench/README.md describes the measurements. Here they are built without link-time optimization, which nothing is measured with.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_package nginx nginx-light
# `flowgate load` as the tests built it, beside the other clients.
cargo build --locked -p flowgate-cli
flowgate=$(realpath "${CARGO_TARGET_DIR:-target}/debug/flowgate")
cd bench
cargo build --profile smoke --locked --workspace
cargo run --profile smoke --locked -- single --quick
cargo run --profile smoke --locked -- types --quick
cargo run --profile smoke --locked -- striped --quick
cargo run --profile smoke --locked -- waiting --quick
cargo run --profile smoke --locked -- semaphores --quick
cargo run --profile smoke --locked -p flowgate-bench-clients -- --quick --flowgate "$flowgate"
cargo run --profile smoke --locked -p flowgate-bench-keyed -- --quick
cargo run --profile smoke --locked -p flowgate-bench-fleet -- --quick
need_package h2load nghttp2-client
need_package redis-benchmark redis-tools
cargo run --profile smoke --locked -p flowgate-bench-decide -- --quick
cargo run --profile smoke --locked -p flowgate-bench-sim -- --quick
cargo run --profile smoke --locked -p flowgate-bench-adaptive -- --quick
cargo run --profile smoke --locked -p flowgate-bench-tower -- --quick
cargo run --profile smoke --locked -p flowgate-bench-field -- --quick
cargo run --profile smoke --locked -p flowgate-bench-verify -- --quick
cargo test --profile smoke --locked -p flowgate-bench-chart -p flowgate-bench-tower -p flowgate-bench-field \
    -p flowgate-bench-verify
