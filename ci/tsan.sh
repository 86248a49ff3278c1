#!/usr/bin/env bash
# Runs the tests with real threads under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."

# The sanitizer runtime comes with the stable toolchain; the flag that switches it on is unstable. The
# standard library is not instrumented, hence the suppressions, each with its reason in the file.
export RUSTC_BOOTSTRAP=1
# Our own flag: a lock that it does see into.
export RUSTFLAGS="--cfg flowgate_tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
cargo test --release --locked --target "$(rustc -vV | sed -n 's/^host: //p')" \
    -p flowgate --test history --test striped_history --test keyed_history --test keyed_own --test concurrency_limit --test gate --test waiting -- --test-threads=1
