//! Lets a backward clock mint tokens.
//!
//! The clock is read before the lock is taken, so calls arrive out of order; each sets the refill
//! time to its own, also when that is *earlier*. The next call with the later time is credited the
//! difference once more. Of a thousand calls that alternate between now and 100 ms ago, at 10 per
//! second all thousand pass.
//!
//! Contract C4 catches it. Instead: [`flowgate::TokenBucket`], to which a stale time is merely a
//! lower level.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, Outcome, Step};
use crate::subject::{Capabilities, Subject};

/// A refill time that follows the clock wherever it goes.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, Outcome, Step};
/// use flowgate_testkit::specimens::minting_clock::MintingClock;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = MintingClock::new(Quota::per_second(10));
/// let (now_ns, earlier_ns) = (1_000_000_000, 800_000_000);
/// let calls = [now_ns, earlier_ns].into_iter().cycle().take(1000);
/// let admitted = calls.filter(|&at_ns| bucket.step(&Step { at_ns, op: Op::Try { n: 1 } }) == Outcome::Admitted);
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

impl Subject for MintingClock {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> Outcome {
        let Op::Try { n } = step.op else {
            return Outcome::Skipped;
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
