#!/usr/bin/env bash
# Builds flowgate without `std`, and against it a program that is `no_std`, and runs that. As an example of the crate it would get
# the features that other examples and tests turn on.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/no_std
cargo build --quiet --locked -p flowgate --lib --no-default-features --target-dir "$target"
rustc --edition 2024 -D warnings crates/flowgate/examples/no_std.rs -o "$target/radio" \
    --extern flowgate="$target/debug/libflowgate.rlib" -L dependency="$target/debug/deps"
said=$("$target/radio")
echo "$said"
[[ $said == "sent 26 of 300 messages"* ]] || {
    echo "ci/no_std.sh: it sends 26" >&2
    exit 1
}
