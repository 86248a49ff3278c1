//! Starts empty, and refuses its first caller.
//!
//! The bucket is documented as full at the start, but its level starts at zero and only grows with time. A client that
//! makes one call per day at 1 per day first waits for a day; a test with one call fails.
//!
//! Detected by: C2 (never refuses needlessly): nothing was admitted, and yet the first call is refused. Use instead:
//! [`flowgate::TokenBucket`], which starts full unless [`initial_tokens`](flowgate::TokenBucketBuilder::initial_tokens)
//! is set.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that starts empty.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::starts_empty::StartsEmpty;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = StartsEmpty::new(Quota::per_day(1));
/// let first = Step { at_ns: 0, op: Op::Try { n: 1 } };
/// assert_ne!(bucket.step(&first), OperationOutcome::Admitted);
/// ```
#[derive(Clone, Debug)]
pub struct StartsEmpty {
    rate: Rate,
    /// In grains.
    level: i128,
    last_ns: u64,
}

impl StartsEmpty {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        // The mistake.
        Self {
            rate: Rate::of(quota),
            level: 0,
            last_ns: 0,
        }
    }
}

impl Subject for StartsEmpty {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let elapsed_ns = step.at_ns.saturating_sub(self.last_ns);
        self.level = (self.level + self.rate.accrual * i128::from(elapsed_ns)).min(self.rate.full);
        self.last_ns = self.last_ns.max(step.at_ns);
        let cost = self.rate.cost(n);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        verdict(enough)
    }
}
