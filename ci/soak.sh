#!/usr/bin/env bash
# Asks `flowgate decide` over HTTP and the protocol of Redis for a long time, with new keys all the time and a reload each 5 s:
# ci/soak.sh [SECONDS, default 60]. Fails if a request has no answer, the limit has counted another number of them, a reload fails,
# or memory grows by more than 16 MiB after the first sixth of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_package redis-benchmark redis-tools
need_package curl curl
seconds=${1:-60}
most_growth_kb=16384

cargo build --release --locked --quiet -p flowgate-cli
flowgate=$(realpath "${CARGO_TARGET_DIR:-target}/release/flowgate")
work=$(mktemp -d)
cat >"$work/limits.yaml" <<'YAML'
domain: api
descriptors:
  - { key: user, quota: 1000000/s, capacity: 100000 }
  - { key: site, quota: 1000000/s }
YAML
: >"$work/said"
"$flowgate" decide "$work/limits.yaml" --rls none --http 0 --resp 0 --admin 0 2>"$work/said" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q '^listening' "$work/said"; do sleep 0.1; done
# address DOOR: as the server prints it, such as 127.0.0.1:8080.
address() { sed -nE "s/^listening.*$1 (on )?(http:..)?(127[.0-9]*:[0-9]+).*/\3/p" "$work/said" | head -n 1; }
http=$(address HTTP) resp=$(address RESP) admin=$(address admin)
resident_kb() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$server/status"; }
metric() { curl -sf "http://$admin/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }

end=$((SECONDS + seconds))
(
    # Ends before the others, so that all of its commands are counted.
    while ((SECONDS < end - 5)); do
        redis-benchmark -p "${resp#*:}" -c 20 -P 16 -n 200000 -r 100000000 --csv FG.ASK api.user __rand_int__ >/dev/null 2>&1
    done
) &
keys=$!
(
    while ((SECONDS < end)); do
        sleep 5
        kill -HUP "$server"
    done
) &
reloads=$!
"$flowgate" load --rate 500/s --duration "${seconds}s" --quiet --json "$work/load.json" \
    -m POST -d '{"limit":"api.site","key":"a"}' --max-errors 0 "http://$http/v1/ask" &
load=$!
sleep $((seconds / 6))
before=$(resident_kb)
wait "$load" || {
    code=$?
    # 4: this machine was too busy for the rate, which is no fault of the server.
    [ "$code" = 4 ] || exit "$code"
}
wait "$keys" "$reloads"
after=$(resident_kb)
# The first one is that of the whole run. The file of an hour is longer than a pipe holds.
sent=$(awk -F '"sent": *' 'NF > 1 { print $2 + 0; exit }' "$work/load.json")
counted=$(metric 'flowgate_decisions_total{rule="api.site",result="ok"}')
wrong=$(metric 'flowgate_configuration_loads_total{result="error"}')
asked=$(metric 'flowgate_decisions_total{rule="api.user",result="ok"}')
echo "soak: $sent requests of HTTP, $asked new keys, $(metric 'flowgate_configuration_loads_total{result="ok"}') loads; $before kB, then $after kB"
[ "$sent" = "$counted" ] || { echo "ci/soak.sh: $sent requests were answered, and $counted counted" >&2; exit 1; }
[ "$wrong" = 0 ] || { echo "ci/soak.sh: $wrong loads failed" >&2; exit 1; }
((after - before <= most_growth_kb)) || { echo "ci/soak.sh: memory grew from $before to $after kB" >&2; exit 1; }
kill "$server"
wait "$server"
