//! How many requests a limit allows in an interval, and the interval with the largest excess.

use crate::evidence::Evidence;
use crate::fit::Fit;
use crate::models::Model;
use crate::{EnvelopePoint, ExpectedKind, ExpectedLimit, Worst};

/// Intervals of up to this many windows are examined.
const WINDOWS: u32 = 8;

/// Most requests that a limit allows, by the length of the interval. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Allowance {
    /// burst + rate × length.
    Bucket { burst: f64, rate: f64 },
    /// The limit in every window.
    Every { limit: f64, window: f64 },
    /// The limit in each window. An interval shorter than one window touches two: twice the limit, minus `less`.
    Each { limit: f64, window: f64, less: f64 },
}

impl Allowance {
    pub(crate) fn of_expected(expected: ExpectedLimit) -> Self {
        let quota = expected.quota;
        let window = quota.period().as_nanos() as f64;
        // A request costs one token, whatever its number of units.
        let limit = quota.count() as f64;
        match expected.kind {
            None | Some(ExpectedKind::Token | ExpectedKind::Queue) => Self::Bucket {
                burst: quota.max_burst() as f64,
                rate: limit / window,
            },
            Some(ExpectedKind::Sliding) => Self::Every { limit, window },
            Some(ExpectedKind::Fixed) => Self::Each {
                limit,
                window,
                less: 0.0,
            },
            Some(ExpectedKind::Approximate) => Self::Each {
                limit,
                window,
                less: 1.0,
            },
        }
    }

    /// Returns what is allowed if the limiter's clock is off by up to `tolerance_ns`.
    pub(crate) fn tolerating(self, tolerance_ns: f64) -> Self {
        match self {
            Self::Bucket { burst, rate } => Self::Bucket {
                burst: burst + rate * tolerance_ns,
                rate,
            },
            Self::Every { limit, window } => Self::Every {
                limit,
                window: (window - tolerance_ns).max(0.0),
            },
            Self::Each {
                limit,
                window,
                less,
            } => Self::Each {
                limit,
                window: (window - tolerance_ns).max(0.0),
                less,
            },
        }
    }

    /// Returns what the detected limit allows.
    pub(crate) fn of_fit(fit: &Fit) -> Self {
        match fit.model {
            Model::Bucket(bucket) | Model::Queue(bucket) => Self::Bucket {
                burst: bucket.burst,
                rate: 1.0 / bucket.interval,
            },
            Model::Log(log) => Self::Every {
                limit: log.limit,
                window: log.window,
            },
            Model::OnRequest(fixed) => Self::Each {
                limit: fixed.limit,
                window: fixed.window,
                less: 0.0,
            },
            Model::Segments(fixed) if fixed.count == 1 => Self::Each {
                limit: fixed.limit,
                window: fixed.window,
                less: 0.0,
            },
            // The oldest segment may have been filled at its end.
            Model::Segments(segments) => Self::Every {
                limit: segments.limit,
                window: segments.window - segments.length(),
            },
            Model::Counter(counter) => Self::Each {
                limit: counter.limit,
                window: counter.window,
                less: 1.0,
            },
            Model::Periods(periods) => Self::Each {
                limit: periods.limit,
                window: periods.period,
                less: 0.0,
            },
        }
    }

    /// Returns the interval with the largest certain excess or, if there is none, the one closest to the limit.
    pub(crate) fn worst(&self, evidence: &Evidence) -> Option<Worst> {
        match *self {
            Self::Bucket { burst, rate } => worst_of_bucket(evidence, burst, rate),
            Self::Every { limit, window } => {
                let spans = (1..=WINDOWS).map(f64::from);
                worst_of_windows(evidence, spans.map(|n| (n * window, n * limit)))
            }
            Self::Each {
                limit,
                window,
                less,
            } => {
                let spans = (1..=WINDOWS).map(f64::from);
                worst_of_windows(
                    evidence,
                    spans.map(|n| (n * window, (n + 1.0) * limit - less)),
                )
            }
        }
    }
}

/// For each admission, considers the start that maximizes the admissions up to it.
fn worst_of_bucket(evidence: &Evidence, burst: f64, rate: f64) -> Option<Worst> {
    let surely = &evidence.surely;
    let mut first = 0;
    let mut worst: Option<(f64, Worst)> = None;
    let height = |index: usize| rate * surely[index].from - index as f64;
    for (last, span) in surely.iter().enumerate() {
        if height(last) > height(first) {
            first = last;
        }
        let length = span.to - surely[first].from;
        let admitted = last - first + 1;
        let allowed = burst + rate * length;
        let excess = admitted as f64 - allowed;
        if worst.is_none_or(|(most, _)| excess > most) {
            worst = Some((excess, found(length, admitted, allowed, surely[first].from)));
        }
    }
    worst.map(|(_, worst)| worst)
}

/// Returns the most admissions in any interval shorter than each of `spans`, with what is allowed there.
fn worst_of_windows(evidence: &Evidence, spans: impl Iterator<Item = (f64, f64)>) -> Option<Worst> {
    let all = spans.filter_map(|(length, allowed)| {
        let (admitted, at) = most_within(evidence, |span| span < length)?;
        Some(found(length, admitted, allowed, at))
    });
    all.max_by(|a, b| {
        let over = |worst: &Worst| worst.admitted as f64 - worst.allowed;
        over(a).total_cmp(&over(b))
    })
}

fn found(span: f64, admitted: usize, allowed: f64, at: f64) -> Worst {
    Worst {
        interval: span / 1e9,
        admitted: admitted as u64,
        allowed,
        at: at / 1e9,
    }
}

/// Returns the most certain admissions within an interval that `fits`, and the start of the interval.
fn most_within(evidence: &Evidence, fits: impl Fn(f64) -> bool) -> Option<(usize, f64)> {
    let surely = &evidence.surely;
    let mut first = 0;
    let mut most: Option<(usize, f64)> = None;
    for (last, span) in surely.iter().enumerate() {
        while first < last && !fits(span.to - surely[first].from) {
            first += 1;
        }
        let admitted = last - first + 1;
        if fits(span.to - surely[first].from) && most.is_none_or(|(most, _)| admitted > most) {
            most = Some((admitted, surely[first].from));
        }
    }
    most
}

/// Returns the most certain admissions in intervals of 1, 2, 5, 10, … ms, up to the length of the record.
pub(crate) fn envelope(evidence: &Evidence) -> Vec<EnvelopePoint> {
    let (Some(first), Some(last)) = (evidence.surely.first(), evidence.surely.last()) else {
        return Vec::new();
    };
    let whole = last.to - first.from;
    let decades = (0..12).map(|power| 1e6 * 10_f64.powi(power));
    let spans = decades.flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade]);
    let spans = spans.take_while(|span| *span < whole).chain([whole]);
    let points = spans.filter_map(|length| {
        let (admitted, _) = most_within(evidence, |span| span <= length)?;
        Some(EnvelopePoint {
            interval: length / 1e9,
            admitted: admitted as u64,
        })
    });
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nginx counts in milliseconds: at 10/s, two requests may be 99 ms apart.
    #[test]
    fn what_a_tick_of_the_server_explains_is_allowed() {
        use crate::conclusion::is_over;
        use crate::{Advertised, Observation, ProbeOutcome};
        let at = |at_us: u64| Observation {
            sent_ns: at_us * 1_000,
            answered_ns: at_us * 1_000,
            connection: 0,
            key: 0,
            outcome: ProbeOutcome::Admitted,
            advertised: Advertised::default(),
        };
        let is_over = |expected: &str, seen: &[Observation], tolerance_ns: f64| {
            let allowed = Allowance::of_expected(expected.parse().unwrap());
            let worst = allowed.tolerating(tolerance_ns).worst(&Evidence::of(seen));
            is_over(&worst.unwrap())
        };
        let pair = [at(0), at(99_100)];
        assert!(is_over("10/s burst 1", &pair, 0.0));
        assert!(!is_over("10/s burst 1", &pair, 1e6));
        assert!(is_over("10/s burst 1", &[at(0), at(98_900)], 1e6));
        let window = [at(0), at(10), at(999_500)];
        assert!(is_over("sliding 2/s", &window, 0.0));
        assert!(!is_over("sliding 2/s", &window, 1e6));
        assert!(is_over("sliding 2/s", &[at(0), at(10), at(998_500)], 1e6));
    }

    #[test]
    fn c1_an_expected_limit_in_units_allows_as_many_requests_as_one_without() {
        for kind in ["", "token", "queue", "fixed", "sliding", "approximate"] {
            let expected = |quota: &str| format!("{kind} {quota}").parse::<ExpectedLimit>();
            let allowed = |quota: &str| Allowance::of_expected(expected(quota).unwrap());
            assert_eq!(allowed("10/s units 10"), allowed("10/s"), "{kind}");
        }
    }
}
