use super::segments::Segments;
use crate::clock::Clock;
use crate::limiter::builder::{Build, Builder};
use crate::quota::{Quota, QuotaError};

/// Settings of a [`SegmentedWindow`](crate::SegmentedWindow) other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`segments`](SegmentedWindowBuilder::segments) | 10, or 1 per nanosecond of a window that is shorter |
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
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] if the quota sets a burst, which a window does not have; if there are 0 segments, more
/// than 1024, or more than the window has nanoseconds; or if the limit in units is 2⁴⁴ or more divided by the
/// number of segments + 2, rounded up to a power of two: 2⁴⁰ for 10 segments.
///
/// ```
/// # use flowgate::SegmentedWindow;
/// let error = SegmentedWindow::builder("5/s".parse()?).segments(2_000).build().unwrap_err();
/// assert_eq!(error.to_string(), "a number of segments of 2000 is out of range: 1 to 1024");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type SegmentedWindowBuilder = Builder<Segments>;

#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) quota: Quota,
    pub(super) segments: Option<u64>,
}

impl Build for Segments {
    type Settings = Settings;

    fn build(settings: Settings, _: &Clock) -> Result<Self, QuotaError> {
        Self::new(settings.quota, settings.segments)
    }
}

impl SegmentedWindowBuilder {
    /// How many segments a window is divided into, 1 to 1024: the more, the sooner what was admitted stops counting,
    /// and the more memory.
    pub fn segments(self, segments: u64) -> Self {
        self.set(|settings| settings.segments = Some(segments))
    }
}
