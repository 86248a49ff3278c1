#!/usr/bin/env bash
# Formatting, cycles of modules, clippy, documentation, and the feature sets that the tests do not build; warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_command cargo-clippy "clippy: rustup component add clippy"
need_command cargo-fmt "rustfmt: rustup component add rustfmt"

cargo fmt --all --check
ci/cycles.sh
ci/prose.sh
ci/links.sh
ci/breaks.sh --check
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo clippy -p flowgate --locked --features serde,futures,futures-io,metrics,tokio -- -D warnings
cargo clippy -p flowgate --locked --no-default-features -- -D warnings
cargo clippy -p flowgate --locked --no-default-features --features std -- -D warnings
ci/no_std.sh
cargo clippy -p flowgate-tower -p flowgate-otel -p flowgate-tracing --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
RUSTDOCFLAGS="-D warnings" cargo doc -p flowgate --no-deps --locked --features serde,futures,futures-io,metrics,tokio
ci/names.sh
RUSTDOCFLAGS="-D warnings" cargo doc -p flowgate --no-deps --locked --no-default-features
RUSTDOCFLAGS="-D warnings" cargo doc -p flowgate-tower --no-deps --locked
ci/package.sh --quick
(cd bench && cargo fmt --all --check)
(cd fuzz && cargo fmt --check)
(cd fuzz && cargo clippy --locked --target-dir ../target -- -D warnings)
