//! Truncates the interval between tokens to whole nanoseconds.
//!
//! 600 million per second is one every 1.67 ns, but 1 ns is stored: a billion per second. Rates per minute and per day
//! that do not divide a nanosecond drift as well; in milliseconds, 600 per second becomes 1000. It is the most common
//! defect of all.
//!
//! Detected by: C1 (never over-admits) and C8 (exact rates). Use instead: [`flowgate::TokenBucket`], which counts in
//! fractions of a nanosecond, with a whole number of fractions per token.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket stored as one time, in too coarse a unit.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::whole_nanoseconds::WholeNanoseconds;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = WholeNanoseconds::new(Quota::per_second(600_000_000).burst(1));
/// let admitted = (1..=1000).filter(|&at_ns| bucket.step(&Step { at_ns, op: Op::Try { n: 1 } }) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 1000); // of 600
/// ```
#[derive(Clone, Debug)]
pub struct WholeNanoseconds {
    /// Nanoseconds per token.
    interval_ns: i128,
    burst: i128,
    /// The arrival time, in nanoseconds.
    full_at_ns: i128,
}

impl WholeNanoseconds {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            // The mistake.
            interval_ns: (rate.price / rate.accrual).max(1),
            burst: i128::from(rate.burst_units),
            full_at_ns: 0,
        }
    }
}

impl Subject for WholeNanoseconds {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        if i128::from(n) > self.burst {
            return verdict(false);
        }
        let now_ns = i128::from(step.at_ns);
        let next_ns = self.full_at_ns.max(now_ns) + i128::from(n) * self.interval_ns;
        let enough = next_ns <= now_ns + self.burst * self.interval_ns;
        if enough {
            self.full_at_ns = next_ns;
        }
        verdict(enough)
    }
}
