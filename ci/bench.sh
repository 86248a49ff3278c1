#!/usr/bin/env bash
# Builds the benchmarks and runs them briefly, to see that they still work: no goal is judged by these runs.
# bench/README.md describes the measurements. Here they are built without link-time optimization, which nothing is measured with.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_package nginx nginx-light
# `flowgate load`, beside the other clients. With an example, it has the features of the tests: after them, nothing is left to build.
cargo build --locked --workspace --bin flowgate --example bytes
flowgate=$(realpath "${CARGO_TARGET_DIR:-target}/debug/flowgate")
need_package h2load nghttp2-client
need_package redis-server redis-server
need_package redis-benchmark redis-tools
cd bench
# Built once, together: `cargo run -p` would build what they depend on again, with the features that one of them needs alone.
cargo build --profile smoke --locked --workspace
built=$(realpath "${CARGO_TARGET_DIR:-target}/smoke")
for section in single types striped waiting semaphores; do
    "$built/flowgate-bench" "$section" --quick
done
for bench in clients verify; do
    "$built/flowgate-bench-$bench" --quick --flowgate "$flowgate"
done
for bench in keyed fleet decide sim adaptive tower field; do
    "$built/flowgate-bench-$bench" --quick
done
cargo test --profile smoke --locked --workspace
