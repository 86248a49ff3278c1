//! The state of a [`Throttle`](super::Throttle): a word for the share, a sum of shares, and a ring of counts.
//!
//! ```text
//!  127                            64 63            33 32                   0
//! ┌─────────────────────────────────┬────────────────┬──────────────────────┐
//! │ judged                          │ 0              │ share                │   standing
//! └─────────────────────────────────┴────────────────┴──────────────────────┘
//! ```
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `standing` | every thread | the first thread in a bucket (CAS) | its contents; `judged` only grows |
//! | `sum` | nothing else | requests at a share below the whole | one addition |
//! | `outcomes` | judgments, reports | outcomes, and requests that are not sent (CAS) | the bucket's number |
//!
//! An outcome counts in the bucket in which it becomes known. If a thread is suspended between reading the clock and its
//! compare-and-swap, the outcome counts one judgment late, or after a whole window not at all.

use super::share::{Rules, WHOLE, is_sent};
use crate::primitive::{AtomicU64, Ordering};
use crate::store::judged::{self, Judged};
use crate::store::ring::buckets::Buckets;

/// The share, and the bucket at whose beginning it was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) judged: u64,
    pub(super) share: u64,
}

impl judged::Standing for Standing {
    fn pack(self) -> u128 {
        (self.judged as u128) << 64 | self.share as u128
    }

    fn unpack(word: u128) -> Self {
        Self {
            judged: (word >> 64) as u64,
            share: word as u64,
        }
    }

    fn judged(self) -> u64 {
        self.judged
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Record {
    standing: Judged<Standing>,
    sum: AtomicU64,
    /// In each bucket, the requests whose outcome is known, and of these the accepted ones.
    pub(super) outcomes: Buckets,
}

impl Record {
    pub(super) fn new(rules: &Rules) -> Self {
        let first = Standing {
            judged: 0,
            share: WHOLE,
        };
        Self {
            standing: Judged::new(first),
            sum: AtomicU64::new(0),
            outcomes: Buckets::new(rules.window),
        }
    }

    /// Returns the share at `now_ns`, or at the latest time for which it has been judged, if that is later.
    #[inline]
    pub(super) fn look(&self, rules: &Rules, now_ns: u64) -> Standing {
        let step = |_, judged| Standing {
            judged,
            share: self.share(rules, judged),
        };
        self.standing.at(now_ns, rules.bucket_ns, step)
    }

    /// Returns the share as last judged.
    pub(super) fn standing(&self) -> Standing {
        self.standing.last()
    }

    /// The share by the window before `bucket`, and by its last part.
    fn share(&self, rules: &Rules, bucket: u64) -> u64 {
        let window = self.counts(rules.window, bucket);
        let recent = self.counts(rules.recent, bucket);
        rules.share(window, recent)
    }

    /// Returns the requests and the accepted requests in the last `buckets` before `bucket`.
    pub(super) fn counts(&self, buckets: u64, bucket: u64) -> [u64; 2] {
        self.outcomes.sum(bucket.saturating_sub(buckets)..bucket)
    }

    /// Returns whether the next request at this share is sent.
    #[inline]
    pub(super) fn is_next_sent(&self, share: u64) -> bool {
        // Relaxed: each request has its own place in the sum, and nothing else depends on it.
        share == WHOLE || is_sent(self.sum.fetch_add(share, Ordering::Relaxed), share)
    }

    /// Counts a request whose outcome has become known in `bucket`.
    #[inline]
    pub(super) fn count(&self, bucket: u64, is_accepted: bool) {
        // A bucket that is full (2³² − 1 requests) stays as it is.
        self.outcomes.change(bucket, |[requests, accepted]| {
            Some([requests.checked_add(1)?, accepted + u32::from(is_accepted)])
        });
    }
}
