//! The JSON of a report: what schema 1 has, letter by letter, and that it is read back.

use crate::sample;
use std::collections::BTreeSet;

use flowgate_load::{Failure, Report};
use serde_json::Value;

/// The pinned report, as this version writes it.
fn pinned() -> String {
    let pinned = include_str!("pinned/report.json");
    let version = format!("\"flowgate\": {:?}", env!("CARGO_PKG_VERSION"));
    pinned.replace("\"flowgate\": \"VERSION\"", &version)
}

/// Every field by its path, and what kind of thing it is.
fn fields(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "integer",
        Value::String(_) => "text",
        Value::Array(values) => {
            values
                .iter()
                .for_each(|value| fields(&format!("{path}[]"), value, found));
            return;
        }
        Value::Object(values) => {
            values
                .iter()
                .for_each(|(name, value)| fields(&format!("{path}.{name}"), value, found));
            return;
        }
    };
    found.insert(format!("{path} {kind}"));
}

#[test]
fn a_report_is_written_as_pinned() {
    assert_eq!(sample::full().to_json(), pinned());
}

/// Whoever changes this list changes the schema: a new field is added to it, anything else needs a new number.
#[test]
fn schema_1_has_every_field_and_no_other() {
    let written: Value = serde_json::from_str(&sample::full().to_json()).unwrap();
    let mut found = BTreeSet::new();
    fields("", &written, &mut found);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let pinned: Vec<&str> = include_str!("pinned/schema-1.txt").lines().collect();
    assert_eq!(found, pinned);
}

#[test]
fn what_was_written_is_read_back() {
    let mut odd = sample::full();
    odd.asked.per_second = Some(1.0 / 3.0);
    odd.asked.text = "\"quoted\" \\ \u{0} \u{1f600}\n".to_owned();
    odd.counts.body_bytes = u64::MAX;
    odd.lag.max = std::time::Duration::from_nanos(u64::MAX);
    for report in [
        sample::full(),
        sample::held(7),
        sample::empty(),
        sample::single(),
        odd,
    ] {
        assert_eq!(Report::from_json(&report.to_json()).unwrap(), report);
    }
    assert_eq!(Report::from_json(&pinned()).unwrap(), sample::full());
}

#[test]
fn a_report_without_what_windows_may_hold_is_read() {
    let mut value: Value = serde_json::from_str(&sample::full().to_json()).unwrap();
    let asked = value["asked"].as_object_mut().unwrap();
    assert!(asked.remove("window").is_some());
    let read = Report::from_json(&value.to_string()).unwrap();
    assert_eq!(read.asked.window, None);
    assert_eq!(read.asked.guarantee, sample::full().asked.guarantee);
}

/// As an older version of the same schema wrote it.
#[test]
fn a_report_without_what_was_added_later_is_read() {
    let mut value: Value = serde_json::from_str(&sample::full().to_json()).unwrap();
    let report = value.as_object_mut().unwrap();
    assert!(report.remove("percentiles").is_some() && report.remove("provenance").is_some());
    let asked = value["asked"].as_object_mut().unwrap();
    assert!(asked.remove("max_error_share").is_some());
    let spreads = ["lag", "response", "service"].map(|name| format!("/{name}"));
    for place in spreads.into_iter().chain(["/pacing/gap_error".to_owned()]) {
        let spread = value.pointer_mut(&place).unwrap().as_object_mut().unwrap();
        assert!(spread.remove("p95_ns").is_some(), "{place}");
    }
    let read = Report::from_json(&value.to_string()).unwrap();
    assert_eq!(read.asked.max_error_share, 0.01);
    assert_eq!(read.provenance, flowgate_load::Provenance::default());
    // An unknown quantile is not zero.
    let text = read.to_string();
    let row = text.lines().find(|line| line.starts_with("response"));
    let cells: Vec<_> = row.unwrap().split_whitespace().collect();
    assert_eq!(cells[5..8], ["-", "1.10", "ms"], "{text}");
}

#[test]
fn every_failure_is_read_back() {
    let report = sample::full();
    let read = Report::from_json(&report.to_json()).unwrap();
    let failures: Vec<Failure> = read.counts.failures.into_keys().collect();
    assert_eq!(failures.len(), 25);
    assert!(
        failures
            .iter()
            .all(|failure| report.counts.failures.contains_key(failure))
    );
}

#[test]
fn what_was_computed_and_what_is_unknown_is_ignored() {
    let mut value: Value = serde_json::from_str(&sample::full().to_json()).unwrap();
    value["verdict"]["word"] = "RATE HELD".into();
    value["achieved_per_second"] = Value::Null;
    value["later"] = "a field of a later version".into();
    value["counts"]["later"] = 7.into();
    assert_eq!(
        Report::from_json(&value.to_string()).unwrap(),
        sample::full()
    );
}

/// JSON has no such numbers.
#[test]
fn no_number_is_infinite_or_not_a_number() {
    let mut report = sample::held(3);
    for (per_second, sent) in [(0.0, 3_000), (f64::NAN, 3_000), (f64::INFINITY, 0)] {
        report.asked.per_second = Some(per_second);
        report.counts.sent = sent;
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(value["rate_error"], Value::Null, "{per_second}");
    }
}

#[test]
fn what_is_not_a_report_is_refused_in_one_line() {
    let newer = pinned().replacen("\"schema\": 1", "\"schema\": 2", 1);
    let short = pinned().replacen("\"span_ns\"", "\"span\"", 1);
    let wrong = pinned().replacen("\"sent\": 2970", "\"sent\": -1", 1);
    let failure = pinned().replacen("\"timed-out\"", "\"bored\"", 1);
    let infinite = pinned().replacen("1001.5", "1e999", 1);
    let table = [
        ("", "not JSON: EOF while parsing a value at line 1 column 0"),
        ("report", "not JSON: expected value at line 1 column 1"),
        (&pinned()[..2_000], "not JSON: EOF while parsing"),
        (&infinite, "not JSON: number out of range"),
        ("[]", "not a flowgate report: "),
        ("{}", "not a flowgate report: missing field `schema`"),
        (
            r#"{"schema": 1}"#,
            "not a flowgate report: missing field `target`",
        ),
        (&short, "not a flowgate report: missing field `span_ns`"),
        (
            &wrong,
            "not a flowgate report: invalid value: integer `-1`, expected u64",
        ),
        (
            &failure,
            "not a flowgate report: \"bored\" is not a kind of failure",
        ),
        (
            &newer,
            "a report of schema 2, but this version reads schema 1",
        ),
        (
            r#"{"schema": 99}"#,
            "a report of schema 99, but this version reads schema 1",
        ),
    ];
    for (json, text) in table {
        let error = Report::from_json(json).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
