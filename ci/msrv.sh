#!/usr/bin/env bash
# Checks that libraries and command compile with the lowest Rust version that Cargo.toml promises (rust-version). Installs that
# toolchain with rustup. ci/lint.sh checks the same for the standard library's functions, without another toolchain (clippy's
# incompatible_msrv).
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command rustup "rustup, from https://rustup.rs"
version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
rustup toolchain install "$version" --profile minimal
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv" \
    cargo "+$version" check --workspace --lib --bins --all-features --locked --ignore-rust-version
echo "ok: libraries and command compile with Rust $version"
