#!/usr/bin/env bash
# Compiles the command with and without `flowgate decide`, from nothing, and prints the time of each: bench/compile_time.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo fetch --locked --quiet

# compile NAME ARGUMENTS...: prints the seconds that pass, and those of the processors.
compile() {
    local name=$1
    shift
    rm -rf "$work/target"
    TIMEFORMAT="$name: %R s, %U s of processors"
    time CARGO_TARGET_DIR="$work/target" cargo build --release --locked --quiet -p flowgate-cli "$@"
}

compile "without decide" --no-default-features --features fleet
compile "with decide"
