#!/usr/bin/env bash
# Packages all crates as for crates.io, and tests what is in the packages: unpacked into a folder of its own, where they are
# built against one another and nothing else of this repository is there.
#
#   ci/package.sh            build and run all tests there
#   ci/package.sh --quick    package, and check what is in each package; builds nothing
#
# Each package has a README, both licenses, and every dependency that its tests need. The tests of flowgate need flowgate-testkit,
# which depends on flowgate; cargo resolves that circle because each crate is patched to be that of this folder. ARCHITECTURE.md
# (Packages) describes how to publish.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

quick=0
case "${1-}" in
"") ;;
--quick) quick=1 ;;
*)
    echo "ci/package.sh: unknown argument '$1'; use --quick, or no argument" >&2
    exit 2
    ;;
esac

need_command cargo "the Rust toolchain, from https://rustup.rs"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/package/unpacked
failed=0
fail() {
    echo "ci/package.sh: $*" >&2
    failed=1
}

rm -rf "$folder" "$target"/package/*.crate
mkdir -p "$folder"
if ! said=$(cargo package --workspace --no-verify --exclude-lockfile --allow-dirty 2>&1); then
    echo "$said" >&2
    exit 1
fi
if grep -n warning <<<"$said"; then fail "cargo package warns"; fi

for manifest in crates/*/Cargo.toml; do
    name=$(basename "$(dirname "$manifest")")
    packed=$(echo "$target/package/$name"-[0-9]*.crate)
    mkdir "$folder/$name"
    tar -xzf "$packed" -C "$folder/$name" --strip-components=1
    for license in LICENSE-MIT LICENSE-APACHE; do
        cmp -s "$license" "$folder/$name/$license" || fail "$name: $license is missing, or not that of the repository"
    done
    [ -s "$folder/$name/README.md" ] || fail "$name: README.md is missing"
    for field in description license readme documentation keywords categories rust-version; do
        grep -q "^$field = " "$folder/$name/Cargo.toml" || fail "$name: Cargo.toml has no $field"
    done
    # A dependency without a version would be left out, and the tests would not compile. A crate's dependency on itself only
    # turns features on: there, that is `--all-features`.
    stripped=$(grep -E '^[a-z0-9_-]+ = \{.*path = "' "$manifest" | grep -v 'path = "\."' | grep -v 'version = "' || true)
    [ -z "$stripped" ] || fail "$name: needs a version: $stripped"
    files=$(find "$folder/$name" -type f | wc -l)
    printf '%-18s %4d files %6d kB packed\n' "$name" "$files" $((($(stat --format=%s "$packed") + 999) / 1000))
done
[ "$failed" = 0 ] || exit 1
if [ "$quick" = 1 ]; then
    echo "ok: all crates can be packaged"
    exit
fi

# The same profiles and versions as here, so that other crates need not be built again. Cargo.lock loses what flowgate turns on
# in itself, so it is not `--locked`.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for crate in "$folder"/*/; do
        crate=$(basename "$crate")
        echo "$crate = { path = \"$crate\" }"
    done
    echo
    sed -n '/^\[profile\./,$p' Cargo.toml
} >"$folder/Cargo.toml"
cp Cargo.lock "$folder"
cd "$folder"
CARGO_TARGET_DIR=$target cargo test --workspace --all-features
echo "ok: all packages build, and pass their tests"
