//! What a configuration may say, and what is said of a wrong one.

use flowgate_server::Config;

fn problem(text: &str) -> String {
    Config::parse("a.yaml", text).unwrap_err().to_string()
}

/// A descriptor with `lines` in it.
fn with(lines: &str) -> String {
    let lines: Vec<_> = lines
        .split(';')
        .map(|line| format!("    {}\n", line.trim()))
        .collect();
    format!(
        "domain: api\ndescriptors:\n  - key: user\n{}",
        lines.concat()
    )
}

#[test]
fn a_wrong_file_is_named_with_its_place_and_what_to_write() {
    for (text, expected) in [
        (
            "",
            "a.yaml:1:1: empty; write `domain: NAME` and `descriptors:`",
        ),
        (
            "- a",
            "a.yaml:1:1: a document is a map: write `domain: NAME` and `descriptors:`",
        ),
        (
            "descriptors: []",
            "a.yaml:1:1: no domain: write `domain: NAME`",
        ),
        ("domain: ''", "a.yaml:1:9: `domain` is empty"),
        (
            "domain: a\ndescriptor: []",
            "a.yaml:2:1: unknown key `descriptor`; did you mean `descriptors`?",
        ),
        (
            "domain: a\nfoo: 1",
            "a.yaml:2:1: unknown key `foo`; write one of domain, descriptors",
        ),
        (
            "domain: a\ndomain: b",
            "a.yaml:2:1: `domain` is already there; remove one of them",
        ),
        (
            "domain: a\ndescriptors: x",
            "a.yaml:2:14: `descriptors` is a list: begin each descriptor with `- key: NAME`",
        ),
        (
            "domain: a\ndescriptors: [{value: x}]",
            "a.yaml:2:15: no key: write `key: NAME`",
        ),
        (
            "domain: a\ndescriptors: [{key: x}, {key: x}]",
            "a.yaml:2:25: a descriptor with key `x` and no value is already there; remove one of them",
        ),
        (
            "domain: a\ndescriptors: [{key: x, value: 1}, {key: x, value: '1'}]",
            "a.yaml:2:35: a descriptor with key `x` and value `1` is already there; remove one of them",
        ),
        (
            "domain: a\n---\ndomain: a",
            "a.yaml:3:1: the domain `a` is already in a.yaml:1; write its descriptors there",
        ),
        (
            "domain: a\ndescriptors:\n  - key: user\n\tquota: 1/s",
            "a.yaml:3:10: while scanning a plain scalar, found a tab; indent with spaces",
        ),
        (
            "domain: &a [*a]",
            "a.yaml:1:13: an alias of a value that contains it",
        ),
        (
            "? [a]\n: b",
            "a.yaml:1:3: a key is a word, and not a list or a map",
        ),
        (
            "a: &x {b: c}\n<<: *x",
            "a.yaml:2:1: the merge key `<<` is not supported; write the keys out",
        ),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn a_wrong_limit_is_named_with_its_place_and_what_to_write() {
    for (lines, expected) in [
        (
            "rate_limits: {}",
            "4:5: unknown key `rate_limits`; did you mean `rate_limit`?",
        ),
        (
            "rate_limit: 5",
            "4:17: `rate_limit` is a map: write `unit:` and `requests_per_unit:`",
        ),
        (
            "rate_limit: {unit: second}",
            "4:17: no number: write `requests_per_unit: 100`",
        ),
        (
            "rate_limit: {requests_per_unit: 1}",
            "4:17: no unit: write `unit: second`, minute, hour, day, week, month or year",
        ),
        (
            "rate_limit: {unit: decade, requests_per_unit: 1}",
            "4:24: no unit `decade`: write second, minute, hour, day, week, month or year",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: -1}",
            "4:48: `requests_per_unit` is a whole number from 0 to 4294967295, and not `-1`",
        ),
        (
            "rate_limit: {unlimited: true, unit: day}",
            "4:35: `unlimited` has no `unit`; remove one of them",
        ),
        (
            "rate_limit: {unlimited: yes}",
            "4:29: `unlimited` is true or false",
        ),
        (
            "rate_limit: {unlimited: true, name: a, replaces: [{name: a}]}",
            "4:44: the limit `a` cannot replace itself",
        ),
        (
            "rate_limit: {unlimited: true, replaces: [a]}",
            "4:46: `replaces` is a list: write `- name: NAME`",
        ),
        (
            "rate_limit: {unlimited: true}; algorithm: token",
            "5:5: `algorithm` belongs to `quota`, and `rate_limit` is a window; remove it",
        ),
        (
            "rate_limit: {unlimited: true}; name: a",
            "5:5: move `name` into `rate_limit`",
        ),
        (
            "rate_limit: {unlimited: true}; quota: 1/s",
            "5:12: a descriptor has `quota` or `rate_limit`; remove one of them",
        ),
        (
            "rlqs: true",
            "4:5: `rlqs` without a limit: write `quota: 100/min`, or remove it",
        ),
        ("quota: 5/s; rlqs: yes", "5:11: `rlqs` is true or false"),
        (
            "rate_limit: {unit: second, requests_per_unit: 1}; rlqs: true",
            "5:5: `rlqs` needs one token bucket: write `quota: 100/s burst 20`, or remove it",
        ),
        (
            "quota: 5/s; algorithm: leaky; rlqs: true",
            "6:5: `rlqs` needs one token bucket: write `quota: 100/s burst 20`, or remove it",
        ),
        (
            "quota: 23/day; rlqs: true",
            "5:5: `rlqs` needs a quota of 1/h or more: write another one, or remove it",
        ),
        (
            "quota: 5/s; rlqs: true; shadow_mode: true",
            "6:5: `shadow_mode` has no effect on a limit with `rlqs`; remove one of them",
        ),
        (
            "quota: 100/min; algorithm: tokn",
            "5:16: no algorithm `tokn`: write token, leaky, fixed, aligned or segmented",
        ),
        (
            "quota: 1/s burst 2; algorithm: fixed",
            "4:12: a window has no burst: remove it, or write `algorithm: token`",
        ),
        ("quota: 1/s; 3/min", "5:5: "),
        (
            "quota: 1/s; capacity: 0",
            "5:15: `capacity` is a whole number from 1 to 1073741824, and not `0`",
        ),
        (
            "capacity: 5",
            "4:5: `capacity` without a limit: write `quota: 100/min`, or remove it",
        ),
        (
            "quota_mode: true",
            "4:5: `quota_mode` is not supported; remove it, or write `shadow_mode: true`",
        ),
        (
            "share_threshold: true",
            "4:5: `share_threshold` needs a value with `*`, whose matches share the limit",
        ),
        (
            "quota: 1/s; mode: loose",
            "5:11: `mode` is strict or leased",
        ),
        (
            "quota: 1/s; mode: strict; overshoot: 5%",
            "6:5: `overshoot` is for a leased limit: write `mode: leased`, or remove it",
        ),
        (
            "quota: 1/s; mode: leased",
            "5:5: a leased limit may be exceeded: write by how much, such as `overshoot: 5%`",
        ),
        (
            "quota: 1/s; algorithm: fixed; mode: leased; overshoot: 5%",
            "6:5: `mode: leased` needs one token bucket: write `quota: 5000/s burst 5000`, or remove it",
        ),
        (
            "quota: 1/s; mode: leased; overshoot: 0%",
            "6:16: `overshoot` is a part of the burst from 1% to 100%, or a number of tokens",
        ),
        (
            "quota: 1/s; mode: leased; overshoot: 101%",
            "6:16: `overshoot` is a part of the burst from 1% to 100%, or a number of tokens",
        ),
        (
            "quota: 1/s; mode: leased; overshoot: 0",
            "6:16: `overshoot` is a part of the burst from 1% to 100%, or a number of tokens",
        ),
        (
            "mode: leased",
            "4:5: `mode` without a limit: write `quota: 100/min`, or remove it",
        ),
        (
            "quota: 1/s; when_cut_off: 9/8",
            "5:19: `when_cut_off` is deny, admit, or a share of the limit, such as 1/8",
        ),
    ] {
        let problem = problem(&with(lines));
        let place_and_what = problem.strip_prefix("a.yaml:").unwrap();
        assert!(
            place_and_what.starts_with(expected),
            "{lines}\n{problem}\n{expected}"
        );
    }
    assert!(problem(&with("quota: 100/mn")).starts_with("a.yaml:4:12: "));
    assert_eq!(
        problem("domain: a\ndescriptors: [{key: user, quota: 1/s; 9/min; 99/h}]"),
        "a.yaml:2:34: a descriptor has one quota or two: remove the others, or give them descriptors of their own"
    );
}

#[test]
fn a_file_in_another_encoding_is_named_with_the_place() {
    let path = std::env::temp_dir().join(format!("flowgate-latin1-{}.yaml", std::process::id()));
    std::fs::write(&path, b"domain: a\n# caf\xe9\n").unwrap();
    let problem = Config::read([&path]).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let place = (problem.line(), problem.column());
    assert_eq!(place, (Some(2), Some(6)));
    assert!(problem.to_string().ends_with("save the file as UTF-8"));
}

#[test]
fn a_key_without_an_effect_here_is_reported() {
    let config = Config::parse("a.yaml", &with("quota: 1/s; detailed_metric: true")).unwrap();
    let notes: Vec<_> = config.notes().iter().map(ToString::to_string).collect();
    let expected =
        "a.yaml:5:5: `detailed_metric` has no effect: metrics have no values of requests";
    assert_eq!(notes, [expected]);
}

#[test]
fn deep_files_and_bombs_of_aliases_are_refused() {
    let deep = format!(
        "domain: a\ndescriptors: {}{}",
        "[".repeat(1000),
        "]".repeat(1000)
    );
    assert!(Config::parse("a.yaml", &deep).is_err());
    let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        bomb += &format!("b{level}: &a{level} [{before}]\n");
    }
    let problem = problem(&bomb);
    assert!(
        problem.ends_with("aliases add more than 10000 values"),
        "{problem}"
    );
}

#[test]
fn anchors_and_several_documents_are_read() {
    let text = "
domain: one
descriptors:
  - key: a
    rate_limit: &hourly { unit: HOUR, requests_per_unit: 3 }
  - key: b
    rate_limit: *hourly
---
domain: two
descriptors: ~
";
    let config = Config::parse("a.yaml", text).unwrap();
    assert_eq!(config.len(), 2);
}

mod random {
    use flowgate_server::Config;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(words in prop::collection::vec(
            prop::sample::select(vec![
                "domain", "descriptors", "key", "value", "rate_limit", "unit", ":", " ", "\n", "  ", "- ",
                "{", "}", "[", "]", ",", "&a", "*a", "'", "\"", "|", ">", "?", "#", "!!str", "---", "\t", "é", "%",
            ]), 0..60)) {
            let _ = Config::parse("a.yaml", &words.concat());
        }
    }
}
