//! The limit of one callsite.

use flowgate::{Carry, Clock, Denied, ImmediateLimit, Quota, TokenBucket};
use std::sync::Arc;

/// A token bucket with the filter's quota, or a limit that the program gave.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(super) enum Limit {
    Own(TokenBucket),
    Given(Arc<dyn ImmediateLimit>),
}

impl Limit {
    pub(super) fn own(quota: Quota, clock: &Clock) -> Self {
        let bucket = TokenBucket::builder(quota).clock(clock).build();
        // With no other setting there is no error.
        Self::Own(bucket.unwrap_or_else(|_| TokenBucket::new(quota)))
    }

    pub(super) fn try_acquire(&self) -> Result<(), Denied> {
        match self {
            Self::Own(bucket) => bucket.try_acquire(),
            Self::Given(limit) => limit.decide(),
        }
    }

    /// Replaces the filter's quota. The program changes the quota of its own limits.
    pub(super) fn set_quota(&self, quota: Quota) {
        if let Self::Own(bucket) = self {
            bucket.set_quota_with(quota, Carry::Kept);
        }
    }
}
