//! What there is to draw in a benchmark's record.

use serde_json::Value;

/// Subjects that were measured in one situation.
#[derive(Debug, PartialEq)]
pub struct Panel {
    pub title: String,
    /// What the numbers are: "× governor", "µs".
    pub unit: String,
    pub bars: Vec<Bar>,
}

/// One subject: a number and how far it spread.
#[derive(Debug, PartialEq)]
pub struct Bar {
    pub subject: String,
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

impl Bar {
    /// Whether it is one of flowgate's.
    pub fn is_ours(&self) -> bool {
        const TYPES: [&str; 5] = [
            "flowgate",
            "TokenBucket",
            "LeakyBucket",
            "PayAfter",
            "WarmUp",
        ];
        let is = |name: &&str| self.subject.starts_with(*name);
        TYPES.iter().any(is) || self.subject.contains("Window") || self.subject.contains("Decaying")
    }
}

/// One list of rows in a record.
struct List {
    name: &'static str,
    /// Where in a row the numbers are: the low, the middle and the high one.
    numbers: [&'static str; 3],
    /// What in a row makes up its situation.
    situation: &'static [&'static str],
    /// Rows that have another value there are left out.
    only: &'static [(&'static str, &'static str)],
    /// None: divided by the record's baseline.
    unit: Option<&'static str>,
}

const RATIO: [&str; 3] = ["/ratio/p10", "/ratio/p50", "/ratio/p90"];
const ERROR: [&str; 3] = ["/error_us/p50", "/error_us/p50", "/error_us/p99"];

const LISTS: [List; 6] = [
    List {
        name: "rows",
        numbers: RATIO,
        situation: &["/traffic", "/threads"],
        only: &[],
        unit: None,
    },
    List {
        name: "speed",
        numbers: RATIO,
        situation: &["/situation/keys", "/keys", "/situation/order", "/alone"],
        only: &[("/situation/traffic", "drain"), ("/threads", "1")],
        unit: Some("× governor, admit, one thread"),
    },
    List {
        name: "tasks",
        numbers: [
            "/pace/error_us/p50",
            "/pace/error_us/p50",
            "/pace/error_us/p99",
        ],
        situation: &["/rate", "/flavour"],
        only: &[],
        unit: Some("µs: error of an interval, median and 99th percentile"),
    },
    List {
        name: "threads",
        numbers: ERROR,
        situation: &["/rate"],
        only: &[],
        unit: Some("µs: error of an interval, median and 99th percentile"),
    },
    List {
        name: "pace",
        numbers: ["/p50_ratio/p10", "/p50_ratio/p50", "/p50_ratio/p90"],
        situation: &["/rate"],
        only: &[],
        unit: Some("× flowgate: median error of an arrival"),
    },
    List {
        name: "throughput",
        numbers: ["/per_second/p10", "/per_second/p50", "/per_second/p90"],
        situation: &["/protocol"],
        only: &[],
        unit: Some("requests a second"),
    },
];

/// All that can be drawn, in the order in which it was written.
pub fn panels(record: &Value) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for list in &LISTS {
        let Some(rows) = record[list.name].as_array() else {
            continue;
        };
        let from = panels.len();
        for row in rows {
            let is_meant = |(field, value): &(&str, &str)| text(row, field) == *value;
            let (Some(bar), true) = (bar(row, list), list.only.iter().all(is_meant)) else {
                continue;
            };
            let title = situation(row, list);
            match panels[from..].iter_mut().find(|panel| panel.title == title) {
                Some(panel) => panel.bars.push(bar),
                None => panels.push(Panel {
                    title,
                    unit: unit(record, list),
                    bars: vec![bar],
                }),
            }
        }
    }
    panels
}

/// Which machine it was, and when.
pub fn machine(record: &Value) -> String {
    let field = |name| text(&record["machine"], name);
    let quick = match record["quick"].as_bool() {
        Some(true) => ", quick: not to be quoted",
        _ => "",
    };
    format!(
        "{}, {} cores, {}{quick}",
        field("/processor"),
        field("/cores"),
        field("/started")
    )
}

fn bar(row: &Value, list: &List) -> Option<Bar> {
    let [low, middle, high] = list
        .numbers
        .map(|place| row.pointer(place).and_then(Value::as_f64));
    Some(Bar {
        subject: row["subject"].as_str()?.to_owned(),
        low: low?,
        middle: middle?,
        high: high?,
    })
}

fn situation(row: &Value, list: &List) -> String {
    let part = |place: &&str| {
        let value = text(row, place).replace('_', " ");
        match *place {
            "/threads" if value == "1" => "1 thread".to_owned(),
            "/threads" => format!("{value} threads"),
            "/rate" => format!("{value}/s"),
            "/situation/keys" if value == "1" => "1 key".to_owned(),
            "/situation/keys" => format!("{value} keys"),
            "/alone" if value == "true" => "each alone".to_owned(),
            "/alone" => String::new(),
            _ => value,
        }
    };
    let parts: Vec<_> = list.situation.iter().map(part).collect();
    let told: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if told.is_empty() {
        return list.name.to_owned();
    }
    told.join(", ")
}

fn unit(record: &Value, list: &List) -> String {
    match (list.unit, record["baseline"].as_str()) {
        (Some(unit), _) => unit.to_owned(),
        (None, Some(baseline)) => format!("× {baseline}"),
        (None, None) => "×".to_owned(),
    }
}

/// A field as text, whatever it is; empty if it is not there.
fn text(value: &Value, place: &str) -> String {
    match value.pointer(place) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_situation_share_a_panel_and_clocks_have_none() {
        let ratio = |p50: f64| serde_json::json!({ "p10": 0.9 * p50, "p50": p50, "p90": 1.5 });
        let row = |subject: &str, threads: u64, ratio: Value| serde_json::json!({ "subject": subject, "traffic": "admit_full", "threads": threads, "ratio": ratio });
        let rows = [
            row("rdtsc", 1, Value::Null),
            row("governor", 1, ratio(1.0)),
            row("flowgate", 1, ratio(0.5)),
            row("flowgate", 2, ratio(0.25)),
        ];
        let record = serde_json::json!({ "baseline": "governor", "rows": rows });
        let panels = panels(&record);
        let titles: Vec<_> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["admit full, 1 thread", "admit full, 2 threads"]);
        assert_eq!(panels[0].unit, "× governor");
        let middles: Vec<_> = panels[0].bars.iter().map(|bar| bar.middle).collect();
        assert_eq!(middles, [1.0, 0.5]);
        assert!(panels[0].bars[1].is_ours() && !panels[0].bars[0].is_ours());
    }

    #[test]
    fn what_was_not_asked_for_is_left_out() {
        let row = |traffic: &str| serde_json::json!({ "subject": "flowgate", "keys": "u64", "alone": true, "threads": 1, "ratio": { "p10": 1, "p50": 2, "p90": 3 }, "situation": { "keys": 1000, "order": "zipf", "traffic": traffic } });
        let record = serde_json::json!({ "speed": [row("drain"), row("refuse")] });
        let panels = panels(&record);
        assert_eq!(panels.len(), 1);
        assert_eq!(panels[0].title, "1000 keys, u64, zipf, each alone");
        assert_eq!(panels[0].bars.len(), 1);
    }
}
