//! Distribution of many durations, in bounded memory.

use std::time::Duration;

use flowgate_chart::significant;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::detail;
use crate::report::nanos;

/// Distribution of durations: quantiles with three significant digits.
///
/// # Examples
///
/// ```
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// let spread = report.service;
/// assert_eq!(spread.samples, 5);
/// assert!(spread.p50 <= spread.p99 && spread.p99 <= spread.max);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of durations; if it is zero, all other fields are zero.
    pub samples: u64,
    /// Arithmetic mean.
    #[serde(rename = "mean_ns", with = "nanos")]
    pub mean: Duration,
    /// Median: 50 % of the durations are at most this long.
    #[serde(rename = "p50_ns", with = "nanos")]
    pub p50: Duration,
    /// 90 % of the durations are at most this long.
    #[serde(rename = "p90_ns", with = "nanos")]
    pub p90: Duration,
    /// 95 % of the durations are at most this long.
    ///
    /// It is zero in a report of a version without it.
    #[serde(rename = "p95_ns", with = "nanos", default)]
    pub p95: Duration,
    /// 99 % of the durations are at most this long.
    #[serde(rename = "p99_ns", with = "nanos")]
    pub p99: Duration,
    /// 99.9 % of the durations are at most this long.
    #[serde(rename = "p999_ns", with = "nanos")]
    pub p999: Duration,
    /// 99.99 % of the durations are at most this long.
    #[serde(rename = "p9999_ns", with = "nanos")]
    pub p9999: Duration,
    /// Longest duration.
    #[serde(rename = "max_ns", with = "nanos")]
    pub max: Duration,
}

impl Spread {
    /// Returns the quantiles and the maximum by name. A quantile is `None` if too few samples distinguish it from the
    /// maximum.
    pub(crate) fn columns(&self) -> [(&'static str, Option<Duration>); 7] {
        let columns = [
            ("p50", self.p50, 0.5),
            ("p90", self.p90, 0.9),
            ("p95", self.p95, 0.95),
            ("p99", self.p99, 0.99),
            ("p99.9", self.p999, 0.999),
            ("p99.99", self.p9999, 0.9999),
            ("max", self.max, 0.0),
        ];
        columns.map(|(name, value, share)| {
            // A report of an older version lacks p95.
            let is_measured = value > Duration::ZERO || self.p50.is_zero();
            let is_shown = is_measured && self.distinguishes(share);
            (name, is_shown.then_some(value))
        })
    }

    /// Returns whether there are samples enough to distinguish this quantile from the maximum. Up to 0.99, any are.
    pub(crate) fn distinguishes(&self, share: f64) -> bool {
        let least = if share > 0.99 {
            (1.0 - share).recip()
        } else {
            1.0
        };
        // 1 - 0.999 is not exact.
        self.samples as f64 >= least - 1e-6 * least
    }
}

/// Returns the name of a percentile: `p99.5` for a share of 0.995.
pub(crate) fn percentile_name(share: f64) -> String {
    format!("p{}", significant(share * 100.0, 9))
}

/// One point of a distribution.
///
/// # Examples
///
/// ```
/// use flowgate_load::Quantile;
///
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// // Prints a table of shares and durations.
/// for Quantile { share, value } in &report.curves.service {
///     println!("{share:.4} {value:?}");
/// }
/// assert!(report.curves.service.is_sorted_by_key(|point| point.value));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// Share of durations, from 0 to 1, that are at most `value`.
    pub share: f64,
    /// Duration that is not exceeded by this share.
    #[serde(rename = "ns", with = "nanos")]
    pub value: Duration,
}

/// Histogram of durations.
///
/// Up to one hour, with three significant digits; longer durations count as one hour. It takes about 270 KB.
#[derive(Debug)]
pub(crate) struct Durations(Histogram<u64>);

impl Durations {
    pub(crate) fn new() -> Durations {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let histogram = Histogram::new_with_bounds(1, HOUR_NS, 3);
        Durations(histogram.expect("1 ns to one hour at 3 digits is a valid range"))
    }

    pub(crate) fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns the durations in nanoseconds, each with the number of those up to it.
    pub(crate) fn cumulative(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        let counted = recorded.scan(0, |up_to, step| {
            *up_to += step.count_since_last_iteration();
            Some((step.value_iterated_to(), *up_to))
        });
        counted.collect()
    }

    /// Returns the durations in full.
    pub(crate) fn histogram(&self) -> detail::Histogram {
        let recorded = self.0.iter_recorded();
        let counts =
            recorded.map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
        detail::Histogram::from_counts(counts.collect())
    }

    /// Returns durations as they were recorded.
    pub(crate) fn of_histogram(histogram: &detail::Histogram) -> Durations {
        let mut durations = Durations::new();
        for &(ns, count) in histogram.counts() {
            durations.0.saturating_record_n(ns, count);
        }
        durations
    }

    /// Adds the durations of another one.
    pub(crate) fn add(&mut self, other: &Durations) {
        self.0.add(&other.0).expect("both have the same range");
    }

    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }

    pub(crate) fn at(&self, share: f64) -> Duration {
        // A quantile is the upper end of its bucket, which may exceed the largest value in it.
        Duration::from_nanos(self.0.value_at_quantile(share).min(self.0.max()))
    }

    pub(crate) fn spread(&self) -> Spread {
        if self.0.is_empty() {
            return Spread::default();
        }
        Spread {
            samples: self.0.len(),
            mean: Duration::from_nanos(self.0.mean() as u64),
            p50: self.at(0.5),
            p90: self.at(0.9),
            p95: self.at(0.95),
            p99: self.at(0.99),
            p999: self.at(0.999),
            p9999: self.at(0.9999),
            max: Duration::from_nanos(self.0.max()),
        }
    }

    /// Returns the values of these shares; empty without durations.
    pub(crate) fn quantiles(&self, shares: &[f64]) -> Vec<Quantile> {
        let quantile = |&share| Quantile {
            share,
            value: self.at(share),
        };
        match self.0.is_empty() {
            true => Vec::new(),
            false => shares.iter().map(quantile).collect(),
        }
    }

    /// Returns the curve from the shortest to the longest duration. The shares are first at constant intervals, then
    /// closer to 1.
    pub(crate) fn curve(&self) -> Vec<Quantile> {
        let mut curve = Vec::new();
        if self.0.is_empty() {
            return curve;
        }
        let mut point = |share| {
            curve.push(Quantile {
                share,
                value: self.at(share),
            })
        };
        (0..10).for_each(|tenth| point(f64::from(tenth) / 10.0));
        let mut beyond = 0.1;
        while beyond * self.0.len() as f64 >= 1.0 {
            for part in [1.0, 0.75, 0.5, 0.35, 0.25, 0.15] {
                point(1.0 - beyond * part);
            }
            beyond /= 10.0;
        }
        point(1.0);
        curve
    }
}
