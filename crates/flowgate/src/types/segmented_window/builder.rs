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
/// [`build`](Builder::build) returns [`QuotaError`] in these cases:
///
/// - The quota sets a burst. A window has none.
/// - There are 0 segments, more than 1024, or more than the window has nanoseconds.
/// - The limit in units is at least 2⁴⁴ / *r*, where *r* is the number of segments + 2, rounded up to a power of two. For 10
///   segments, that is 2⁴⁰.
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
    /// Sets how many segments a window is divided into, 1 to 1024.
    ///
    /// With more segments, admissions stop counting sooner, and the limiter takes more memory.
    pub fn segments(self, segments: u64) -> Self {
        self.set(|settings| settings.segments = Some(segments))
    }
}
