//! Applies a new rate to past time.
//!
//! Changing the rate only stores a number. The tokens since the last call are then computed at the new rate. From 1 per
//! hour to 1 per second after 59 idle minutes, that adds 3,540 tokens; a published limiter adds 10,000 instead of 10.
//!
//! Detected by: C1 (never over-admits), across the change of quota. Use instead: [`flowgate::TokenBucket::set_quota`],
//! which applies the old rate first.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket whose rate changes retroactively.
///
/// ```
/// use flowgate::{Carry, Quota};
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::retroactive_rate::RetroactiveRate;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = RetroactiveRate::new(Quota::per_hour(1).burst(100));
/// let mut at_minute = |minute: u64, op| bucket.step(&Step { at_ns: minute * 60_000_000_000, op });
/// assert_eq!(at_minute(0, Op::Try { n: 100 }), OperationOutcome::Admitted);
/// at_minute(59, Op::SetQuota { quota: Quota::per_second(1).burst(100), carry: Carry::Kept });
/// assert_eq!(at_minute(59, Op::Try { n: 100 }), OperationOutcome::Admitted); // not one has flowed in
/// ```
#[derive(Clone, Debug)]
pub struct RetroactiveRate {
    rate: Rate,
    /// In grains.
    level: i128,
    last_ns: u64,
}

impl RetroactiveRate {
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

impl Subject for RetroactiveRate {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            set_quota: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        match step.op {
            Op::Try { n } => {
                let elapsed_ns = step.at_ns.saturating_sub(self.last_ns);
                self.level += self.rate.accrual * i128::from(elapsed_ns);
                self.level = self.level.min(self.rate.full);
                self.last_ns = self.last_ns.max(step.at_ns);
                let cost = self.rate.cost(n);
                let enough = self.level >= cost;
                if enough {
                    self.level -= cost;
                }
                verdict(enough)
            }
            Op::SetQuota { quota, .. } => {
                let rate = Rate::of(quota);
                // The mistake: the time since `last_ns` is not settled first.
                self.level = self.level * rate.price / self.rate.price;
                self.rate = rate;
                OperationOutcome::Changed
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
