#!/usr/bin/env bash
# Packages all crates as for crates.io, and tests what is in the packages: each unpacked into a folder of its own, where they are
# built against one another and nothing else of this repository is there.
#
#   ci/package.sh            build, run all tests there, and make the documentation as docs.rs does (over 5 minutes)
#   ci/package.sh --quick    package, and check what is in each package; builds nothing (2 seconds)
#
# ci/long.sh runs the first, and ci/lint.sh the second. Each package has a README, both licenses, and every dependency that its
# tests need. The tests of flowgate need flowgate-testkit, which depends on flowgate; cargo resolves that circle because each crate
# is patched to be that of this folder. CONTRIBUTING.md (A release) has the steps to publish.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

quick=0
if has_flag --quick "$@"; then quick=1; fi

need_command cargo "the Rust toolchain, from https://rustup.rs"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# One for each form, so that the quick one does not disturb tests that run in the other.
folder=$target/package/unpacked
if [ "$quick" = 1 ]; then folder=$target/package/read; fi
failed=0
fail() {
    echo "ci/package.sh: $*" >&2
    failed=1
}

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
rm -rf "$folder" "$target"/package/*.crate
mkdir -p "$folder"
if ! said=$(cargo package --workspace --no-verify --exclude-lockfile --allow-dirty 2>&1); then
    echo "$said" >&2
    exit 1
fi
if grep -n warning <<<"$said"; then fail "cargo package warns"; fi

for manifest in crates/*/Cargo.toml; do
    name=$(basename "$(dirname "$manifest")")
    packed=$target/package/$name-$version.crate
    # As cargo unpacks it: no other package is found by the name of its folder here.
    tar -xzf "$packed" -C "$folder"
    unpacked=$folder/$name-$version
    for license in LICENSE-MIT LICENSE-APACHE; do
        cmp -s "$license" "$unpacked/$license" || fail "$name: $license is missing, or not that of the repository"
    done
    [ -s "$unpacked/README.md" ] || fail "$name: README.md is missing"
    for field in description license repository readme documentation keywords categories rust-version; do
        grep -q "^$field = " "$unpacked/Cargo.toml" || fail "$name: Cargo.toml has no $field"
    done
    # A dependency without a version would be left out, and the tests would not compile. A crate's dependency on itself only
    # turns features on: there, that is `--all-features`.
    own=$(grep -E '^[a-z0-9_-]+ = \{.*path = "' "$manifest" | grep -v 'path = "\."' || true)
    other=$(grep -v "version = \"$version\"" <<<"$own" || true)
    [ -z "$other" ] || fail "$name: needs version = \"$version\": $other"
    if [ -f "$unpacked/src/lib.rs" ]; then
        grep -q '^\[package.metadata.docs.rs\]' "$unpacked/Cargo.toml" || fail "$name: Cargo.toml does not say how docs.rs builds it"
        others=$(sed -n 's/.*html_root_url = "\(.*\)".*/\1/p' "$unpacked/src/lib.rs")
        [ "${others:-$name/$version}" = "${others%"$name/$version"}$name/$version" ] || fail "$name: html_root_url is not of $version"
    fi
    # Paths that the compiler reads: none leads out of the package.
    while IFS=: read -r file path; do
        [ -e "$(dirname "$file")/$path" ] || fail "${file#"$folder/"} reads $path, which is not in the package"
    done < <(grep -rE --include='*.rs' '^ *(#\[path = "|.*include(_str|_bytes)?!\(")[^"]+"' "$unpacked" |
        grep -v ':[[:space:]]*//' | sed -nE 's/^([^:]+):.*(path = |!\()"([^"]+)".*$/\1:\3/p')
    files=$(find "$unpacked" -type f | wc -l)
    printf '%-18s %4d files %6d kB packed\n' "$name" "$files" $((($(stat --format=%s "$packed") + 999) / 1000))
done

# Each crate is published after those that it depends on. The first is the one of the circle.
published=" flowgate "
for name in $(sed -n 's/^ *for crate in \(flowgate.*\); do$/\1/p' CONTRIBUTING.md); do
    for needed in $(sed -n 's/^\(flowgate[a-z-]*\) = {.*path = "\.\..*/\1/p' "crates/$name/Cargo.toml"); do
        [[ $published == *" $needed "* ]] || fail "CONTRIBUTING.md publishes $name before $needed"
    done
    published+="$name "
done
for manifest in crates/*/Cargo.toml; do
    name=$(basename "$(dirname "$manifest")")
    [[ $published == *" $name "* ]] || fail "CONTRIBUTING.md does not publish $name"
done

[ "$failed" = 0 ] || exit 1
if grep -q '^repository = ""' Cargo.toml; then
    echo "note: repository is empty in Cargo.toml; crates.io refuses the packages until it is filled in"
fi
if [ "$quick" = 1 ]; then
    echo "ok: all crates can be packaged"
    exit
fi

# The same profiles and versions as here, so that other crates need not be built again. Cargo.lock loses what flowgate turns on
# in itself, so it is not `--locked`.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for unpacked in "$folder"/*/; do
        unpacked=$(basename "$unpacked")
        echo "${unpacked%"-$version"} = { path = \"$unpacked\" }"
    done
    echo
    sed -n '/^\[profile\./,$p' Cargo.toml
} >"$folder/Cargo.toml"
cp Cargo.lock "$folder"
cd "$folder"
# docs.rs has a nightly toolchain, for the badges of features. In a folder of its own, so that nothing is built again after it.
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="--cfg docsrs -D warnings" CARGO_TARGET_DIR=$target/docsrs \
    cargo doc --workspace --lib --no-deps --all-features
CARGO_TARGET_DIR=$target cargo test --workspace --all-features --no-fail-fast
echo "ok: all packages build, and pass their tests; docs.rs can document them"
