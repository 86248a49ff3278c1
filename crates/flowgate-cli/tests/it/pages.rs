//! The pages in `docs/cli` have the flags, exit codes and JSON fields of the command. A package has copies of the pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Serve, run};

pub fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pages");
    fs::read_to_string(path.join(name)).expect("the page exists")
}

#[test]
fn each_flag_is_on_the_page_of_its_subcommand() {
    for subcommand in [
        "load", "pace", "serve", "decide", "find", "verify", "report", "simulate",
    ] {
        let (_, help, _) = run(&[subcommand, "-h"]);
        let page = page(&format!("{subcommand}.md"));
        let flags = help.lines().filter_map(|line| {
            let line = line.trim_start();
            let words = line.starts_with('-').then(|| line.split([' ', ',']))?;
            words
                .filter(|word| word.starts_with("--"))
                .map(str::to_owned)
                .next()
        });
        let flags: Vec<String> = flags.filter(|flag| flag != "--help").collect();
        assert!(flags.len() >= 2, "{subcommand}: {flags:?}");
        for flag in flags {
            assert!(
                page.contains(&format!("`{flag}`")),
                "{subcommand}.md lacks {flag}"
            );
        }
    }
}

#[test]
fn each_exit_code_is_in_the_table() {
    let (_, help, _) = run(&["--help"]);
    let (_, table) = help.split_once("Exit codes").expect("a table");
    let page = page("README.md");
    for line in table.lines() {
        let code = line.split_whitespace().next().unwrap_or_default();
        if code.parse::<u8>().is_ok() {
            assert!(page.contains(&format!("| {code} |")), "{code}");
        }
    }
}

/// The paths in the first column of the page's tables of fields.
fn documented(page: &str) -> BTreeSet<String> {
    let (_, section) = page.split_once("## JSON").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect()
}

/// The paths of all values; `[]` stands for the items of a list.
fn paths(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                paths(&path, value, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                paths(&format!("{path}[]"), item, found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// Each written path is documented: itself, an object above it, or by a `*`. A `null` stands for the fields below it.
pub fn undocumented(json: &str, page: &str) -> Vec<String> {
    let documented = documented(page);
    let mut found = BTreeSet::new();
    paths("", &serde_json::from_str(json).expect("JSON"), &mut found);
    let is_documented = |path: &String| {
        documented.iter().any(|known| {
            let known = known.trim_end_matches('*');
            path.starts_with(known)
                || known.starts_with(&format!("{path}."))
                || known.starts_with(&format!("{path}[]"))
        })
    };
    found
        .into_iter()
        .filter(|path| !is_documented(path))
        .collect()
}

#[test]
fn each_json_field_of_load_is_on_its_page() {
    let (_, json, err) = run(&["load", "-q", "200", "-n", "20", "--quiet", "--json", "-"]);
    assert_eq!(
        undocumented(&json, &page("load.md")),
        Vec::<String>::new(),
        "{err}"
    );
    for gone in ["counts.statuses.success", "timeline.slots[].lag_p99_ns"] {
        let without = page("load.md").replace(&format!("| `{gone}`"), "|");
        assert_eq!(
            undocumented(&json, &without),
            [gone],
            "the test would notice"
        );
    }
}

/// The other way round: a page has no field that the command does not write.
#[test]
fn each_documented_field_of_load_is_in_the_pinned_schema() {
    let schema = include_str!("schema-1.txt");
    for field in documented(&page("load.md")) {
        let field = field.trim_end_matches('*');
        assert!(
            schema.contains(&format!(".{field}")),
            "{field} is not written"
        );
    }
}

#[test]
fn each_json_field_of_verify_is_on_its_page() {
    let serve = Serve::start("token 100/s burst 5", &[]);
    let arguments = [
        "--quiet",
        "--json",
        "-",
        "--max-time",
        "3s",
        "--expect",
        "100/s burst 5",
    ];
    let relaxed = [
        "verify",
        &serve.url,
        "--quiet",
        "--json",
        "-",
        "--max-time",
        "3s",
    ];
    let (_, json, err) = run(&[&["verify", &serve.url], &arguments[..]].concat());
    let json = if json.is_empty() {
        run(&relaxed).1
    } else {
        json
    };
    assert_eq!(
        undocumented(&json, &page("verify.md")),
        Vec::<String>::new(),
        "{err}"
    );
}
