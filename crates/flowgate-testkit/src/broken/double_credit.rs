//! Credits idle time after the tokens were spent.
//!
//! While there are enough tokens, calls skip the clock, which is fast; they read the clock only when tokens run out. So
//! a bucket that has been full for long admits its burst, and then another burst for the idle time: 4 instead of 2
//! after 100 idle seconds at 2 per second. The same happens if a timer refills, and the time of the last refill does
//! not move while the bucket is full.
//!
//! Detected by: C1 (never over-admits). Use instead: [`flowgate::TokenBucket`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that reads the clock only when tokens run out.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::double_credit::DoubleCredit;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = DoubleCredit::new(Quota::per_second(2));
/// let after_a_rest = Step { at_ns: 100_000_000_000, op: Op::Try { n: 1 } };
/// let admitted = (0..10).filter(|_| bucket.step(&after_a_rest) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 4); // at once, of two
/// ```
#[derive(Clone, Debug)]
pub struct DoubleCredit {
    rate: Rate,
    /// In grains.
    level: i128,
    last_ns: u64,
}

impl DoubleCredit {
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

impl Subject for DoubleCredit {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let cost = self.rate.cost(n);
        if self.level < cost {
            // The mistake: this time passed while the bucket was full, in part.
            let elapsed_ns = step.at_ns.saturating_sub(self.last_ns);
            let flowed = self.rate.accrual * i128::from(elapsed_ns);
            self.level = (self.level + flowed).min(self.rate.full);
            self.last_ns = self.last_ns.max(step.at_ns);
        }
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        verdict(enough)
    }
}
