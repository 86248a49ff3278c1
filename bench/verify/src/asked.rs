//! `flowgate verify`, and what it found.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::client::{Program, Programs};
use crate::running::Running;

/// Beyond what it may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one run found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// A word, and what sort of it: `fixed-window clock`, `blocks-after-limit last-refusal`.
    pub kind: String,
    /// Others that explain the answers as well.
    pub or: Vec<String>,
    /// Per second; of two limits the first one's; of a block its length in seconds.
    pub rate: Option<f64>,
    /// How far off it may be, as reported.
    pub rate_plus_minus: Option<f64>,
    pub burst: Option<f64>,
    /// Reported defects: each a map with one entry, its name.
    pub faults: Vec<Value>,
    pub requests: u64,
    pub seconds: f64,
    /// The seconds that the report asks for, if nothing was detected.
    pub asks_for: Option<f64>,
    /// A word, if a limit was expected: `consistent`, `differs`, `undecided`.
    pub verdict: Option<String>,
}

impl Outcome {
    /// Runs `flowgate verify` once, for at most `time` (its default is 60 s), with this expectation.
    ///
    /// # Errors
    ///
    /// Returns a message if flowgate fails or its report cannot be read.
    pub fn of(
        programs: &Programs,
        url: &str,
        time: Duration,
        expected: Option<&str>,
    ) -> Result<Outcome, String> {
        let path = programs.path(Program::Flowgate);
        let path = path.ok_or("flowgate is missing")?;
        let most = humantime::format_duration(time).to_string();
        let mut arguments = vec!["verify", url, "--quiet", "--json", "-", "--max-time", &most];
        arguments.extend(expected.iter().flat_map(|limit| ["--expect", *limit]));
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let mut process = Running::start(path, &arguments)?;
        let status = process.wait(time + PATIENCE)?;
        let printed = process.printed();
        // With an expectation, the status is the verdict.
        if !status.success() && expected.is_none() {
            return Err(format!("flowgate verify: {status}: {printed}"));
        }
        // The reason of a status may follow.
        let mut values = serde_json::Deserializer::from_str(&printed).into_iter();
        let found = values.next().unwrap_or(Ok(Value::Null));
        let found = found.map_err(|error| error.to_string());
        found
            .and_then(|found| Outcome::read(&found).ok_or("a field is missing".to_owned()))
            .map_err(|error| format!("flowgate verify's report: {error}; {status}"))
    }

    /// Whether anything but this is said to be wrong. What a race admits is over an expected limit, too.
    pub fn reports_beyond(&self, fault: Option<&str>) -> bool {
        let has = |found: &Value, fault: &str| !found[fault].is_null();
        let is_known = |found: &Value| {
            let by_race = fault == Some("race") && has(found, "over-admission");
            by_race || fault.is_some_and(|fault| has(found, fault))
        };
        !self.faults.iter().all(is_known)
    }

    fn read(found: &Value) -> Option<Outcome> {
        let detected = &found["detected"];
        let block = &detected["block"];
        let sort = block["counted_from"].as_str();
        let word = kind(&detected["kind"])?;
        // Of two limits, the first one's.
        let places = [detected, &detected["limits"][0]];
        let number = |name: &str, part: &str| {
            let of_block = block["length"][part].as_f64();
            let found = places.iter().find_map(|place| place[name][part].as_f64());
            found.or(of_block.filter(|_| name == "rate"))
        };
        Some(Outcome {
            kind: sort.map_or(word.clone(), |sort| format!("{word} {sort}")),
            or: detected["alternatives"]
                .as_array()?
                .iter()
                .map(kind)
                .collect::<Option<_>>()?,
            rate: number("rate", "value"),
            rate_plus_minus: number("rate", "plus_minus"),
            burst: number("burst", "value"),
            faults: found["defects"].as_array()?.clone(),
            requests: found["requests"].as_u64()?,
            seconds: found["seconds"].as_f64()?,
            asks_for: found["unresolved"].as_str().and_then(seconds_asked_for),
            verdict: kind(&found["expected"]["verdict"]),
        })
    }
}

/// Reads `allow more time than 99 s` and `allow 600 s`.
fn seconds_asked_for(text: &str) -> Option<f64> {
    let (_, rest) = text.rsplit_once("allow ")?;
    let rest = rest.strip_prefix("more time than ").unwrap_or(rest);
    let (number, _) = rest.split_once(" s")?;
    number.parse().ok()
}

fn kind(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()),
        Value::Object(map) => {
            let (word, more) = map.iter().next()?;
            let more = more
                .as_str()
                .map_or_else(|| more.to_string(), str::to_owned);
            Some(format!("{word} {more}"))
        }
        _ => None,
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { kind, or, .. } = self;
        write!(f, "{kind}")?;
        for other in or {
            write!(f, " or {other}")?;
        }
        if let (Some(rate), Some(burst)) = (self.rate, self.burst) {
            let unit = if kind.starts_with("blocks") {
                " s"
            } else {
                "/s"
            };
            write!(f, ", {rate:.2}{unit}, {burst} at once")?;
        }
        write!(f, ", {} requests in {:.1} s", self.requests, self.seconds)?;
        for fault in &self.faults {
            write!(f, ", fault {fault}")?;
        }
        if let Some(verdict) = &self.verdict {
            write!(f, ", {verdict}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_read() {
        let found = json!({
            "detected": {
                "kind": { "fixed-window": "clock" },
                "alternatives": ["sliding-log"],
                "rate": { "value": 99.5, "plus_minus": 0.5 },
                "burst": null,
            },
            "defects": [],
            "requests": 900,
            "seconds": 12.5,
        });
        let outcome = Outcome::read(&found).expect("nothing is missing");
        assert_eq!(outcome.kind, "fixed-window clock");
        assert_eq!((outcome.rate, outcome.burst), (Some(99.5), None));
        assert_eq!(outcome.rate_plus_minus, Some(0.5));
        assert_eq!(
            outcome.to_string(),
            "fixed-window clock or sliding-log, 900 requests in 12.5 s"
        );
    }

    #[test]
    fn the_time_that_a_report_asks_for_is_read() {
        for (text, expected) in [
            (
                "then none for 3 s: a ban; allow more time than 99 s",
                Some(99.0),
            ),
            ("to test that, allow 600 s and 20000 requests", Some(600.0)),
            ("10 were admitted, none refused; allow more requests", None),
            ("Retry-After names 3 s", None),
        ] {
            assert_eq!(seconds_asked_for(text), expected, "{text}");
        }
    }

    #[test]
    fn a_block_has_its_length_and_what_it_is_counted_from() {
        let found = json!({
            "detected": {
                "kind": "blocks-after-limit",
                "alternatives": [],
                "rate": null,
                "burst": { "value": 10.0, "plus_minus": 0.0 },
                "block": {
                    "length": { "value": 1.01, "plus_minus": 0.01 },
                    "counted_from": "last-refusal",
                    "admitted_rate": null,
                },
            },
            "defects": [],
            "requests": 100,
            "seconds": 20.5,
        });
        let outcome = Outcome::read(&found).expect("nothing is missing");
        assert_eq!(outcome.kind, "blocks-after-limit last-refusal");
        assert_eq!((outcome.rate, outcome.burst), (Some(1.01), Some(10.0)));
    }
}
