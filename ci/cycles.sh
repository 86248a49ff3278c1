#!/usr/bin/env bash
# Checks the imports of the library: ci/cycles.sh [--list]. --list also prints which module uses which, and by what name.
#
# cycles   In every folder of crates/flowgate/src, the entries (files and folders) use each other in one direction. Imports are
#          followed to the file that defines the name. A folder's mod.rs stands above the other entries and is not compared.
#          Tests are left out: they are what ci/size.sh does not count.
# lib.rs   Code names the module that defines an item, not its public name: crate::quota::Quota, not crate::Quota. This
#          applies to tests, too, but not to documentation.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. ci/tools.sh

list=0
if has_flag --list "$@"; then list=1; fi

cd crates/flowgate/src
find . -name '*.rs' | sed 's|^\./||' | sort | xargs awk -v list="$list" '
# The module of a file: "" for lib.rs, "queue::active" for queue/active/mod.rs.
function module_of(file) {
    sub(/\.rs$/, "", file)
    sub(/(^|\/)mod$/, "", file)
    gsub(/\//, "::", file)
    return file == "lib" ? "" : file
}
function join(module, name) { return module == "" ? name : module "::" name }
function parent(module) { return sub(/::[^:]*$/, "", module) ? module : "" }

# Takes "path::{a, b::{c, d as e}}" apart, and keeps each name under the module that imports it.
function take_apart(prefix, tree, i, c, depth, part, open, rest) {
    sub(/^ +/, "", tree)
    sub(/ +$/, "", tree)
    open = index(tree, "{")
    if (!open) {
        if (tree != "") keep(prefix tree)
        return
    }
    prefix = prefix substr(tree, 1, open - 1)
    rest = substr(tree, open + 1)
    part = ""
    depth = 0
    for (i = 1; i <= length(rest); i++) {
        c = substr(rest, i, 1)
        if (c == "{") depth++
        if (c == "}" && depth-- == 0) break
        if (c == "," && depth == 0) {
            take_apart(prefix, part)
            part = ""
        } else {
            part = part c
        }
    }
    take_apart(prefix, part)
}
# Keeps one path: what it names in the module, and the path from the root of the crate.
function keep(path, name, base, relative) {
    gsub(/ +as +/, " ", path)
    name = path
    sub(/^.*[: ]/, "", name)
    sub(/ .*/, "", path)
    sub(/::(self|\*)$/, "", path)
    if (name == "self") {
        name = path
        sub(/^.*::/, "", name)
    }
    base = module
    if (path ~ /^crate(::|$)/) {
        base = ""
        sub(/^crate(::)?/, "", path)
    } else if (path ~ /^super(::|$)/) {
        supers = -inline
        while (sub(/^super(::|$)/, "", path)) supers++
        # An inline module counts as its file.
        while (supers-- > 0) base = parent(base)
    } else {
        # Without self:: it begins with a child module, or with another crate.
        relative = !sub(/^self::/, "", path)
    }
    paths++
    path_is_relative[paths] = relative
    path_in[paths] = module
    path_at[paths] = FILENAME ":" FNR
    path_base[paths] = base
    path_to[paths] = path
    path_is_test[paths] = is_test
    if (is_use && name != "_" && name != "") alias[module, name] = paths
}
# The module that defines what the path names, or "?" for another crate.
function defined_in(number, steps, at, parts, n, i, next_path) {
    at = path_base[number]
    n = split(path_to[number], parts, "::")
    if (path_is_relative[number] && !(join(at, parts[1]) in file_of)) return "?"
    for (i = 1; i <= n; i++) {
        if (join(at, parts[i]) in file_of) {
            at = join(at, parts[i])
            continue
        }
        if (at == "") return ""
        if ((at, parts[i]) in alias && steps < 8) {
            next_path = alias[at, parts[i]]
            if (next_path == number) return at
            at = defined_in(next_path, steps + 1)
            if (at == "?" || at == "") return at
            continue
        }
        return at
    }
    return at
}
FNR == 1 {
    module = module_of(FILENAME)
    file_of[module] = FILENAME
    test_file = FILENAME ~ /(^|\/)((model|tests|schedules)\.rs$|(tests|schedules)\/)/
    test_item = 0
    inline = 0
    is_use = 0
}
/^[ \t]*$/ || /^[ \t]*\/\// { next }
{
    match($0, /^ */)
    indent = RLENGTH
    text = substr($0, indent + 1)
    sub(/ \/\/ .*/, "", text)
    is_test = test_file || test_item
}
test_item {
    if (indent == outer && (text ~ /^[}\])]/ || text ~ /[;,]$/ || text ~ /\{\}$/)) test_item = 0
}
text ~ /^#\[cfg\((all\()?test[,)]/ && !test_item { test_item = 1; outer = indent; next }
text ~ /^(pub(\([a-z: ]+\))? )?mod [a-z_0-9]+ \{$/ { ends[++inline] = indent }
inline && indent == ends[inline] && text == "}" { inline-- }
text ~ /^(pub(\([a-z:_ ]+\))? )?use / && !is_use {
    is_use = 1
    statement = ""
    sub(/^(pub(\([a-z:_ ]+\))? )?use /, "", text)
}
is_use {
    statement = statement " " text
    if (text ~ /;$/) {
        sub(/; *$/, "", statement)
        if (module != "") take_apart("", statement)
        is_use = 0
    }
    next
}
module != "" {
    gsub(/\$crate/, "", text)
    gsub(/"([^"\\]|\\.)*"/, "", text)
    gsub(/pub\(in [a-z_:]*\)/, "", text)
    while (match(text, /(^|[^A-Za-z_0-9:])(crate|super)(::[A-Za-z_0-9]+)+/)) {
        path = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/^[^a-z]/, "", path)
        keep(path)
    }
}
END {
    for (i = 1; i <= paths; i++) {
        to = defined_in(i, 0)
        if (to == "?") continue
        from = path_in[i]
        if (to == "") {
            if (path_base[i] == "" && path_to[i] != "") {
                print path_at[i] ": crate::" path_to[i] " is the public name in lib.rs; name the module that defines it"
                failed = 1
            }
            continue
        }
        if (path_is_test[i]) continue
        # The entries of the folder in which the two part.
        m = split(from, a, "::")
        n = split(to, b, "::")
        folder = ""
        for (k = 1; k <= m && k <= n && a[k] == b[k]; k++) folder = join(folder, a[k])
        if (k > m || k > n) continue
        used = folder "\t" a[k] "\t" b[k]
        if (!(used in uses)) {
            uses[used] = path_at[i]
            names[used] = path_to[i]
            users[++count] = used
        } else if (!index(" " names[used] " ", " " path_to[i] " ")) {
            names[used] = names[used] " " path_to[i]
        }
    }
    if (list) {
        for (i = 1; i <= count; i++) {
            split(users[i], u, "\t")
            print (u[1] == "" ? "" : u[1] ": ") u[2] " uses " u[3] " (" uses[users[i]] ": " names[users[i]] ")"
        }
    }
    # Entries that use nothing that is left go, until none does. What is left stands in a cycle, or uses one.
    for (i = 1; i <= count; i++) left[users[i]]
    do {
        gone = 0
        for (used in left) {
            split(used, u, "\t")
            is_used_on = 0
            is_using = 0
            for (other in left) {
                split(other, o, "\t")
                if (o[1] != u[1]) continue
                if (o[2] == u[3]) is_used_on = 1
                if (o[3] == u[2]) is_using = 1
            }
            if (!is_used_on || !is_using) {
                delete left[used]
                gone = 1
            }
        }
    } while (gone)
    for (i = 1; i <= count; i++) {
        if (!(users[i] in left)) continue
        split(users[i], u, "\t")
        print uses[users[i]] ": in a cycle of src" (u[1] == "" ? "" : "/" u[1]) ": " u[2] " uses " u[3] " (" names[users[i]] ")"
        failed = 1
    }
    exit failed
}' || {
    echo "ci/cycles.sh: crates/flowgate/src has cycles of modules, or imports through lib.rs" >&2
    exit 1
}
