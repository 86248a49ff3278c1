use flowgate::{Carry, Clock, Denied, ImmediateLimit, Quota, QuotaError, TokenBucket};
use std::fmt;

/// A token bucket with the quota that the program gave, or a limit that the program gave.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(crate) enum Limit {
    Own(TokenBucket),
    Given(Box<dyn ImmediateLimit>),
}

impl Limit {
    pub(crate) fn of(quota: Quota) -> Self {
        Self::Own(TokenBucket::new(quota))
    }

    pub(crate) fn with_clock(quota: Quota, clock: impl Into<Clock>) -> Result<Self, QuotaError> {
        Ok(Self::Own(TokenBucket::builder(quota).clock(clock).build()?))
    }

    pub(crate) fn given(limit: impl ImmediateLimit + 'static) -> Self {
        Self::Given(Box::new(limit))
    }

    pub(crate) fn try_acquire(&self) -> Result<(), Denied> {
        match self {
            Self::Own(bucket) => bucket.try_acquire(),
            Self::Given(limit) => limit.decide(),
        }
    }

    pub(crate) fn quota(&self) -> Option<Quota> {
        match self {
            Self::Own(bucket) => Some(bucket.quota()),
            Self::Given(limit) => limit.current_quota(),
        }
    }

    /// Tokens of its own bucket are kept.
    pub(crate) fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        match self {
            Self::Own(bucket) => {
                bucket.set_quota_with(quota, Carry::Kept);
                Ok(())
            }
            Self::Given(limit) => limit.replace_quota(quota),
        }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(bucket) => bucket.fmt(f),
            Self::Given(limit) => f
                .debug_struct("ImmediateLimit")
                .field("quota", &limit.current_quota())
                .finish_non_exhaustive(),
        }
    }
}
