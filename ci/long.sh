#!/usr/bin/env bash
# Runs what takes too long for every change, in some ten hours: every test with all its draws and without debug assertions,
# oracles, schedules, fuzzing, servers over HTTP, a long load. ci/long.sh [OPERATIONS of the oracle, default 10⁹] [SEED]
# Writes the results into bench/recorded/long.txt; VERIFICATION.md quotes them.
set -uo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh
. ci/steps.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_package nginx nginx-light
need_package wrk wrk
need_package tinyproxy tinyproxy-bin
need_package redis-server redis-server
need_package faketime faketime
ci/engines.sh
export CARGO_INCREMENTAL=0 FLOWGATE_LONG=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

everything() {
    step 20 msrv ci/msrv.sh
    step 60 package ci/package.sh
    step 20 binary_size ci/binary_size.sh
    step 120 release cargo test --workspace --locked --profile testrelease -- --include-ignored
    step 60 oracles ci/oracle.sh 10000000
    step 240 oracle cargo run --release --locked -p flowgate-testkit --example oracle -- "${1:-1000000000}" "${2:-1}"
    # Every type and storage, by every contract: times before a change of quota, resets with debts, waits given up unseen.
    step 240 contracts cargo run --release --locked -p flowgate-testkit --example contracts -- "${1:-1000000000}" "${2:-1}"
    step 60 shuttle env FLOWGATE_SCHEDULES="${FLOWGATE_SCHEDULES:-20000}" ci/shuttle.sh
    step 300 fuzz ci/fuzz.sh 3600
    # How often is a limiter recognised over HTTP?
    step 20 peers bench/verify/setup.sh
    step 120 verify cargo run --release --locked --manifest-path bench/Cargo.toml -p flowgate-bench-verify -- \
        --repetitions 20 --together 16
    # How close do adaptive limits come to the best fixed one?
    step 240 adaptive cargo run --release --locked -p flowgate-sim --example adaptive_scenarios -- table
    # A million worlds of processes that share limits, and of faults.
    step 60 fleet env FLOWGATE_FLEET_SEEDS=1000000 cargo test --profile testrelease --locked -p flowgate-fleet --lib sim::c1
    # The worst of 20 seeds: fairness, calls, utilization and losses of leases.
    step 30 leases env FLOWGATE_LEASER_NODES=2,4,8,16,64 FLOWGATE_LEASER_SEEDS=20 \
        cargo test --profile testrelease --locked -p flowgate-fleet --lib leaser::goals
    # Two Envoys that decide by their parts of a limit, for a minute.
    step 10 envoys env FLOWGATE_LONG=1 cargo test --locked -p flowgate-server --test it -- --ignored envoy::c1
    # An hour of requests, new keys and reloads.
    step 75 soak ci/soak.sh 3600
    # The same answer in 20 searches, in real time.
    step 45 find ci/find.sh 20
    step 30 growth ci/growth.sh
    steps_passed
}

everything "$@" 2>&1 | tee "$log"
passed=$?
{
    echo "# Results of ci/long.sh; the script rewrites this file."
    echo "# $(date --utc +%F), $(git rev-parse --short HEAD), $(rustc --version | cut -d' ' -f1,2), $(nproc) cores of" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    grep -E '^(===|test result|minute |[a-z]+ +[0-9]+s$)| disagreements$' "$log"
} >bench/recorded/long.txt
exit "$passed"
