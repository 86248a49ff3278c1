#!/usr/bin/env bash
# Explores every interleaving of the atomic protocols (crates/flowgate/src/**/model.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"

# Our own flag: `--cfg loom` would also switch dependencies to loom.
export RUSTFLAGS="--cfg flowgate_loom ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export LOOM_MAX_BRANCHES=100000
cargo test --profile testrelease --locked -p flowgate --lib -- model --test-threads=2 "$@"
