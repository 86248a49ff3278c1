//! Adds tokens for whole intervals, and forgets the rest of the time.
//!
//! The bucket adds a number of tokens per interval, in whole intervals, during a call. At 1.9 s it adds those of one
//! interval and sets the last time to now, so 0.9 s are lost; called every 1.9 s it admits little more than half its
//! rate. Changing the rate only stores a number, so the new rate applies to past time: from 1 per hour to 1 per second
//! after 59 idle minutes, that adds up to 3,540 tokens.
//!
//! Detected by: the oracle with the same interval refill, and C1 (never over-admits) across a change of rate. Use
//! instead: [`flowgate::TokenBucket`] with [`Refill::Interval`](flowgate::Refill::Interval), which keeps the remainder
//! and applies the old rate first.

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket that counts whole intervals.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::interval_bucket::IntervalBucket;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = IntervalBucket::new(Quota::per_second(1));
/// let mut at_tenth = |tenth: u64| bucket.step(&Step { at_ns: tenth * 100_000_000, op: Op::Try { n: 1 } });
/// assert_eq!(at_tenth(0), OperationOutcome::Admitted);
/// assert_eq!(at_tenth(19), OperationOutcome::Admitted);
/// assert_ne!(at_tenth(28), OperationOutcome::Admitted); // though a second interval is over
/// ```
#[derive(Clone, Debug)]
pub struct IntervalBucket {
    count: u64,
    interval_ns: u64,
    most: u64,
    tokens: u64,
    last_ns: u64,
}

impl IntervalBucket {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        Self {
            count: quota.count().saturating_mul(rate.scale),
            interval_ns: rate.period_ns,
            most: rate.burst_units,
            tokens: rate.burst_units,
            last_ns: 0,
        }
    }

    fn sync(&mut self, now_ns: u64) {
        let intervals = now_ns.saturating_sub(self.last_ns) / self.interval_ns;
        if intervals > 0 {
            let flowed = self.count.saturating_mul(intervals);
            self.tokens = self.tokens.saturating_add(flowed).min(self.most);
            // A mistake: it should go on by whole intervals.
            self.last_ns = now_ns;
        }
    }
}

impl Subject for IntervalBucket {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            set_quota: true,
            ..TRIES
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        match step.op {
            Op::Try { n } => {
                self.sync(step.at_ns);
                let enough = self.tokens >= n;
                if enough {
                    self.tokens -= n;
                }
                verdict(enough)
            }
            Op::SetQuota { quota, .. } => {
                // A mistake: the time since `last_ns` is not settled first.
                *self = Self {
                    tokens: self.tokens,
                    last_ns: self.last_ns,
                    ..Self::new(quota)
                };
                OperationOutcome::Changed
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
