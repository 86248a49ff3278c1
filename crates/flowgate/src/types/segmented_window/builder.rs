use super::SegmentedWindow;
use super::segments::Segments;
use crate::clock::Clock;
use crate::quota::{Quota, QuotaError};

/// Settings of a [`SegmentedWindow`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`segments`](Self::segments) | 10, or 1 per nanosecond of a window that is shorter |
///
/// ```
/// use flowgate::{ManualClock, SegmentedWindow};
/// use std::time::Duration;
///
/// let limiter = SegmentedWindow::builder("100/min".parse()?)
///     .clock(ManualClock::new())
///     .segments(60)
///     .build()?;
/// assert_eq!(limiter.segment(), Duration::from_secs(1));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct SegmentedWindowBuilder {
    quota: Quota,
    clock: Option<Clock>,
    segments: Option<u64>,
}

impl SegmentedWindowBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: None,
            segments: None,
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

    /// How many segments a window is divided into, 1 to 1024: the more, the sooner what was admitted stops counting,
    /// and the more memory.
    pub fn segments(mut self, segments: u64) -> Self {
        self.segments = Some(segments);
        self
    }

    /// The limiter.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the quota sets a burst, which a window does not have; if there are 0 segments, more
    /// than 1024, or more than the window has nanoseconds; or if the limit in units is 2⁴⁴ or more divided by the
    /// number of segments + 2, rounded up to a power of two: 2⁴⁰ for 10 segments.
    ///
    /// ```
    /// # use flowgate::SegmentedWindow;
    /// let error = SegmentedWindow::builder("5/s".parse()?).segments(2_000).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a number of segments of 2000 is out of range: 1 to 1024");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn build(self) -> Result<SegmentedWindow, QuotaError> {
        let engine = Segments::new(self.quota, self.segments)?;
        Ok(SegmentedWindow::over(
            engine,
            self.clock.unwrap_or_default(),
        ))
    }
}
