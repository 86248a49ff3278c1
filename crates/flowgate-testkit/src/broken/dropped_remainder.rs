//! Drops fractions of a token at each refill.
//!
//! Tokens are whole numbers, and the refill time moves to now even if half a token was due to the elapsed time. Polled
//! often enough, the bucket never fills. At 1 per second, polled every 1.9 s, such a limiter admits
//! 53 % of its rate.
//!
//! Detected by: C2 (never refuses needlessly) and C8 (exact rates). Use instead: [`flowgate::TokenBucket`], which
//! stores one exact time.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket of whole tokens that forgets the remainder.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::dropped_remainder::DroppedRemainder;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = DroppedRemainder::new(Quota::per_second(1));
/// let asked = |times: u64| Step { at_ns: times * 900_000_000, op: Op::Try { n: 1 } };
/// let admitted = (0..10).filter(|times| bucket.step(&asked(*times)) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 1); // in eight seconds
/// ```
#[derive(Clone, Debug)]
pub struct DroppedRemainder {
    rate: Rate,
    /// In grains.
    level: i128,
    last_ns: u64,
}

impl DroppedRemainder {
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

impl Subject for DroppedRemainder {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let flowed = self.rate.accrual * i128::from(step.at_ns.saturating_sub(self.last_ns));
        let whole = flowed / self.rate.price * self.rate.price;
        self.level = (self.level + whole).min(self.rate.full);
        // The mistake: only `whole` was paid out, but all of the time counts as spent.
        self.last_ns = self.last_ns.max(step.at_ns);
        let cost = self.rate.cost(n);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        verdict(enough)
    }
}
