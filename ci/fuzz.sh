#!/usr/bin/env bash
# Fuzzes every reader of what someone else wrote for a while: ci/fuzz.sh [SECONDS each, default 30].
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_crate cargo-fuzz cargo-fuzz 0.13.2
for target in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$target" .rs)
    dictionary="fuzz/fuzz_targets/$name.dict"
    [ -f "$dictionary" ] || dictionary=
    # No sanitizer: there is no unsafe code in a parser, and coverage alone works on the stable toolchain.
    cargo fuzz run --sanitizer none "$name" -- -max_total_time="${1:-30}" -verbosity=0 \
        ${dictionary:+-dict="$dictionary"}
done
