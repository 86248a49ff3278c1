#!/usr/bin/env bash
# Explores every interleaving of the atomic protocols (crates/flowgate/src/**/model.rs): ci/loom.sh [PART OF THE NAME OF A MODEL]
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"

# Our own flag: `--cfg loom` would also switch dependencies to loom.
export RUSTFLAGS="--cfg flowgate_loom ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export LOOM_MAX_BRANCHES=100000
models=$(cargo test --profile testrelease --locked -p flowgate --lib --no-run --message-format json-render-diagnostics |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
# A process for each model. Loom maps and unmaps stacks all the time; where threads of one process do that, they wait for each other.
found=$("$models" --list "${1:-model}" | sed -n 's/: test$//p')
if [ -z "$found" ]; then
    echo "ci/loom.sh: no model has '${1:-model}' in its name" >&2
    exit 2
fi
said=$CARGO_TARGET_DIR/models.txt
if ! xargs --max-procs="$(nproc)" --max-args=1 "$models" --exact --quiet --test-threads=1 <<<"$found" >"$said" 2>&1; then
    cat "$said"
    echo "ci/loom.sh: these models fail:" >&2
    grep --line-regexp '    [a-z0-9_:]*' "$said" | sort --unique >&2
    exit 1
fi
echo "ok: $(wc -l <<<"$found") models"
