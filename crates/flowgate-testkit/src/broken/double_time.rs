//! Stores the time of day in a double.
//!
//! The state is the time at which the bucket was empty, as seconds since 1970 in floating point. One number and one
//! compare-and-swap are a good design. But near 1.7·10⁹ s neighboring doubles are 238 ns apart. Above eight million per
//! second, the time per token is less than half of that, and adding it changes nothing: the bucket never empties.
//!
//! Detected by: C1 (never over-admits). Use instead: [`flowgate::TokenBucket`], which counts from its clock's origin in
//! integers, with a whole number of steps per token.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// A time in 2023.
const BUILT_S: f64 = 1.7e9;

/// Bucket whose state is the time at which it was empty.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::double_time::DoubleTime;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = DoubleTime::new(Quota::per_second(20_000_000).burst(10));
/// let now = Step { at_ns: 0, op: Op::Try { n: 1 } };
/// let admitted = (0..1000).filter(|_| bucket.step(&now) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 1000); // at once, of ten
/// ```
#[derive(Clone, Debug)]
pub struct DoubleTime {
    per_second: f64,
    most: f64,
    empty_s: f64,
}

impl DoubleTime {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        let per_second = rate.accrual as f64 / rate.price as f64 * 1e9;
        let most = rate.burst_units as f64;
        Self {
            per_second,
            most,
            empty_s: BUILT_S - most / per_second,
        }
    }
}

impl Subject for DoubleTime {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        // The mistake: this has 53 bits for all of the time since 1970.
        let now_s = BUILT_S + step.at_ns as f64 / 1e9;
        let tokens = ((now_s - self.empty_s) * self.per_second).min(self.most);
        let enough = tokens >= n as f64;
        if enough {
            self.empty_s = now_s - (tokens - n as f64) / self.per_second;
        }
        verdict(enough)
    }
}
