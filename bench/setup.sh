#!/usr/bin/env bash
# Installs the load clients that `flowgate-bench-clients` compares `flowgate load` with, and the nginx that they
# are run against. What cannot be had is named at the end, and the benchmark leaves it out.
set -euo pipefail
cd "$(dirname "$0")"
source ../ci/tools.sh

# The versions that ratios are recorded beside.
oha=1.16.0
hey=0.1.4
wrk=4.1.0
nginx=1.22.1
throttlecrab=0.4.40
# Middleware of Node.js, for flowgate-bench-verify.
middleware=(fastify@5.12.8 @fastify/rate-limit@11.2.0 rate-limiter-flexible@11.4.0)

tools=target/tools
missing=()

# client_crate COMMAND VERSION: compiles a client into $tools, where nothing else of the user's is.
client_crate() {
    if [ "$("$tools/bin/$1" --version 2>/dev/null)" = "$1 $2" ]; then
        echo "$1: $2"
        return
    fi
    echo "$1: compiling $2, which takes some minutes"
    # Whatever the caller builds for: this runs here.
    env -u CARGO_BUILD_TARGET -u RUSTFLAGS CARGO_TARGET_DIR="$tools/build" \
        cargo install --quiet --locked --root "$tools" "$1@$2" || missing+=("$1 $2")
    rm -rf "$tools/build"
}

# client_package COMMAND VERSION: installs Debian's package, which may be of another version.
client_package() {
    (need_package "$1" "$1") || {
        missing+=("$1 $2")
        return
    }
    local installed
    installed=$(dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo "unknown version")
    case $installed in
    "$2"-*) ;;
    *) echo "$1: is $installed, not $2: say so with any number" ;;
    esac
}

mkdir -p "$tools"
client_package wrk "$wrk"
client_package hey "$hey"
client_package nginx "$nginx"
client_crate oha "$oha"
# The clients of the decision server, and a peer, whose build needs protoc. Its version is asked in another way.
for package in "h2load nghttp2-client" "redis-server redis-server" "redis-benchmark redis-tools" "protoc protobuf-compiler"; do
    (need_package ${package}) || missing+=("$package")
done
if [ -d "$tools/node/node_modules" ]; then
    echo "middleware of Node.js: here"
elif ! npm install --prefix "$tools/node" --silent --no-audit --no-fund "${middleware[@]}"; then
    missing+=("${middleware[*]}")
fi
if [ -x "$tools/bin/throttlecrab-server" ]; then
    echo "throttlecrab-server: here"
else
    client_crate throttlecrab-server "$throttlecrab"
fi

if [ ${#missing[@]} -gt 0 ]; then
    printf 'could not get: %s\n' "${missing[@]}" >&2
    exit 1
fi
