#!/usr/bin/env bash
# Runs queues and keys through thousands of schedules (crates/flowgate/src/{queue/schedules,keyed/schedules.rs}):
# ci/shuttle.sh [SCENARIO]
# FLOWGATE_SCHEDULES is how many of each kind (default 20,000; CI runs 2,000), FLOWGATE_SEED chooses others.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
export RUSTFLAGS="--cfg flowgate_shuttle ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle"
cargo test --profile testrelease --locked -p flowgate --lib -- "schedules::${1:-}" --test-threads=2
