#!/usr/bin/env bash
# Runs lines and keys through thousands of schedules (crates/flowgate/src/{room/schedules,keyed/schedules.rs}). ci/shuttle.sh [SCENARIO]
# FLOWGATE_SCHEDULES=1000000 takes more of each kind than 20,000, FLOWGATE_SEED=2 others.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg flowgate_shuttle ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle"
cargo test --profile testrelease --locked -p flowgate --lib -- "schedules::${1:-}" --test-threads=2
