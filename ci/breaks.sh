#!/usr/bin/env bash
# Breaks the library in single places and prints which test catches each: ci/breaks.sh [WORDS of one break].
# ci/breaks.sh --check only looks whether the code of each break is still there; ci/lint.sh does that. The rest is by hand. All breaks of ci/breaks.txt are compiled into one copy of the workspace (target/breaks), where a variable
# chooses one. A break that no test catches is printed as SURVIVES, and the script then fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/tools.sh

need_command cargo "the Rust toolchain, from https://rustup.rs"
need_command perl "perl (on Debian: sudo apt-get install perl)"
wanted=${1-}
copy=$PWD/target/breaks
mkdir -p "$copy"
rm -rf "$copy/crates"
cp -r crates Cargo.toml Cargo.lock "$copy"
[ ! -f README.md ] || cp README.md "$copy"
list=$PWD/ci/breaks.txt
cd "$copy"

# Prints "NUMBER<tab>NAME<tab>TESTS" for each break.
perl -e '
    use strict; use warnings;
    my ($list, $source) = @ARGV;
    open my $in, "<", $list or die "$list: $!";
    my (@lines, $number, %text, $stale);
    my $flush = sub {
        return unless @lines;
        die "break after " . ($number // 0) . ": five lines, not " . @lines . "\n" unless @lines == 5;
        my ($name, $file, $old, $new, $tests) = @lines;
        $number++;
        my $path = "$source/$file";
        $text{$path} //= do { local (@ARGV, $/) = $path; <> };
        my $places = () = $text{$path} =~ /\Q$old\E/g;
        if ($places != 1) {
            warn "ci/breaks.txt: $name: the code stands in $file in $places places\n";
            $stale++;
        }
        my $is_broken = "crate::primitive::is_broken($number)";
        # A condition may say without a word of its own what becomes of it.
        if ($new !~ /BROKEN/) {
            my ($was) = $old =~ /^if (.*) \{$/ or die "$name: BROKEN stands nowhere\n";
            my ($is) = $new =~ /^if (.*) \{$/ or die "$name: BROKEN stands nowhere\n";
            $new = "if (BROKEN && ($is)) || (!BROKEN && ($was)) {";
        }
        $new =~ s/BROKEN/$is_broken/g;
        $text{$path} =~ s/\Q$old\E/$new/;
        print "$number\t$name\t$tests\n";
        @lines = ();
    };
    while (my $line = <$in>) {
        chomp $line;
        next if $line =~ /^#/;
        if ($line eq "") { $flush->(); next }
        push @lines, $line;
    }
    $flush->();
    exit 1 if $stale;
    my $primitive = "$source/primitive/mod.rs";
    $text{$primitive} //= do { local (@ARGV, $/) = $primitive; <> };
    $text{$primitive} .= q{
/// Whether the break of this number is chosen.
#[inline(never)]
pub(crate) fn is_broken(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("FLOWGATE_BREAK").ok()?.parse().ok();
    *CHOSEN.get_or_init(|| chosen().unwrap_or(0)) == number
}
};
    for my $path (keys %text) {
        open my $out, ">", $path or die "$path: $!";
        print $out $text{$path};
    }
' "$list" crates/flowgate/src >breaks.tsv

[ "$wanted" != --check ] || exit 0

# Not the workspace's own: cargo would take the one for the other.
export CARGO_TARGET_DIR=$copy/target
tests=$(cargo test --locked -p flowgate --lib --test it --no-run --message-format=json |
    perl -ne 'print "$1\n" if /"test":true/ && /"executable":"([^"]+)"/')

# Runs these tests by both binaries; prints the names of those that failed.
run() {
    local number=$1 binary
    shift
    for binary in $tests; do
        (cd crates/flowgate && FLOWGATE_BREAK=$number timeout 300 "$binary" "$@" 2>&1) || echo "exit $?"
    done | perl -ne 'print "$1\n" if /^test (\S+).* \.\.\. FAILED$/; print "it stands still\n" if /^exit 124$/'
}

survived=0
while IFS=$'\t' read -r number name filters; do
    case "$name" in *"$wanted"*) ;; *) continue ;; esac
    # Several filters stand side by side.
    # shellcheck disable=SC2086
    failed=$(run 0 $filters)
    [ -z "$failed" ] || { echo "fails without a break: $failed" >&2; exit 1; }
    # shellcheck disable=SC2086
    failed=$(run "$number" $filters)
    if [ -z "$failed" ]; then
        survived=$((survived + 1))
        printf '%2d SURVIVES  %s\n' "$number" "$name"
    else
        printf '%2d caught    %s: %s\n' "$number" "$name" "$(head -n 3 <<<"$failed" | paste -sd ' ')"
    fi
done <breaks.tsv
[ "$survived" = 0 ]
