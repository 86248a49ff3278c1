#!/usr/bin/env bash
# Builds the benchmarks and runs them briefly, to see that they still work; see bench/README.md for the real thing.
set -euo pipefail
cd "$(dirname "$0")/../bench"

cargo run --release --locked -- single --quick
cargo run --release --locked -- types --quick
cargo run --release --locked -- striped --quick
cargo run --release --locked -- waiting --quick
cargo run --release --locked -- semaphores --quick
cargo run --release --locked -p flowgate-bench-clients -- --quick
cargo run --release --locked -p flowgate-bench-keyed -- --quick
cargo run --release --locked -p flowgate-bench-tower -- --quick
cargo run --release --locked -p flowgate-bench-field -- --quick
cargo run --release --locked -p flowgate-bench-verify -- --quick
cargo test --release --locked -p flowgate-bench-chart -p flowgate-bench-tower -p flowgate-bench-field \
    -p flowgate-bench-verify
