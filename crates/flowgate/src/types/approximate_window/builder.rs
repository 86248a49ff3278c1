use super::ApproximateWindow;
use super::engine::Approximate;
use crate::clock::{Clock, Timestamp};
use crate::quota::{Quota, QuotaError};

/// Settings of an [`ApproximateWindow`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`align`](Self::align) | the clock's origin |
///
/// ```
/// use flowgate::{ApproximateWindow, ManualClock, Timestamp};
///
/// let limiter = ApproximateWindow::builder("100/min".parse()?)
///     .clock(ManualClock::new())
///     .align(Timestamp::from_nanos(15_000_000_000)) // a quarter past each minute
///     .build()?;
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct ApproximateWindowBuilder {
    quota: Quota,
    clock: Option<Clock>,
    align_ns: u64,
}

impl ApproximateWindowBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: None,
            align_ns: 0,
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

    /// An instant at which a window begins; others begin before and after it, one length apart.
    ///
    /// What is left over at the clock's origin belongs to the first whole window.
    pub fn align(mut self, at: Timestamp) -> Self {
        self.align_ns = at.as_nanos();
        self
    }

    /// The limiter.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the quota sets a burst, or its count is over 16,777,215 units.
    pub fn build(self) -> Result<ApproximateWindow, QuotaError> {
        let engine = Approximate::new(self.quota, self.align_ns)?;
        let clock = self.clock.unwrap_or_default();
        Ok(ApproximateWindow::over(engine, clock))
    }
}
