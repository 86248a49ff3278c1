//! Subtracts the last time from an earlier now.
//!
//! Elapsed time is an unsigned difference. If the clock goes back by a microsecond, between two cores or by a
//! correction, 1.8·10¹⁹ ns have elapsed: the allowance is immediately full.
//!
//! Detected by: C4 (safe under clock anomalies). Use instead: [`flowgate::TokenBucket`], for which a stale time only
//! means a lower level.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Allowance with an unsigned elapsed time.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::wrapping_elapsed::WrappingElapsed;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = WrappingElapsed::new(Quota::per_hour(1).burst(5));
/// let mut take_all = |at_ns| bucket.step(&Step { at_ns, op: Op::Try { n: 5 } });
/// assert_eq!(take_all(1000), OperationOutcome::Admitted);
/// assert_eq!(take_all(0), OperationOutcome::Admitted); // a microsecond earlier
/// ```
#[derive(Clone, Debug)]
pub struct WrappingElapsed {
    rate: Rate,
    /// In grains.
    level: i128,
    last_ns: u64,
}

impl WrappingElapsed {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            rate,
            level: rate.full,
            last_ns: 0,
        }
    }
}

impl Subject for WrappingElapsed {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        // The mistake: now may be earlier.
        let elapsed_ns = step.at_ns.wrapping_sub(self.last_ns);
        self.last_ns = step.at_ns;
        self.level = (self.level + self.rate.accrual * i128::from(elapsed_ns)).min(self.rate.full);
        let cost = self.rate.cost(n);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        verdict(enough)
    }
}
