//! Conditions that make a run fail although its rate was held: `p99>50ms`, `err>0.1%`, `rate<990`.

use std::fmt;
use std::time::Duration;

use flowgate_chart::significant;
use flowgate_load::{Compared, Quantile, Report, Spread, compare};

use super::{percentile, rate};
use crate::figure;

/// A condition under which a run fails: `METRIC OP VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gate {
    text: String,
    metric: Metric,
    relation: Relation,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// In nanoseconds, per second, as a fraction, or a count.
    Value(f64),
    /// The value of an earlier run, plus this share of it.
    BaselineAndShare(f64),
    /// The value of an earlier run, plus this.
    BaselineAnd(f64),
}

/// Result of checking a condition against an earlier run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Checked {
    /// The condition is false, or not certain; the text has the measured change.
    Passed(String),
    /// The condition is certainly true, or nothing was measured.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Time(Which, Point),
    Rate,
    Share(Share),
    Sent,
}

/// A duration of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Response,
    Service,
    Lag,
}

/// A point of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Point {
    P50,
    P90,
    P95,
    P99,
    P999,
    P9999,
    Max,
    Mean,
    /// One of `--percentiles`, as a share.
    Own(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Errors,
    Limited,
    Skipped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const METRICS: &str = "p50, p90, p95, p99, p99.9, p99.99, max, mean (also service.p99, lag.p99), \
                       rate, err, limited, skipped, sent";

/// Parses a condition.
pub(crate) fn parse(text: &str) -> Result<Gate, String> {
    let text = text.trim();
    let shape = || "not a condition: write METRIC>VALUE, such as 'p99>50ms'".to_owned();
    let operator = text.find(['<', '>']).ok_or_else(shape)?;
    let (metric, rest) = text.split_at(operator);
    let (relation, value) = [
        (">=", Relation::AtLeast),
        ("<=", Relation::AtMost),
        (">", Relation::Above),
        ("<", Relation::Below),
    ]
    .into_iter()
    .find_map(|(sign, relation)| Some((relation, rest.strip_prefix(sign)?)))
    .ok_or_else(shape)?;
    let metric = metric.trim();
    let metric = read_metric(metric)
        .ok_or_else(|| format!("{metric:?} is not a metric: write one of {METRICS}"))?;
    if let Some(offset) = value.trim().strip_prefix("baseline") {
        let limit = read_baseline(metric, offset.trim())?;
        return Ok(Gate {
            text: text.to_owned(),
            metric,
            relation,
            limit,
        });
    }
    let limit = read_value(metric, value.trim())?;
    let most = match metric {
        Metric::Share(_) => 1.0,
        _ => f64::INFINITY,
    };
    let how_often = match relation {
        Relation::Above if limit >= most => Some("never"),
        Relation::Below if limit <= 0.0 => Some("never"),
        Relation::AtLeast if limit <= 0.0 => Some("always"),
        Relation::AtMost if limit >= most => Some("always"),
        _ => None,
    };
    if let Some(how_often) = how_often {
        return Err(match metric {
            Metric::Share(_) => {
                format!("is {how_often} true, because a share is from 0% to 100%: write 'err>1%'")
            }
            _ => format!("is {how_often} true, because no value is below 0: write 'p99>50ms'"),
        });
    }
    Ok(Gate {
        text: text.to_owned(),
        metric,
        relation,
        limit: Limit::Value(limit),
    })
}

fn read_metric(name: &str) -> Option<Metric> {
    let (which, point) = match name.split_once('.') {
        Some(("response", point)) => (Which::Response, point),
        Some(("service", point)) => (Which::Service, point),
        Some(("lag", point)) => (Which::Lag, point),
        _ => (Which::Response, name),
    };
    let point = match point {
        "p50" => Point::P50,
        "p90" => Point::P90,
        "p95" => Point::P95,
        "p99" => Point::P99,
        "p99.9" => Point::P999,
        "p99.99" => Point::P9999,
        "max" => Point::Max,
        "mean" => Point::Mean,
        own if own.strip_prefix('p').and_then(percentile::share).is_some() => {
            Point::Own(percentile::share(&own[1..])?)
        }
        _ => {
            return match name {
                "rate" => Some(Metric::Rate),
                "err" => Some(Metric::Share(Share::Errors)),
                "limited" => Some(Metric::Share(Share::Limited)),
                "skipped" => Some(Metric::Share(Share::Skipped)),
                "sent" => Some(Metric::Sent),
                _ => None,
            };
        }
    };
    Some(Metric::Time(which, point))
}

fn read_value(metric: Metric, text: &str) -> Result<f64, String> {
    match metric {
        Metric::Time(..) => read_time(text),
        Metric::Rate => rate::parse(text)
            .map(|rate| rate.count() as f64 / rate.period().as_secs_f64())
            .map_err(|error| format!("{text:?}: {error}")),
        Metric::Share(_) => share(text).map_err(|error| format!("{text:?} is {error}")),
        Metric::Sent => match text.parse::<u64>() {
            Ok(count) => Ok(count as f64),
            Err(_) => Err(format!("{text:?} is not a count: write 1000")),
        },
    }
}

/// Parses what is added to the value of an earlier run: nothing, `+10%`, `-1%`, `+5ms`.
fn read_baseline(metric: Metric, text: &str) -> Result<Limit, String> {
    let Some(compared) = metric.compared() else {
        return Err(format!(
            "{metric} cannot be compared with a baseline: write p50, p90, p99, mean, err, limited or rate"
        ));
    };
    let sign = match text.chars().next() {
        None => return Ok(Limit::BaselineAnd(0.0)),
        Some('+') => 1.0,
        Some('-') => -1.0,
        Some(_) => {
            return Err(format!("{text:?} after baseline: write 'p99>baseline+10%'"));
        }
    };
    let text = text[1..].trim();
    let is_share = matches!(compared, Compared::Errors | Compared::Limited);
    match text.strip_suffix('%') {
        // A share of a share would be misread.
        Some(_) if is_share => Ok(Limit::BaselineAnd(sign * read_value(metric, text)?)),
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=1e6).contains(&percent) => {
                Ok(Limit::BaselineAndShare(sign * percent / 100.0))
            }
            _ => Err(format!(
                "{text:?} is not a percentage: write 'p99>baseline+10%'"
            )),
        },
        None => Ok(Limit::BaselineAnd(sign * read_value(metric, text)?)),
    }
}

/// Parses a time with a unit, such as `50ms`, in nanoseconds.
pub(super) fn read_time(text: &str) -> Result<f64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("{text:?} is not a time: write 50ms, 250us or 1.5s");
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit_ns = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "" => {
            return Err(format!(
                "{text:?}: a unit is missing: write {text}ms for milliseconds"
            ));
        }
        _ => return Err(wrong()),
    };
    Ok(number * unit_ns)
}

/// Parses a share from 0 to 1, or from 0% to 100%.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    text.parse::<flowgate_sim::Share>()
        .map(flowgate_sim::Share::get)
        .map_err(|_| "not a share: write 0.1%, or 0.001".to_owned())
}

impl Gate {
    /// Returns a message if the condition is about a percentile that is not among these shares.
    pub(crate) fn lacks(&self, shares: &[f64]) -> Option<String> {
        match self.metric {
            Metric::Time(_, Point::Own(share))
                if !shares.contains(&share) && !self.needs_baseline() =>
            {
                Some(format!(
                    "--fail-if {}: write --percentiles {}, too",
                    self.text,
                    significant(share * 100.0, 9)
                ))
            }
            _ => None,
        }
    }

    /// Returns the condition as it was typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the condition compares with an earlier run.
    pub(crate) fn needs_baseline(&self) -> bool {
        !matches!(self.limit, Limit::Value(_))
    }

    /// Checks a condition against an earlier run. It is only true if the whole interval of the change is beyond the limit.
    pub(crate) fn against(&self, baseline: &Report, report: &Report) -> Checked {
        let compared = self.metric.compared();
        let difference = compared.and_then(|what| compare(baseline, report, what));
        let Some(difference) = difference else {
            return Checked::Failed(format!(
                "{}: {} cannot be compared, because a run is too short",
                self.text, self.metric
            ));
        };
        let (measured, limit, is_share) = match (self.limit, difference.relative) {
            (Limit::BaselineAndShare(share), Some(relative)) => (relative, share, true),
            // Any share of 0 is 0.
            (Limit::BaselineAndShare(_), None) => (difference.change, 0.0, false),
            (Limit::BaselineAnd(limit) | Limit::Value(limit), _) => {
                (difference.change, limit, false)
            }
        };
        let is_true = |value: f64| self.relation.holds(value, limit);
        let is_certain = match self.relation {
            Relation::Above | Relation::AtLeast => is_true(measured.low),
            Relation::Below | Relation::AtMost => is_true(measured.high),
        };
        let words = |value: f64| match is_share {
            true => figure::percent(value),
            false => difference.what.in_words(value),
        };
        let judgment = match (is_certain, is_true(measured.value)) {
            (true, _) => "",
            (false, true) => ", which is not certain",
            (false, false) => ", as allowed",
        };
        let text = format!(
            "{}: {} changed by {} (95 %: {} to {}){judgment}",
            self.text,
            self.metric,
            words(measured.value),
            words(measured.low),
            words(measured.high)
        );
        match is_certain {
            true => Checked::Failed(text),
            false => Checked::Passed(text),
        }
    }

    /// Returns the measured value if the condition is true, or if nothing was measured.
    pub(crate) fn failure(&self, report: &Report) -> Option<String> {
        let Some(value) = self.metric.of(report) else {
            return Some(format!("{}: {} was not measured", self.text, self.metric));
        };
        let Limit::Value(limit) = self.limit else {
            return None;
        };
        self.relation.holds(value, limit).then(|| {
            let value = match self.metric {
                Metric::Time(..) => figure::time(Duration::from_nanos(value as u64)),
                Metric::Rate => format!("{value:.3}/s"),
                Metric::Share(_) => figure::percent(value),
                Metric::Sent => value.to_string(),
            };
            format!("{}: {} was {value}", self.text, self.metric)
        })
    }
}

impl Relation {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Relation::Above => value > limit,
            Relation::AtLeast => value >= limit,
            Relation::Below => value < limit,
            Relation::AtMost => value <= limit,
        }
    }
}

impl Metric {
    /// Returns what to compare between two runs, if that is possible.
    fn compared(self) -> Option<Compared> {
        Some(match self {
            Metric::Time(Which::Response, point) => match point {
                Point::P50 => Compared::Quantile(0.5),
                Point::P90 => Compared::Quantile(0.9),
                Point::P95 => Compared::Quantile(0.95),
                Point::P99 => Compared::Quantile(0.99),
                Point::P999 => Compared::Quantile(0.999),
                Point::P9999 => Compared::Quantile(0.9999),
                Point::Own(share) => Compared::Quantile(share),
                Point::Mean => Compared::Mean,
                Point::Max => return None,
            },
            Metric::Rate => Compared::Rate,
            Metric::Share(Share::Errors) => Compared::Errors,
            Metric::Share(Share::Limited) => Compared::Limited,
            Metric::Time(..) | Metric::Share(Share::Skipped) | Metric::Sent => return None,
        })
    }

    fn of(self, report: &Report) -> Option<f64> {
        let counts = &report.counts;
        match self {
            Metric::Time(which, point) => {
                let (spread, own) = match which {
                    Which::Response => (&report.response, &report.percentiles.response),
                    Which::Service => (&report.service, &report.percentiles.service),
                    Which::Lag => (&report.lag, &report.percentiles.lag),
                };
                let value = point.of(spread, own).filter(|_| spread.samples > 0)?;
                Some(value.as_nanos() as f64)
            }
            Metric::Rate => report.achieved(),
            Metric::Share(share) => {
                let tried = counts.sent + counts.unsent;
                let (part, whole) = match share {
                    Share::Errors => (counts.errors(), tried),
                    Share::Limited => (counts.statuses.limited, tried),
                    Share::Skipped => (counts.skipped, tried + counts.skipped),
                };
                (whole > 0).then(|| part as f64 / whole as f64)
            }
            Metric::Sent => Some(counts.sent as f64),
        }
    }
}

impl Point {
    fn of(self, spread: &Spread, own: &[Quantile]) -> Option<Duration> {
        Some(match self {
            Point::P50 => spread.p50,
            Point::P90 => spread.p90,
            Point::P95 => spread.p95,
            Point::P99 => spread.p99,
            Point::P999 => spread.p999,
            Point::P9999 => spread.p9999,
            Point::Max => spread.max,
            Point::Mean => spread.mean,
            Point::Own(share) => own.iter().find(|own| own.share == share)?.value,
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (which, point) = match self {
            Metric::Time(which, point) => (which, point),
            Metric::Rate => return f.write_str("rate"),
            Metric::Share(Share::Errors) => return f.write_str("share of errors"),
            Metric::Share(Share::Limited) => return f.write_str("share of limited requests"),
            Metric::Share(Share::Skipped) => return f.write_str("share of skipped requests"),
            Metric::Sent => return f.write_str("number of requests sent"),
        };
        let point = match point {
            Point::P50 => "p50",
            Point::P90 => "p90",
            Point::P95 => "p95",
            Point::P99 => "p99",
            Point::P999 => "p99.9",
            Point::P9999 => "p99.99",
            Point::Max => "max",
            Point::Mean => "mean",
            Point::Own(share) => &format!("p{}", significant(share * 100.0, 9)),
        };
        let which = match which {
            Which::Response => "response",
            Which::Service => "service",
            Which::Lag => "lag",
        };
        write!(f, "{point} of {which}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units() {
        for (text, metric, relation, limit) in [
            (
                "p99>50ms",
                Metric::Time(Which::Response, Point::P99),
                Relation::Above,
                50e6,
            ),
            (
                " p99.9 >= 1.5 s",
                Metric::Time(Which::Response, Point::P999),
                Relation::AtLeast,
                1.5e9,
            ),
            (
                "response.p99.99>250us",
                Metric::Time(Which::Response, Point::P9999),
                Relation::Above,
                250e3,
            ),
            (
                "service.p99 < 250µs",
                Metric::Time(Which::Service, Point::P99),
                Relation::Below,
                250e3,
            ),
            (
                "lag.max<=1ns",
                Metric::Time(Which::Lag, Point::Max),
                Relation::AtMost,
                1.0,
            ),
            (
                "mean>1min",
                Metric::Time(Which::Response, Point::Mean),
                Relation::Above,
                60e9,
            ),
            (
                "p95>1ms",
                Metric::Time(Which::Response, Point::P95),
                Relation::Above,
                1e6,
            ),
            (
                "lag.p99.5>1ms",
                Metric::Time(Which::Lag, Point::Own(0.995)),
                Relation::Above,
                1e6,
            ),
            ("rate<990", Metric::Rate, Relation::Below, 990.0),
            ("rate<990/s", Metric::Rate, Relation::Below, 990.0),
            ("rate<1.5k", Metric::Rate, Relation::Below, 1500.0),
            ("rate<30/min", Metric::Rate, Relation::Below, 0.5),
            (
                "err>0.1%",
                Metric::Share(Share::Errors),
                Relation::Above,
                0.001,
            ),
            ("err>0", Metric::Share(Share::Errors), Relation::Above, 0.0),
            (
                "limited>= 0.25",
                Metric::Share(Share::Limited),
                Relation::AtLeast,
                0.25,
            ),
            (
                "skipped>=100 %",
                Metric::Share(Share::Skipped),
                Relation::AtLeast,
                1.0,
            ),
            ("sent<1000", Metric::Sent, Relation::Below, 1000.0),
        ] {
            let gate = parse(text).unwrap();
            assert_eq!((gate.metric, gate.relation), (metric, relation), "{text}");
            let Limit::Value(found) = gate.limit else {
                panic!("{text}");
            };
            assert!((found - limit).abs() < 1e-9, "{text}: {found}");
        }
    }

    #[test]
    fn a_baseline_has_an_offset_in_percent_or_in_units() {
        for (text, limit) in [
            ("p99>baseline", Limit::BaselineAnd(0.0)),
            ("p99 > baseline + 10%", Limit::BaselineAndShare(0.1)),
            ("rate<baseline-1%", Limit::BaselineAndShare(-0.01)),
            ("mean>=baseline+5ms", Limit::BaselineAnd(5e6)),
            // Percentage points.
            ("err>baseline+1%", Limit::BaselineAnd(0.01)),
        ] {
            let gate = parse(text).unwrap();
            assert!(gate.needs_baseline());
            assert_eq!(gate.limit, limit, "{text}");
        }
        for (text, expected) in [
            ("p99>baseline*2", "write 'p99>baseline+10%'"),
            ("p99>baseline+10", "a unit is missing"),
            ("p99>baseline+x%", "not a percentage"),
            (
                "max>baseline",
                "max of response cannot be compared with a baseline: write p50",
            ),
            ("service.p99>baseline", "p99 of service cannot be compared"),
            ("sent<baseline", "cannot be compared"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(!parse("p99>50ms").unwrap().needs_baseline());
    }

    #[test]
    fn a_percentile_must_be_in_the_report() {
        let gate = parse("p99.5>50ms").unwrap();
        let missing = gate.lacks(&[0.5, 0.99]);
        let expected = "--fail-if p99.5>50ms: write --percentiles 99.5, too";
        assert_eq!(missing.as_deref(), Some(expected));
        assert_eq!(gate.lacks(&percentile::parse("99.5").unwrap()), None);
        assert_eq!(parse("p95>50ms").unwrap().lacks(&[]), None);
    }

    #[test]
    fn what_is_no_condition_says_what_to_type() {
        for (text, expected) in [
            ("", "write METRIC>VALUE"),
            ("p99", "write METRIC>VALUE"),
            ("p99=50ms", "write METRIC>VALUE"),
            (
                "p100>50ms",
                "\"p100\" is not a metric: write one of p50, p90",
            ),
            ("p>50ms", "\"p\" is not a metric"),
            (">5", "\"\" is not a metric"),
            ("lag>5ms", "\"lag\" is not a metric"),
            ("server.p99>5ms", "\"server.p99\" is not a metric"),
            ("p99>50", "\"50\": a unit is missing: write 50ms"),
            ("p99>", "not a time"),
            ("p99>fast", "not a time"),
            ("p99>-5ms", "not a time"),
            ("p99>>5ms", "not a time"),
            ("p99>1.2.3s", "not a time"),
            ("p99>5 parsecs", "not a time"),
            ("p99>50%", "not a time"),
            ("rate<50ms", "\"50ms\": "),
            ("rate<-1", "\"-1\": "),
            ("err>5", "\"5\" is not a share: write 0.1%"),
            ("err>101%", "\"101%\" is not a share"),
            ("err>-1%", "is not a share"),
            ("err>NaN", "is not a share"),
            ("sent<0.5", "\"0.5\" is not a count"),
            (
                "err>1",
                "is never true, because a share is from 0% to 100%: write 'err>1%'",
            ),
            ("err>100%", "is never true"),
            ("limited<0", "is never true"),
            ("skipped<0%", "is never true"),
            ("err>=0", "is always true"),
            ("err<=1", "is always true"),
            ("p99<0ms", "is never true, because no value is below 0"),
            ("sent>=0", "is always true"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
