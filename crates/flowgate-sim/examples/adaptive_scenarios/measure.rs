//! Measures of a run, and their targets.

use crate::policy::{Record, Window};

/// A number, and what it should be.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    pub what: &'static str,
    /// Not a number if an algorithm has no such thing.
    pub value: f64,
    pub target: Target,
}

#[derive(Clone, Copy, Debug)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// For information; the least value is the worst one.
    High,
    /// For information; the largest value is the worst one.
    Low,
}

impl Target {
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::High | Self::Low => true,
        }
    }

    /// The worst of these values, which are sorted.
    pub fn worst(self, sorted: &[f64]) -> f64 {
        match self {
            Self::AtMost(_) | Self::Low => sorted[sorted.len() - 1],
            Self::AtLeast(_) | Self::High => sorted[0],
        }
    }
}

pub fn measure(what: &'static str, value: f64, target: Target) -> Measure {
    Measure {
        what,
        value,
        target,
    }
}

/// The windows from `from` until `until`, in seconds.
fn between(record: &Record, from: f64, until: f64) -> &[Window] {
    let [from_ns, until_ns] = [from, until].map(|s| (s * 1e9) as u64);
    let first = record
        .windows
        .partition_point(|window| window.at_ns < from_ns);
    let last = record
        .windows
        .partition_point(|window| window.at_ns < until_ns);
    &record.windows[first..last]
}

/// The share of the windows of which `is` holds.
pub fn share_of(record: &Record, from: f64, until: f64, is: impl Fn(&Window) -> bool) -> f64 {
    let windows = between(record, from, until);
    let those = windows.iter().filter(|window| is(window)).count();
    those as f64 / windows.len().max(1) as f64
}

pub fn mean_limit(record: &Record, from: f64, until: f64) -> f64 {
    let windows = between(record, from, until);
    let sum: f64 = windows.iter().map(|window| window.limit).sum();
    sum / windows.len().max(1) as f64
}

/// The standard deviation of the limit, over its mean.
pub fn deviation(record: &Record, from: f64, until: f64) -> f64 {
    let windows = between(record, from, until);
    let mean = mean_limit(record, from, until);
    let squares = windows.iter().map(|window| (window.limit - mean).powi(2));
    (squares.sum::<f64>() / windows.len().max(1) as f64).sqrt() / mean
}

/// The number of windows until the limit is as it should be.
///
/// From then on, at most one in twenty windows is not.
pub fn windows_until(record: &Record, from: f64, until: f64, is: impl Fn(&Window) -> bool) -> f64 {
    let windows = between(record, from, until);
    let mut bad = 0;
    let mut first = windows.len();
    for (index, is_good) in windows.iter().map(is).enumerate().rev() {
        bad += usize::from(!is_good);
        if bad * 20 <= windows.len() - index && is_good {
            first = index;
        }
    }
    first as f64
}

/// Jain's index of fairness.
///
/// It is 1 if all values are equal, and 1/n if only one of n is above 0.
pub fn jain(values: &[u64]) -> f64 {
    let values = values.iter().map(|value| *value as f64);
    let (sum, squares) = values.clone().fold((0.0, 0.0), |(sum, squares), value| {
        (sum + value, squares + value * value)
    });
    sum * sum / (values.len() as f64 * squares).max(1.0)
}
