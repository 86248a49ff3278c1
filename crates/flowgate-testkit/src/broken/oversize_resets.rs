//! A request that can never fit resets the bucket.
//!
//! The error path takes the state out, finds that the cost exceeds the burst, and returns without putting the state
//! back. The next caller finds a fresh bucket. A caller that chooses its cost can evade the limit: use up 3 per hour,
//! request 100, and get 3 more.
//!
//! Detected by: C1 (never over-admits). Use instead: [`flowgate::TokenBucket`], in which an error changes nothing.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket whose state is lost in an error.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::oversize_resets::OversizeResets;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = OversizeResets::new(Quota::per_second(1).burst(10));
/// let mut take = |n| bucket.step(&Step { at_ns: 0, op: Op::Try { n } });
/// assert_eq!(take(10), OperationOutcome::Admitted);
/// assert_ne!(take(11), OperationOutcome::Admitted);
/// assert_eq!(take(10), OperationOutcome::Admitted); // the bucket is full again
/// ```
#[derive(Clone, Debug)]
pub struct OversizeResets {
    rate: Rate,
    /// The level in grains, and its time; `None` for a fresh bucket.
    state: Option<(i128, u64)>,
}

impl OversizeResets {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        Self {
            rate: Rate::of(quota),
            state: None,
        }
    }
}

impl Subject for OversizeResets {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let cost = self.rate.cost(n);
        let (level, last_ns) = self.state.take().unwrap_or((self.rate.full, step.at_ns));
        if cost > self.rate.full {
            // The mistake: the state is gone.
            return verdict(false);
        }
        let elapsed_ns = step.at_ns.saturating_sub(last_ns);
        let level = (level + self.rate.accrual * i128::from(elapsed_ns)).min(self.rate.full);
        let enough = level >= cost;
        let left = if enough { level - cost } else { level };
        self.state = Some((left, last_ns.max(step.at_ns)));
        verdict(enough)
    }
}
