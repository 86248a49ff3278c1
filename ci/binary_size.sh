#!/usr/bin/env bash
# Prints how many bytes one limiter adds to a stripped release program, for flowgate and for governor, and fails if one
# TokenBucket adds more than 60 kB (60,000 bytes) in any of the builds.
#
#   ci/binary_size.sh [TARGET_DIR, default bench/target/binary_size]
#
# Four builds: link-time optimization fat or thin, panics that unwind (the default) or abort; each with opt-level 3 and one code
# generation unit. The programs are in bench/binary_size: an empty one, and one that asks a limiter once.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
most=60000
target=$(realpath -m "${1-bench/target/binary_size}")

export CARGO_PROFILE_RELEASE_OPT_LEVEL=3 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_STRIP=symbols
printf '%-5s %-7s %10s %10s %10s\n' lto panic empty flowgate governor
too_large=0
for lto in fat thin; do
    for panic in unwind abort; do
        CARGO_PROFILE_RELEASE_LTO=$lto CARGO_PROFILE_RELEASE_PANIC=$panic cargo build --release --locked --quiet \
            --manifest-path bench/Cargo.toml -p flowgate-bench-binary-size --target-dir "$target"
        bytes() { stat --format=%s "$target/release/size_$1"; }
        empty=$(bytes empty)
        flowgate=$(($(bytes flowgate) - empty))
        printf '%-5s %-7s %10d %+10d %+10d\n' "$lto" "$panic" "$empty" "$flowgate" $(($(bytes governor) - empty))
        if [ "$flowgate" -gt "$most" ]; then too_large=1; fi
    done
done
if [ "$too_large" = 1 ]; then
    echo "FAILED: a TokenBucket adds more than $most bytes" >&2
    exit 1
fi
echo "ok: a TokenBucket adds at most $most bytes"
