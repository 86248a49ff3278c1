//! Stores the usage of an evicted key as a share of the limit.
//!
//! A table that is full keeps a sketch of the keys that it evicted. A share of the limit seems right for every quota,
//! until the limit is lowered and raised. Then 9 of 10 are restored as 2 of 2, and become 2 of 10 under the limit of 10.
//!
//! Here every other operation finds the key evicted. Detected by: C1 (never over-admits), across changes of quota. Use
//! instead: [`flowgate::Keyed`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Key of a table that is too small, with windows.
///
/// A window counts the previous one in full.
///
/// ```
/// use flowgate::{Carry, Quota};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::share_of_limit::ShareOfLimit;
/// use flowgate_testkit::subject::Subject;
///
/// let mut key = ShareOfLimit::new(Quota::per_minute(10));
/// let mut at_zero = |op| key.step(&Step { at_ns: 0, op });
/// let limit = |n| Op::SetQuota { quota: Quota::per_minute(n), carry: Carry::Kept };
/// assert_eq!(at_zero(Op::Try { n: 9 }), OperationOutcome::Admitted);
/// at_zero(limit(2)); // restored as 2 of 2
/// at_zero(limit(10));
/// assert_eq!(at_zero(Op::Try { n: 8 }), OperationOutcome::Admitted); // 17 of 10
/// ```
#[derive(Clone, Debug)]
pub struct ShareOfLimit {
    limit: u128,
    window_ns: u64,
    /// The newest window with a count.
    window: u64,
    /// The counts of that window and of the previous one.
    counts: [u128; 2],
    operations: u64,
}

impl ShareOfLimit {
    /// Creates an empty table for `quota`.
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

    /// Advances to the window of this time; an earlier one counts as the newest.
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

    fn step(&mut self, step: &Step) -> OperationOutcome {
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
                OperationOutcome::Changed
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
