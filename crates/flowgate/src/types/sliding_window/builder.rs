use super::log::Log;
use crate::clock::Clock;
use crate::limiter::builder::{Build, Builder};
use crate::quota::{Quota, QuotaError};

/// Settings of a [`SlidingWindow`](crate::SlidingWindow) other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`max_limit`](SlidingWindowBuilder::max_limit) | the quota's limit |
///
/// ```
/// use flowgate::{ManualClock, SlidingWindow};
///
/// let limiter = SlidingWindow::builder("100/min".parse()?)
///     .clock(ManualClock::new())
///     .max_limit(1_000)
///     .build()?;
/// assert_eq!(limiter.available(), 100);
/// limiter.set_quota("1000/min".parse()?)?;
/// assert_eq!(limiter.available(), 1_000);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] in these cases:
///
/// - The quota sets a burst. A window has none.
/// - The quota's limit is above `max_limit`.
/// - `max_limit` is over 2²⁶ − 2 units: the ring would take more than 1 GiB.
///
/// ```
/// # use flowgate::SlidingWindow;
/// let error = SlidingWindow::builder("1G/s".parse()?).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a limit of 1000000000 takes 17179869184 bytes to remember; it must be at most 67108862, \
///      which takes 1073741824",
/// );
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type SlidingWindowBuilder = Builder<Log>;

#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) quota: Quota,
    pub(super) max_limit: Option<u64>,
}

impl Build for Log {
    type Settings = Settings;

    fn build(settings: Settings, _: &Clock) -> Result<Self, QuotaError> {
        Self::new(settings.quota, settings.max_limit)
    }
}

impl SlidingWindowBuilder {
    /// Sets the largest limit, in units, that [`set_quota`](crate::SlidingWindow::set_quota) accepts later.
    ///
    /// The limiter takes [memory](crate::SlidingWindow#memory) for this limit when it is built.
    pub fn max_limit(self, units: u64) -> Self {
        self.set(|settings| settings.max_limit = Some(units))
    }
}
