use super::engine::Approximate;
use crate::clock::Timestamp;
use crate::limiter::builder::Builder;

/// Settings of an [`ApproximateWindow`](crate::ApproximateWindow) other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`](crate::Clock::system) |
/// | [`align`](ApproximateWindowBuilder::align) | the clock's origin |
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
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`](crate::QuotaError) if the quota sets a burst, or its count is over 16,777,215 units.
pub type ApproximateWindowBuilder = Builder<Approximate>;

impl ApproximateWindowBuilder {
    /// Sets a time at which a window begins (default: the clock's origin).
    ///
    /// Other windows begin before and after it, one length apart. The rest of time between the clock's origin and the first of
    /// these beginnings belongs to the first whole window.
    pub fn align(self, at: Timestamp) -> Self {
        self.set(|settings| settings.align_ns = at.as_nanos())
    }
}
