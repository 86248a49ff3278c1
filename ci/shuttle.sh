#!/usr/bin/env bash
# Runs the waiting room through thousands of schedules (crates/flowgate/src/room/schedules). ci/shuttle.sh [SCENARIO]
# FLOWGATE_SCHEDULES=1000000 takes more of each kind than 20,000, FLOWGATE_SEED=2 others.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg flowgate_shuttle ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/shuttle"
cargo test --profile testrelease --locked -p flowgate --lib -- "room::schedules::${1:-}" --test-threads=2
