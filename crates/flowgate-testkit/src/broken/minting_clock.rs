//! A backward clock creates tokens.
//!
//! Calls read the clock before they take the lock, so they arrive out of order. Each sets the refill time to its own
//! time, even if that is *earlier*. The next call with the later time gets the difference again. At 10 per second, a
//! thousand calls that alternate between now and 100 ms ago are all admitted.
//!
//! Detected by: C4 (safe under clock anomalies). Use instead: [`flowgate::TokenBucket`], for which a stale time only
//! means a lower level.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket whose refill time follows the clock in both directions.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::minting_clock::MintingClock;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = MintingClock::new(Quota::per_second(10));
/// let (now_ns, earlier_ns) = (1_000_000_000, 800_000_000);
/// let calls = [now_ns, earlier_ns].into_iter().cycle().take(1000);
/// let admitted = calls.filter(|&at_ns| bucket.step(&Step { at_ns, op: Op::Try { n: 1 } }) == OperationOutcome::Admitted);
/// assert_eq!(admitted.count(), 1000); // within 200 ms, at ten a second
/// ```
#[derive(Clone, Debug)]
pub struct MintingClock {
    rate: Rate,
    /// In grains.
    level: i128,
    last_ns: u64,
}

impl MintingClock {
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

impl Subject for MintingClock {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let elapsed_ns = step.at_ns.saturating_sub(self.last_ns);
        self.level = (self.level + self.rate.accrual * i128::from(elapsed_ns)).min(self.rate.full);
        let cost = self.rate.cost(n);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
            // The mistake: it should be the later of the two.
            self.last_ns = step.at_ns;
        } else {
            self.last_ns = self.last_ns.max(step.at_ns);
        }
        verdict(enough)
    }
}
