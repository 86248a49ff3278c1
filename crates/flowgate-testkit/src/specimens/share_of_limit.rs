//! Remembers what an evicted key has used as a share of the limit.
//!
//! A table with more keys than room keeps a sketch of those that it evicted. A share of the limit
//! looks right for every quota, until the limit goes down and up: 9 of 10 are brought back as 2 of 2,
//! and 2 of 10 are what is left of them when the limit is 10 again.
//!
//! Here every other operation finds the key evicted. Contract C1 catches it, across changes of
//! quota. Instead: [`flowgate::Keyed`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, Outcome, Step};
use crate::subject::{Capabilities, Subject};

/// One key of a table that is too small, in windows that count the previous one in full.
///
/// ```
/// use flowgate::{Carry, Quota};
/// use flowgate_testkit::script::{Op, Outcome, Step};
/// use flowgate_testkit::specimens::share_of_limit::ShareOfLimit;
/// use flowgate_testkit::subject::Subject;
///
/// let mut key = ShareOfLimit::new(Quota::per_minute(10));
/// let mut at_zero = |op| key.step(&Step { at_ns: 0, op });
/// let limit = |n| Op::SetQuota { quota: Quota::per_minute(n), carry: Carry::Kept };
/// assert_eq!(at_zero(Op::Try { n: 9 }), Outcome::Admitted);
/// at_zero(limit(2)); // brought back as 2 of 2
/// at_zero(limit(10));
/// assert_eq!(at_zero(Op::Try { n: 8 }), Outcome::Admitted); // 17 of 10
/// ```
#[derive(Clone, Debug)]
pub struct ShareOfLimit {
    limit: u128,
    window_ns: u64,
    /// The newest window in which something was counted.
    window: u64,
    /// What was counted in it and in the one before it.
    counts: [u128; 2],
    operations: u64,
}

impl ShareOfLimit {
    /// An empty table for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            limit: rate.limit_units,
            window_ns: rate.period_ns,
            window: 0,
            counts: [0; 2],
            operations: 0,
        }
    }

    /// Moves on to the window of this time; an earlier one counts as the newest.
    fn enter(&mut self, at_ns: u64) {
        let window = (at_ns / self.window_ns).max(self.window);
        self.counts = match window - self.window {
            0 => self.counts,
            1 => [0, self.counts[0]],
            _ => [0; 2],
        };
        self.window = window;
    }
}

impl Subject for ShareOfLimit {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            set_quota: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> Outcome {
        self.operations += 1;
        match step.op {
            Op::Try { n } => {
                self.enter(step.at_ns);
                let enough = self.counts[0] + self.counts[1] + u128::from(n) <= self.limit;
                if enough {
                    self.counts[0] += u128::from(n);
                }
                verdict(enough)
            }
            Op::SetQuota { quota, .. } if Rate::of(quota).period_ns == self.window_ns => {
                let limit = Rate::of(quota).limit_units;
                if self.operations.is_multiple_of(2) {
                    // The mistake: the share is brought back as a count of the other limit.
                    let brought = |count: u128| (count * limit).div_ceil(self.limit);
                    self.counts = self.counts.map(brought);
                }
                self.limit = limit;
                Outcome::Changed
            }
            _ => Outcome::Skipped,
        }
    }
}
