#!/usr/bin/env bash
# Fuzzes every reader of what someone else wrote, two at a time: ci/fuzz.sh [SECONDS each, default 30].
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_command c++ "a C++ compiler (on Debian: sudo apt-get install g++)"
need_crate cargo-fuzz cargo-fuzz 0.13.2
export seconds=${1:-30}

fuzz() {
    local name dictionary
    name=$(basename "$1" .rs)
    dictionary="fuzz/fuzz_targets/$name.dict"
    [ -f "$dictionary" ] || dictionary=
    cargo fuzz run --sanitizer none "$name" -- -max_total_time="$seconds" -verbosity=0 \
        ${dictionary:+-dict="$dictionary"}
}
export -f fuzz

# No sanitizer: there is no unsafe code in a parser, and coverage alone works on the stable toolchain.
cargo fuzz build --sanitizer none
printf '%s\n' fuzz/fuzz_targets/*.rs | xargs -P 2 -I {} bash -euc 'fuzz {}'
