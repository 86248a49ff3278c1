use super::{Settings, Windows};
use crate::clock::{Clock, Timestamp};
use crate::limiter::builder::{Build, Builder};
use crate::quota::{Quota, QuotaError};
use crate::types::fixed_window::alignment::Alignment;

/// Settings of a [`FixedWindow`](crate::FixedWindow) other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`align`](FixedWindowBuilder::align), [`align_to_wall`](FixedWindowBuilder::align_to_wall) | the first operation begins a window |
/// | [`clock_free`](FixedWindowBuilder::clock_free) | no |
///
/// ```
/// use flowgate::{FixedWindow, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = FixedWindow::builder("3/min".parse()?)
///     .clock(&time)
///     .align(Timestamp::from_nanos(10_000_000_000)) // at ten seconds past, of every minute
///     .build()?;
/// assert_eq!(limiter.take_up_to(9), 3);
/// time.advance(Duration::from_secs(10));
/// assert_eq!(limiter.take_up_to(9), 3);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] if the quota sets a burst, or the limit is 2⁴⁸ or more.
pub type FixedWindowBuilder = Builder<Windows>;

#[derive(Clone, Debug)]
pub struct BuilderSettings {
    pub(super) quota: Quota,
    pub(super) alignment: Alignment,
    pub(super) clock_free: bool,
}

impl Build for Windows {
    type Settings = BuilderSettings;

    fn build(built: BuilderSettings, clock: &Clock) -> Result<Self, QuotaError> {
        let settings = Settings::new(built.quota, built.alignment.begins_ns(clock));
        Self::new(settings, built.clock_free)
    }
}

impl FixedWindowBuilder {
    /// Aligns windows, so that one begins at `begins` and the others one period apart.
    ///
    /// Windows begin at these times whether there are operations or not.
    ///
    /// ```
    /// use flowgate::{FixedWindow, ManualClock, Timestamp};
    ///
    /// let second = 1_000_000_000;
    /// let limiter = FixedWindow::builder("2/min".parse()?)
    ///     .clock(ManualClock::new())
    ///     .align(Timestamp::from_nanos(30 * second))
    ///     .build()?;
    /// limiter.at(Timestamp::from_nanos(29 * second)).try_acquire_n(2)?;
    /// limiter.at(Timestamp::from_nanos(30 * second)).try_acquire_n(2)?;
    /// assert!(limiter.at(Timestamp::from_nanos(89 * second)).try_acquire().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn align(self, begins: Timestamp) -> Self {
        self.set(|settings| settings.alignment = Alignment::To(begins))
    }

    /// Aligns windows to the wall clock, such as to midnight.
    ///
    /// `utc_offset_s` is the offset of the wall clock, in seconds east of UTC. A window begins whenever that clock shows a
    /// whole number of windows since midnight of 1970-01-01: at the full minute, at the full hour, at midnight. A window of a
    /// week therefore begins on a Thursday.
    ///
    /// The wall clock is read when the limiter is built. After that, only
    /// [`FixedWindow::align_to_wall`](crate::FixedWindow::align_to_wall) reads it. Windows follow the limiter's own clock,
    /// whatever the wall clock does.
    ///
    /// ```
    /// # use flowgate::FixedWindow;
    /// # use std::time::Duration;
    /// // A thousand a day, anew at midnight in Zurich in winter.
    /// let daily = FixedWindow::builder("1000/day".parse()?).align_to_wall(3600).build()?;
    /// daily.try_acquire()?;
    /// assert!(daily.snapshot().reset_after <= Duration::from_secs(24 * 3600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn align_to_wall(self, utc_offset_s: i32) -> Self {
        self.set(|settings| settings.alignment = Alignment::ToWall { utc_offset_s })
    }

    /// Does not read the clock until the window is full.
    ///
    /// An operation is counted in the window that was opened last, as long as that window has room, even if it is over. Only if
    /// that window is full, the limiter reads the clock, and opens another window if it is time.
    ///
    /// Each window still admits at most the limit, and windows still begin at least a period apart. So the bound is the same:
    /// `2 × limit − 1` in an interval as long as a window. But units that a window did not use can be used later. Aligned
    /// windows may begin less than a period after they are opened, so up to `3 × limit − 1` can be admitted in such an
    /// interval.
    ///
    /// The clock is always read by the methods that report, by the methods of [`at`](crate::FixedWindow::at), and by callers
    /// that [wait](crate::FixedWindow::acquire).
    ///
    /// ```
    /// # use flowgate::{FixedWindow, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = FixedWindow::builder("3/s".parse()?).clock(&time).clock_free().build()?;
    /// limiter.try_acquire()?;
    /// time.advance(Duration::from_secs(5));
    /// limiter.try_acquire_n(2)?; // counted in the first window still, without a look at the clock
    /// limiter.try_acquire_n(3)?; // no room in that one: the next
    /// assert!(limiter.try_acquire().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock_free(self) -> Self {
        self.set(|settings| settings.clock_free = true)
    }
}
