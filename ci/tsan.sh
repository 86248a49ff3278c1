#!/usr/bin/env bash
# Runs the tests with real threads under ThreadSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
host=$(rustc -vV | sed -n 's/^host: //p')
case $host in
x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;;
*)
    echo "needs Linux with glibc on x86_64 or aarch64: ThreadSanitizer's runtime does not come for $host" >&2
    exit 1
    ;;
esac

# The sanitizer runtime comes with the stable toolchain; the flag that switches it on is unstable. The
# standard library is not instrumented, hence the suppressions, each with its reason in the file.
export RUSTC_BOOTSTRAP=1
# Our own flag: a lock that it does see into.
export RUSTFLAGS="--cfg flowgate_tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
# Less to compile: the sanitizer looks at every access, whatever the optimizer leaves of them.
export CARGO_PROFILE_TESTRELEASE_OPT_LEVEL=1
cargo test --profile testrelease --locked --target "$host" \
    -p flowgate --test it -- safety:: keys::threads keys::own types::concurrency_limit types::gate:: waiting::queue --test-threads=1
