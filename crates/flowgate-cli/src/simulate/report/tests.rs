//! What the outputs of a comparison promise, with runs that are the same each time.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use flowgate_sim::{RunOutcome, Scenario, ScenarioError, Search, Wish, suggest};
use roxmltree::{Document, ParsingOptions};

use super::{Comparison, Description, Report, SuggestionReport, TextStyle};

const PLAIN: TextStyle = TextStyle {
    width: 80,
    is_ascii: false,
    has_color: false,
};

const SCENARIO: &str = r#"duration = "10s"
seed = 1

[[limit]]
limiter = "token 100/s burst 20"

[[limit]]
limiter = "token 100/s burst 20 wait 200ms"

[[limit]]
limiter = "aligned 100/s"

[[traffic]]
arrivals = "poisson 150/s"
keys = "zipf 100 1.1"
deadline = "500ms"

[server]
workers = 4
service = "exponential 20ms"
"#;

fn description() -> Description {
    Description {
        title: "poisson 150/s".to_owned(),
        scenario: SCENARIO.to_owned(),
        seed: 1,
    }
}

/// What the first `limits` limits of a scenario do.
fn compare(scenario: &str, limits: usize) -> Comparison {
    let scenario = Scenario::from_toml(scenario).expect("a scenario");
    let prepared = scenario
        .prepare(&mut |_| ControlFlow::Continue(()))
        .expect("no logs");
    let limits = scenario.limits.iter().take(limits);
    let outcomes = limits.map(|limit| prepared.run(limit).expect("a limit"));
    let outcomes: Vec<RunOutcome> = outcomes.collect();
    Comparison::new(&description(), &outcomes, |key| {
        prepared.key_name(key).into_owned()
    })
}

fn compared() -> Comparison {
    compare(SCENARIO, 3)
}

fn alone() -> Comparison {
    compare(SCENARIO, 1)
}

/// No requests arrive, but those of users who think for longer than the run.
fn nothing() -> Comparison {
    let silent = SCENARIO.replace("poisson 150/s", "users 1 think 1h");
    compare(&silent, 3)
}

fn none() -> Comparison {
    Comparison::new(&description(), &[], |key| key.to_string())
}

/// The rate that keeps the wish with the traffic of [`SCENARIO`].
fn suggested(wish: &str) -> SuggestionReport {
    let prepared = Scenario::from_toml(SCENARIO)
        .expect("a scenario")
        .prepare(&mut |_| ControlFlow::Continue(()))
        .expect("no logs");
    let wish: Wish = wish.parse().expect("a wish");
    let mut duration = Duration::ZERO;
    let found = suggest(&wish, &Search::smallest(1..=1_000), |rate| {
        let limit = format!("token {rate}/s burst 20");
        let outcome = prepared.run(&limit.parse()?)?;
        duration = outcome.duration;
        Ok::<_, ScenarioError>(outcome)
    });
    let limiter = "token N/s burst 20".to_owned();
    let found = found.expect("limits");
    SuggestionReport::new(description(), duration, limiter, wish, &found)
}

/// Parses a page strictly; its first line is no XML.
fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("well-formed")
}

#[test]
fn the_text_is_that_of_the_manual() {
    let page = include_str!("../../../tests/it/pages/simulate.md");
    let (_, example) = page
        .split_once("## The report\n\n```text\n")
        .expect("a report");
    let (example, _) = example.split_once("```").expect("the end of the report");
    assert_eq!(compared().to_text(PLAIN), example);
}

#[test]
fn no_line_of_the_text_is_wider_than_the_terminal() {
    for width in [60, 80, 200] {
        let text = compared().to_text(TextStyle { width, ..PLAIN });
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width}: {text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }
}

#[test]
fn text_without_colors_and_in_ascii_has_no_other_characters() {
    let plain = compared().to_text(PLAIN);
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let ascii = compared().to_text(TextStyle {
        is_ascii: true,
        ..PLAIN
    });
    assert!(ascii.is_ascii(), "{ascii}");
    let colored = compared().to_text(TextStyle {
        has_color: true,
        ..PLAIN
    });
    assert_eq!(console::strip_ansi_codes(&colored), plain);
    assert_ne!(colored, plain);
}

#[test]
fn runs_without_requests_have_no_shares_and_no_picture() {
    let text = nothing().to_text(PLAIN);
    assert!(text.ends_with("\nno requests\n"), "{text}");
    assert!(!text.contains("NaN") && !text.contains('%'), "{text}");
    assert!(!nothing().to_html().contains("NaN"));
    assert!(nothing().to_json().contains("\"refused_share\": null"));
    assert!(none().to_text(PLAIN).ends_with("\nno requests\n"));
    parsed(&none().to_html());
}

#[test]
fn one_policy_has_one_column_and_one_picture() {
    let text = alone().to_text(PLAIN);
    assert!(!text.contains("aligned"), "{text}");
    assert_eq!(text.matches('└').count(), 1, "{text}");
    assert_eq!(
        alone()
            .picture()
            .to_string()
            .matches("class=\"area")
            .count(),
        3
    );
}

#[test]
fn json_is_read_back_as_it_was() {
    for comparison in [compared(), alone(), nothing()] {
        let json = comparison.to_json();
        let header: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(header["schema"], 1);
        let again: Comparison = serde_json::from_str(&json).unwrap();
        assert_eq!(again, comparison);
    }
}

#[test]
fn csv_has_a_row_per_slot_and_policy() {
    let comparison = compared();
    let csv = comparison.to_csv();
    let mut lines = csv.split("\r\n");
    assert_eq!(
        lines.next(),
        Some("policy,start_s,attempts,admitted,refused,in_time,longest_ms")
    );
    let first = "token 100/s burst 20,0,13,13,0,6,25.709465";
    assert_eq!(lines.next(), Some(first));
    let second = lines.next().unwrap_or_default();
    assert!(second.starts_with("token 100/s burst 20,0.05,"), "{second}");
    let slots = comparison.policies.iter().map(|run| run.slots.len());
    assert_eq!(csv.lines().count(), 1 + slots.sum::<usize>());
}

#[test]
fn each_field_of_the_json_and_each_column_of_the_csv_is_in_the_manual() {
    fn paths(value: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let path = [path, name].join(if path.is_empty() { "" } else { "." });
                    paths(value, &path, found);
                }
            }
            serde_json::Value::Array(items) => {
                let path = format!("{path}[]");
                items.iter().for_each(|item| paths(item, &path, found));
            }
            _ => {
                found.insert(path.to_owned());
            }
        }
    }
    let page = include_str!("../../../tests/it/pages/simulate.md");
    let mut found = BTreeSet::new();
    let reports: [&dyn Report; 2] = [&compared(), &suggested("refused <= 1%")];
    for report in reports {
        let json = serde_json::from_str(&report.to_json()).unwrap();
        paths(&json, "", &mut found);
    }
    let parts = ["counts", "wait", "latency"];
    for path in found {
        // Objects of the same form have a table of their own.
        let part = path.rsplit_once('.').and_then(|(parent, field)| {
            let kind = parts
                .iter()
                .find(|part| parent.ends_with(*part) || parent.ends_with("curve[]"));
            kind.map(|_| field.to_owned())
        });
        let name = part.unwrap_or(path);
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    for report in reports {
        for column in report.to_csv().lines().next().unwrap().split(',') {
            assert!(page.contains(&format!("| `{column}` |")), "{column}");
        }
    }
}

#[test]
fn a_page_is_well_formed_follows_light_and_dark_and_loads_nothing() {
    for comparison in [compared(), alone(), nothing()] {
        let page = comparison.to_html();
        let document = parsed(&page);
        assert!(page.contains("color-scheme: light dark"));
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(!page.contains("<script") && !page.contains("url(") && !page.contains("src="));
        let mut ids = BTreeSet::new();
        for id in document
            .descendants()
            .filter_map(|node| node.attribute("id"))
        {
            assert!(ids.insert(id), "{id}");
        }
        assert!(page.contains(&comparison.policies[0].policy));
        assert!(page.contains("arrivals = &quot;poisson 150/s&quot;"));
    }
}

#[test]
fn text_from_outside_stays_text() {
    let odd = "<b>\u{1b}[31m\"&, x";
    let mut comparison = compared();
    comparison.title = odd.to_owned();
    comparison.scenario = odd.to_owned();
    comparison.policies[0].policy = odd.to_owned();
    comparison.policies[0].keys.most_refused[0].key = odd.to_owned();
    for page in [comparison.to_html(), comparison.picture().to_string()] {
        parsed(&page);
        assert!(!page.contains("<b>") && !page.contains('\u{1b}'));
        assert!(page.contains("&lt;b&gt;\u{fffd}[31m&quot;&amp;, x"));
    }
    assert!(!comparison.to_text(PLAIN).contains('\u{1b}'));
    assert!(
        comparison
            .to_csv()
            .contains("\r\n\"<b>\u{1b}[31m\"\"&, x\",0,13,")
    );
}

#[test]
fn the_picture_is_a_png_too() {
    let png = alone().picture().to_png(1.0).expect("a small picture");
    assert!(png.starts_with(b"\x89PNG"));
}

#[test]
fn the_worst_window_stands_beside_the_guarantee() {
    let comparison = alone();
    let window = comparison.policies[0].windows[0];
    assert_eq!(window.guarantee, Some(120));
    assert!((100..=120).contains(&window.tokens), "{window:?}");
    let text = comparison.to_text(PLAIN);
    let number = |name: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(name));
        line.and_then(|line| line.split_whitespace().last())
    };
    assert_eq!(
        number("most in any 1 s"),
        Some(window.tokens.to_string().as_str())
    );
    assert_eq!(number("guarantee"), Some("120"));
}

#[test]
fn several_sources_have_rows_of_their_own() {
    let batch = "\n[[traffic]]\nname = \"batch\"\narrivals = \"bursts 50 every 1s\"\n";
    let text = compare(
        &SCENARIO.replace("\n[server]", &format!("{batch}\n[server]")),
        3,
    )
    .to_text(PLAIN);
    assert!(text.contains("\nbatch: attempts "), "{text}");
    assert!(text.contains("\ntraffic: latency p99 "), "{text}");
    assert!(!compared().to_text(PLAIN).contains("traffic: "));
}

#[test]
fn a_suggestion_is_in_each_format_with_all_numbers_that_were_tried() {
    for (wish, is_found) in [
        ("refused <= 1%", true),
        ("goodput >= 100/s", true),
        ("in-time >= 99%", true),
        ("p99 <= 1us", false),
    ] {
        let report = suggested(wish);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let tried = json["tried"].as_array().unwrap();
        let text = report.to_text(PLAIN);
        let (_, list) = text.split_once("\n        N ").expect("a list");
        assert_eq!(list.lines().count(), 1 + tried.len(), "{text}");
        assert_eq!(report.to_csv().lines().count(), 1 + tried.len());
        let page = report.to_html();
        let rows = parsed(&page)
            .descendants()
            .filter(|node| node.attribute("scope") == Some("row"))
            .count();
        assert_eq!(rows, tried.len());
        assert!(!page.contains("NaN"), "{page}");
        assert!(report.picture().to_string().contains("class=\"dot"));
        match json["n"].as_u64() {
            Some(n) => assert!(text.contains(&format!("N = {n}, the smallest")), "{text}"),
            None => assert!(text.contains("no N from 1 to 1000 keeps it"), "{text}"),
        }
        assert_eq!(json["n"].is_u64(), is_found, "{wish}");
    }
}
