//! Whether a step kept the objective, and how certain that is.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::blocks::Part;
use super::slo::{Bound, Condition, Slo, percentile};
use crate::report::text;

/// Share of more requests than responses from which a step counts as overloaded.
const GROWTH: f64 = 0.002;
/// Standard errors by which that share must be above 0.
const GROWTH_ERRORS: f64 = 3.0;
/// A condition is far from its limit if the measured value is below this part of it.
const FAR: f64 = 0.25;

/// A number with the interval that contains the truth at 95 %.
///
/// The interval comes from the spread of equal parts of the step's time, not from single requests, because response times that
/// follow each other are similar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The measured value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Why a step broke the objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokenObjective {
    /// A condition did not hold.
    Condition {
        /// The condition.
        condition: Condition,
        /// The measured response time in nanoseconds, or share of errors.
        was: Measured,
    },
    /// More requests were sent than responses came back, until the end.
    Growing {
        /// This share of the requests had no response yet.
        share: f64,
    },
    /// The step was ended early, because requests waited much longer than the objective allows.
    Overrun {
        /// Number of requests without a response at that time.
        waiting: u64,
    },
}

/// Judgment of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judgment {
    pub(super) broken: Option<BrokenObjective>,
    /// Whether the intervals exclude the opposite.
    pub(super) is_clear: bool,
    /// Whether every condition is far from its limit.
    pub(super) is_far: bool,
}

/// Judges the parts of a step by the objective.
pub(super) fn judge(slo: &Slo, parts: &[Part]) -> Judgment {
    let mut judgment = Judgment {
        broken: None,
        is_clear: true,
        is_far: true,
    };
    for &condition in slo.conditions() {
        let (was, limit) = measure(condition, parts);
        judgment.is_far &= was.value < limit * FAR;
        let is_broken = was.value >= limit;
        let is_clear = was.high < limit || was.low >= limit;
        if is_broken && (judgment.broken.is_none() || is_clear && !judgment.is_clear) {
            let shown = shown(condition, parts).unwrap_or(was);
            judgment.broken = Some(BrokenObjective::Condition {
                condition,
                was: shown,
            });
            judgment.is_clear = is_clear;
        } else if judgment.broken.is_none() {
            judgment.is_clear &= is_clear;
        }
    }
    if let Some(share) = growth(parts)
        && !(judgment.broken.is_some() && judgment.is_clear)
    {
        judgment.broken = Some(BrokenObjective::Growing { share });
        judgment.is_clear = true;
    }
    judgment.is_far &= judgment.broken.is_none();
    judgment
}

/// Returns the number that decides about the condition, and its limit: for a quantile, the share of longer response times.
fn measure(condition: Condition, parts: &[Part]) -> (Measured, f64) {
    match condition.0 {
        Bound::Quantile { share, below } => (share_over(parts, below), 1.0 - share),
        Bound::Mean { below } => {
            let mean = ratio(parts, |part| (part.counts.sum_ns, part.len() as f64));
            let unknown = Measured {
                value: 0.0,
                low: 0.0,
                high: f64::MAX,
            };
            (mean.unwrap_or(unknown), below.as_nanos() as f64)
        }
        Bound::Errors { below } => (errors(parts), below),
    }
}

/// Returns the number that a reader wants to see, if it is another: the quantile.
fn shown(condition: Condition, parts: &[Part]) -> Option<Measured> {
    match condition.0 {
        Bound::Quantile { share, .. } => Some(quantile(parts, share)),
        Bound::Mean { .. } | Bound::Errors { .. } => None,
    }
}

/// Returns the share of requests without a good response.
pub(super) fn errors(parts: &[Part]) -> Measured {
    // Errors that come together show in the spread.
    proportion(parts, 1.0, |part| {
        (part.counts.failed as f64, part.counts.requests as f64)
    })
}

/// Returns the share of response times that are not below `limit`.
fn share_over(parts: &[Part], limit: Duration) -> Measured {
    proportion(parts, clustering(parts), |part| {
        (part.count_from(limit) as f64, part.len() as f64)
    })
}

/// Returns the quantile of the response time in nanoseconds, with its interval: the times at which the share of longer ones is
/// certainly not, and certainly, below the rest.
pub(super) fn quantile(parts: &[Part], share: f64) -> Measured {
    let rest = 1.0 - share;
    let longest_ns = parts.iter().map(Part::longest_ns).max().unwrap_or(0);
    let first = |is_below: &dyn Fn(Measured) -> bool| {
        let (mut low, mut high) = (0, longest_ns);
        while high - low > high / 1_000 + 1 {
            let middle = low + (high - low) / 2;
            match is_below(share_over(parts, Duration::from_nanos(middle + 1))) {
                true => high = middle,
                false => low = middle,
            }
        }
        high as f64
    };
    Measured {
        value: first(&|over| over.value <= rest),
        low: first(&|over| over.low <= rest),
        high: first(&|over| over.high <= rest),
    }
}

/// Returns the share of requests that more requests were scheduled than completed, if that is certain.
fn growth(parts: &[Part]) -> Option<f64> {
    let growth = spread(parts, |part| {
        (
            part.counts.requests as f64 - part.counts.completed as f64,
            part.counts.requests as f64,
        )
    })?;
    (growth.0 > GROWTH && growth.0 > GROWTH_ERRORS * growth.1).then_some(growth.0)
}

/// Returns a share of requests, with its interval: the wider of that by the spread of the parts, and of Wilson's. `clustering`
/// requests are worth as much as one independent request.
fn proportion(parts: &[Part], clustering: f64, of: impl Fn(&Part) -> (f64, f64)) -> Measured {
    let Some(Measured { value, low, high }) = ratio(parts, &of) else {
        return Measured {
            value: 0.0,
            low: 0.0,
            high: 1.0,
        };
    };
    let whole: f64 = parts.iter().map(|part| of(part).1).sum();
    let t = student(parts);
    let weight = t * t * clustering / whole;
    let middle = (value + weight / 2.0) / (1.0 + weight);
    let reach = (weight * (value * (1.0 - value) + weight / 4.0)).sqrt() / (1.0 + weight);
    Measured {
        value,
        low: low.min(middle - reach).max(0.0),
        high: high.max(middle + reach).min(1.0),
    }
}

/// Returns how many requests are worth as much as one independent request: the variance of the mean response time of a part,
/// relative to that of independent response times. At least 1.
fn clustering(parts: &[Part]) -> f64 {
    let count = |part: &Part| part.len() as f64;
    let Some((mean, error)) = spread(parts, |part| (part.counts.sum_ns, count(part))) else {
        return 1.0;
    };
    let whole: f64 = parts.iter().map(count).sum();
    let squares: f64 = parts.iter().map(|part| part.counts.squares).sum();
    let alone = (squares / whole - mean * mean) / whole;
    match alone > 0.0 {
        true => (error * error / alone).max(1.0),
        false => 1.0,
    }
}

/// Returns the ratio of two sums, with its interval by the spread of the parts.
fn ratio(parts: &[Part], of: impl Fn(&Part) -> (f64, f64)) -> Option<Measured> {
    let (value, error) = spread(parts, of)?;
    let reach = student(parts) * error;
    Some(Measured {
        value,
        low: (value - reach).max(0.0),
        high: value + reach,
    })
}

/// Returns Student's t at 95 %, to a hundredth.
fn student(parts: &[Part]) -> f64 {
    1.96 + 2.7 / (parts.len() as f64 - 1.0)
}

/// Returns the ratio of two sums, and its standard error by the spread of the parts.
fn spread(parts: &[Part], of: impl Fn(&Part) -> (f64, f64)) -> Option<(f64, f64)> {
    let pairs: Vec<(f64, f64)> = parts.iter().map(of).collect();
    let part: f64 = pairs.iter().map(|pair| pair.0).sum();
    let whole: f64 = pairs.iter().map(|pair| pair.1).sum();
    let count = pairs.len() as f64;
    if whole <= 0.0 || count < 2.0 {
        return None;
    }
    let value = part / whole;
    let squares = pairs.iter().map(|(part, of)| (part - value * of).powi(2));
    let squares: f64 = squares.sum();
    let error = (squares / (count * (count - 1.0))).sqrt() / (whole / count);
    Some((value, error))
}

impl BrokenObjective {
    /// Returns whether the server failed too many requests.
    pub(super) fn is_by_errors(self) -> bool {
        let BrokenObjective::Condition { condition, .. } = self else {
            return false;
        };
        matches!(condition.0, Bound::Errors { .. })
    }
}

impl fmt::Display for BrokenObjective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokenObjective::Condition { condition, was } => match condition.0 {
                Bound::Quantile { share, .. } => {
                    write!(f, "p{} was {}", percentile(share), time(*was))
                }
                Bound::Mean { .. } => write!(f, "the mean was {}", time(*was)),
                Bound::Errors { .. } => write!(
                    f,
                    "errors were {} % ({} to {} %)",
                    short(was.value),
                    short(was.low),
                    short(was.high.min(1.0))
                ),
            },
            BrokenObjective::Growing { share } => write!(
                f,
                "responses fell behind by {} % of the requests",
                short(*share)
            ),
            BrokenObjective::Overrun { waiting } => {
                write!(f, "ended early with {waiting} requests without a response")
            }
        }
    }
}

/// Writes nanoseconds with their interval.
pub(super) fn time(was: Measured) -> String {
    let brief = |ns: f64| text::brief(Duration::from_nanos(ns as u64));
    format!(
        "{} ({} to {})",
        brief(was.value),
        brief(was.low),
        brief(was.high)
    )
}

/// Writes a share in percent, with two digits.
fn short(share: f64) -> String {
    flowgate_chart::significant(share * 100.0, 2)
}
