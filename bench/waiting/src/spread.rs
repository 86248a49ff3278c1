//! Percentiles, by nearest rank: each is a number that was measured.

use serde::Serialize;

/// Median, 99th percentile and greatest of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tail {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Tail {
    /// Of `values`; of none, zeros.
    pub fn of(mut values: Vec<f64>) -> Tail {
        values.sort_by(f64::total_cmp);
        Tail {
            p50: rank(&values, 0.5),
            p99: rank(&values, 0.99),
            max: rank(&values, 1.0),
        }
    }
}

/// Median, 10th and 90th percentile of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
}

impl Spread {
    /// Of `values`; of none, zeros.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        Spread {
            p10: rank(&values, 0.1),
            p50: rank(&values, 0.5),
            p90: rank(&values, 0.9),
        }
    }
}

fn rank(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (q * last as f64).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let tail = Tail::of(values.clone());
        assert_eq!((tail.p50, tail.p99, tail.max), (50.0, 99.0, 100.0));
        let spread = Spread::of(values);
        assert_eq!((spread.p10, spread.p50, spread.p90), (10.0, 50.0, 90.0));
        assert_eq!(Tail::of(Vec::new()), Tail::default());
    }
}
