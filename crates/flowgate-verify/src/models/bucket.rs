//! Token bucket, GCRA, leaky bucket as a meter. The state is the time at which the bucket is full again.

use super::{Decide, GRAIN};
use crate::evidence::Evidence;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Time between two tokens.
    pub(crate) interval: f64,
    pub(crate) burst: f64,
}

impl Bucket {
    /// Returns how far ahead of now the bucket may become full.
    fn tolerance(&self) -> f64 {
        self.interval * self.burst
    }

    /// Counts the admissions that certainly exceeded the available tokens.
    pub(crate) fn over(&self, evidence: &Evidence) -> u64 {
        let mut full_at = f64::NEG_INFINITY;
        let mut over = 0;
        for span in &evidence.surely {
            full_at = full_at.max(span.from) + self.interval;
            let most = span.to + self.tolerance();
            if full_at > most + GRAIN {
                over += 1;
                full_at = most;
            }
        }
        over
    }

    /// Passes to `each` whether a refusal can be right: no token was certainly available.
    pub(crate) fn judge_refusals(&self, evidence: &Evidence, each: impl FnMut(bool)) {
        let mut full_at = f64::NEG_INFINITY;
        evidence.judge_refusals(
            &mut full_at,
            |full_at, span| {
                let next = full_at.max(span.to) + self.interval;
                *full_at = next.min(span.to + self.tolerance());
            },
            |full_at, span| full_at + self.interval > span.from + self.tolerance() - GRAIN,
            each,
        );
    }

    pub(crate) fn start(self) -> Decide {
        let mut full_at = f64::NEG_INFINITY;
        Box::new(move |now| {
            let next = full_at.max(now) + self.interval;
            let admits = next <= now + self.tolerance() + GRAIN;
            if admits {
                full_at = next;
            }
            admits
        })
    }
}
