//! Drops what is less than a token at each refill.
//!
//! Tokens are whole numbers, and the refill time moves to now even if half a token was on its way.
//! Polled often enough, the bucket never fills: at 1 per second, asked every 1.9 µs, a published
//! limiter of this kind gives 53 % of its rate, and one with an interval as its unit loses 0.9 s of
//! every 1.9.
//!
//! Contract C2 and C8 catch it: what is refused would have fitted. Instead:
//! [`flowgate::TokenBucket`], which keeps one time, exactly.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, Outcome, Step};
use crate::subject::{Capabilities, Subject};

/// Whole tokens, and a refill time that forgets the rest.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, Outcome, Step};
/// use flowgate_testkit::specimens::dropped_remainder::DroppedRemainder;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = DroppedRemainder::new(Quota::per_second(1));
/// let asked = |times: u64| Step { at_ns: times * 900_000_000, op: Op::Try { n: 1 } };
/// let admitted = (0..10).filter(|times| bucket.step(&asked(*times)) == Outcome::Admitted);
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
    /// A bucket for `quota`.
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

    fn step(&mut self, step: &Step) -> Outcome {
        let Op::Try { n } = step.op else {
            return Outcome::Skipped;
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
