#!/usr/bin/env bash
# Checks that no two public types of the workspace have one name: a reader who finds `Verdict` should not have to ask whose.
# Reads what rustdoc lists of each library, so cargo doc comes first, and last for flowgate itself, as the command has the same name
# (ci/lint.sh does so).
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

doc=${CARGO_TARGET_DIR:-target}/doc
crates=$(sed -n 's/^name = "\(flowgate[a-z-]*\)"$/\1/p' crates/*/Cargo.toml | tr - _ | sort -u)
for crate in $crates; do
    list=$doc/$crate/all.html
    if [[ ! -f $list ]]; then
        [[ $crate == flowgate_cli ]] && continue # a command, which has no public types
        echo "ci/names.sh: $list is missing; run: cargo doc --workspace --no-deps; cargo doc -p flowgate --no-deps" >&2
        exit 2
    fi
    grep -o 'href="[^"]*\(struct\|enum\|trait\|type\|union\)\.[A-Za-z0-9_]*\.html">[^<]*' "$list" |
        sed "s/.*>/$crate::/"
done | awk -F:: '
    { paths[$NF] = paths[$NF] "  " $0; count[$NF]++ }
    END {
        for (name in count) if (count[name] > 1) { print name ":" paths[name]; found = 1 }
        exit found
    }
' || { echo "ci/names.sh: these public types share a name; rename the lesser one" >&2; exit 1; }
