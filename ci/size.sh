#!/usr/bin/env bash
# Measures the size of the library: ci/size.sh [--list]. Prints four numbers; --list also prints what was counted.
# A report, not a gate.
#
# code lines   Lines of crates/flowgate/src, without blank lines, comment lines and tests. Tests are the files model.rs,
#              tests.rs, schedules.rs and those in tests/ and schedules/, and each item under #[cfg(test)] or
#              #[cfg(all(test, …))].
# forwarders   Functions whose whole body is one call, of a method or a function, where receiver and arguments are names,
#              fields, constants, or calls of these without arguments: `self.word.take(clock, n)`,
#              `self.at(self.clock.now())`, `Self::new(quota)`. The call may stand in `Some(…)` or `Ok(…)`, and `?` may follow.
#              Bodies with two calls that have arguments, with operators, closures, text or macros do not count.
# repeats      Places where six or more lines stand that stood before, in this file or in another; the longest run
#              counts once. Compared are code lines without their indentation, except `use` lines and attributes.
# bytes        size_of of each limiter (crates/flowgate/examples/bytes.rs).
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. ci/tools.sh

list=0
if has_flag --list "$@"; then list=1; fi

# Prints "FILE:LINE<tab>TEXT" for each code line. rustfmt's indentation shows where an item ends.
code() {
    find crates/flowgate/src -name '*.rs' ! -name model.rs ! -name tests.rs ! -name schedules.rs \
        ! -path '*/tests/*' ! -path '*/schedules/*' | sort | xargs awk '
    FNR == 1 { test = 0 }
    /^[ \t]*$/ || /^[ \t]*\/\// { next }
    {
        match($0, /^ */)
        indent = RLENGTH
        text = substr($0, indent + 1)
    }
    # The item under the attribute: it ends with a line of its own indentation that closes it.
    test {
        if (indent == outer && (text ~ /^[}\])]/ || text ~ /[;,]$/ || text ~ /\{\}$/)) test = 0
        next
    }
    text ~ /^#\[cfg\((all\()?test[,)]/ { test = 1; outer = indent; next }
    { printf "%s:%d\t%s\n", FILENAME, FNR, $0 }'
}

# Prints "FILE:LINE<tab>NAME" for each function that only forwards.
forwarders() {
    awk -F '\t' '
    BEGIN { argument = "[&*]*[A-Za-z_0-9:.]+" }
    function closes(line) { match(line, /^ */); return RLENGTH == outer && line ~ /^ *}/ }
    {
        line = $2
        text = line
        sub(/^ */, "", text)
    }
    state == 0 && text ~ /^(pub(\([a-z: ]+\))? )?(const )?(async )?fn [a-z_0-9]+/ {
        match(line, /^ */)
        outer = RLENGTH
        name = text
        sub(/.*fn /, "", name)
        sub(/[^a-z_0-9].*/, "", name)
        place = $1
        body = ""
        state = 1
    }
    # In the head of a function.
    state == 1 {
        if (text ~ /(;|\{\})$/) state = 0
        else if (text ~ /\{$/) state = 2
        next
    }
    # In its body.
    state == 2 && closes(line) {
        state = 0
        gsub(/[ \t]/, "", body)
        gsub(/&mut/, "\\&", body)
        sub(/\?$/, "", body)
        if (body ~ /^(Some|Ok)\(.*\)$/) { sub(/^(Some|Ok)\(/, "", body); sub(/\)$/, "", body) }
        gsub(/,\)/, ")", body)
        # Calls without arguments are read as fields, then calls of names and fields from the left.
        gsub(/::<[A-Za-z_0-9:,<>]*>/, "", body)
        calls = gsub(/\(\)/, "", body)
        if (sub("\\(" argument "(," argument ")*\\)", "", body)) calls++
        if (calls && body ~ "^" argument "$") print place "\t" name
        next
    }
    state == 2 { body = body text }'
}

# Prints "FILE:LINE<tab>where it stood before" for each place that repeats six or more lines.
repeats() {
    awk -F '\t' -v window=6 '
    {
        file = $1
        sub(/:[0-9]+$/, "", file)
        text = $2
        sub(/^ */, "", text)
        if (text ~ /^(pub(\([a-z: ]+\))? )?use / || text ~ /^#!?\[/) next
        n++
        place[n] = $1
        in_file[n] = file
        lines[n] = text
    }
    END {
        before = 0
        for (i = 1; i + window - 1 <= n; i++) {
            at = 0
            if (in_file[i] == in_file[i + window - 1]) {
                key = ""
                for (j = 0; j < window; j++) key = key "\n" lines[i + j]
                if (key in first) {
                    at = first[key]
                    # The windows after the first of a run belong to the same place.
                    if (!before || at != before + 1) print place[i] "\t" place[at]
                } else {
                    first[key] = i
                }
            }
            before = at
        }
    }'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code >"$work/code"
forwarders <"$work/code" >"$work/forwarders"
repeats <"$work/code" >"$work/repeats"
if [ "$list" = 1 ]; then
    sed 's/^/forwarder /' "$work/forwarders"
    sed 's/^/repeat /' "$work/repeats"
fi
printf '%-12s %6d\n' 'code lines' "$(wc -l <"$work/code")" \
    forwarders "$(wc -l <"$work/forwarders")" repeats "$(wc -l <"$work/repeats")"
cargo run --quiet --locked -p flowgate --example bytes
