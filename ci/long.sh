#!/usr/bin/env bash
# What takes too long for every run: results go to VERIFICATION.md. ci/long.sh [OPERATIONS] [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."

cargo run --release --locked -p flowgate-testkit --example oracle -- "${1:-1000000000}" "${2:-1}"
ci/fuzz.sh 3600
