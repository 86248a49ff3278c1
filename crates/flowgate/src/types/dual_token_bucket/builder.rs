use super::DualTokenBucket;
use super::engine::Dual;
use crate::clock::Clock;
use crate::quota::Quotas;

/// Settings of a [`DualTokenBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
///
/// ```
/// use flowgate::{DualTokenBucket, ManualClock};
///
/// let time = ManualClock::new();
/// let limiter = DualTokenBucket::builder("2/s; 3/min".parse()?).clock(&time).build();
/// assert_eq!(limiter.take_up_to(10), 2);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct DualTokenBucketBuilder {
    quotas: Quotas,
    clock: Option<Clock>,
}

impl DualTokenBucketBuilder {
    pub(super) fn new(quotas: Quotas) -> Self {
        Self {
            quotas,
            clock: None,
        }
    }

    /// Sets the clock to decide by.
    ///
    /// Without the feature `std` there is no default: a builder without a clock gets a manual one that
    /// stands at the origin.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// Builds the limiter, with both buckets full. Every [`Quotas`] is accepted.
    pub fn build(self) -> DualTokenBucket {
        let clock = self.clock.unwrap_or_default();
        DualTokenBucket::over(Dual::new(self.quotas), clock)
    }
}
