use super::DecayingBucket;
use super::level::Decaying;
use crate::clock::Clock;
use crate::quota::QuotaError;
use core::time::Duration;

/// Settings of a [`DecayingBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// ```
/// use flowgate::{DecayingBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = DecayingBucket::builder(100, Duration::from_secs(1)).clock(&time).build()?;
/// assert_eq!(limiter.take_up_to(1000), 100);
/// time.advance(Duration::from_secs(1));
/// assert_eq!(limiter.available(), 50); // half of it has run out
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct DecayingBucketBuilder {
    capacity: u64,
    half_life: Duration,
    clock: Option<Clock>,
}

impl DecayingBucketBuilder {
    pub(super) fn new(capacity: u64, half_life: Duration) -> Self {
        Self {
            capacity,
            half_life,
            clock: None,
        }
    }

    /// The clock to decide by.
    ///
    /// Without the feature `std` there is no default: a builder without a clock gets a manual one that
    /// stands at the origin.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// The limiter.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the capacity is not 1 to 4,294,967,295, or the half-life not 1 ns to 292 years.
    pub fn build(self) -> Result<DecayingBucket, QuotaError> {
        let engine = Decaying::new(self.capacity, self.half_life)?;
        Ok(DecayingBucket::over(engine, self.clock.unwrap_or_default()))
    }
}
