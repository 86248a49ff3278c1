//! Counts microseconds and whole tokens, and starts empty.
//!
//! The bucket is documented as full at the start, but refuses its first call. Its tokens are whole numbers, and each
//! write drops the fraction: at 1000/s with a burst of 100, polled every 0.7 ms, 714 per second are admitted. Rates
//! above a million per second are silently reduced to that. (Its clock is the wall clock, which jumps.)
//!
//! Detected by: C2 (never refuses needlessly), at the first call. Use instead: [`flowgate::TokenBucket`].

use flowgate::Quota;

use super::{TRIES, verdict};
use crate::rate::Rate;
use crate::script::{Op, OperationOutcome, Step};
use crate::subject::{Capabilities, Subject};

/// Bucket of whole tokens with a time in microseconds.
///
/// ```
/// use flowgate::Quota;
/// use flowgate_testkit::script::{Op, OperationOutcome, Step};
/// use flowgate_testkit::broken::microsecond_bucket::MicrosecondBucket;
/// use flowgate_testkit::subject::Subject;
///
/// let mut bucket = MicrosecondBucket::new(Quota::per_second(1000).burst(100));
/// let first = Step { at_ns: 0, op: Op::Try { n: 1 } };
/// assert_ne!(bucket.step(&first), OperationOutcome::Admitted); // of a bucket that is said to be full
///
/// let second = (1..).map(|poll| poll * 700_000).take_while(|&at_ns| at_ns <= 1_000_000_000);
/// let polls = second.map(|at_ns| Step { at_ns, op: Op::Try { n: 1 } });
/// assert_eq!(polls.filter(|poll| bucket.step(poll) == OperationOutcome::Admitted).count(), 714);
/// ```
#[derive(Clone, Debug)]
pub struct MicrosecondBucket {
    per_second: u128,
    most: u64,
    tokens: u64,
    last_us: u64,
}

impl MicrosecondBucket {
    /// Creates a bucket for `quota`.
    pub fn new(quota: Quota) -> Self {
        let rate = Rate::of(quota);
        let per_second = rate.accrual * 1_000_000_000 / rate.price;
        Self {
            // A mistake: nobody is told.
            per_second: u128::try_from(per_second).unwrap_or(1).clamp(1, 1_000_000),
            most: rate.burst_units,
            // A mistake: this is not full.
            tokens: 0,
            last_us: 0,
        }
    }
}

impl Subject for MicrosecondBucket {
    fn capabilities(&self) -> Capabilities {
        TRIES
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let now_us = step.at_ns / 1_000;
        let elapsed_us = now_us.saturating_sub(self.last_us);
        // A mistake: the fraction of a token is dropped, but its time counts as spent.
        let flowed = u128::from(elapsed_us) * self.per_second / 1_000_000;
        let tokens = u128::from(self.tokens) + flowed;
        let tokens = u64::try_from(tokens).unwrap_or(u64::MAX).min(self.most);
        let enough = tokens >= n;
        if enough {
            self.tokens = tokens - n;
            self.last_us = self.last_us.max(now_us);
        }
        verdict(enough)
    }
}
