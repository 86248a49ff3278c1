//! Counts time in whole seconds.
//!
//! The clock is truncated to seconds, so tokens flow in once per second: with a burst of 1, the limit is 1 per second
//! whatever the rate. And they flow in as soon as the second changes: a call at 0.9 s and another at 1 s count as a
//! whole second apart.
//!
//! Detected by: C1 (never over-admits) and C2 (never refuses needlessly). Use instead: [`flowgate::TokenBucket`], in
//! which a token is available at the exact nanosecond.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

const SECOND: u64 = 1_000_000_000;

/// Bucket on a clock of whole seconds.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::whole_seconds::WholeSeconds;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = WholeSeconds::new(Quota::per_second(10));
/// let mut take_all = |at_ns| bucket.step(&Step { at_ns, op: Op::Try { n: 10 } });
/// assert_eq!(take_all(999_999_999), OperationOutcome::Admitted);
/// assert_eq!(take_all(1_000_000_000), OperationOutcome::Admitted); // a nanosecond later
/// ```
#[derive(Clone, Debug)]
pub struct WholeSeconds {
    rate: Rate,
    /// In grains.
    level: i128,
    last_s: u64,
}

impl WholeSeconds {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            rate,
            level: rate.full,
            last_s: 0,
        }
    }
}

impl Subject for WholeSeconds {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        // The mistake.
        let now_s = step.at_ns / SECOND;
        let elapsed_ns = i128::from(now_s.saturating_sub(self.last_s)) * i128::from(SECOND);
        self.level = (self.level + self.rate.accrual * elapsed_ns).min(self.rate.full);
        self.last_s = self.last_s.max(now_s);
        let cost = self.rate.cost(n);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        verdict(enough)
    }
}
