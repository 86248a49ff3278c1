//! [`FixedWindow`]: the public face over [`algorithm::fixed_window`](crate::algorithm::fixed_window).

pub(crate) mod alignment;
mod builder;
mod change;
mod engine;
mod give_back;
mod state;
#[cfg(feature = "std")]
mod wall;

use alignment::Alignment;
pub use builder::FixedWindowBuilder;

use crate::clock::Timestamp;
use crate::limiter::RateLimiter;
use crate::limiter::builder::Builder;
use crate::primitive::{Lazy, Lock};
use crate::quota::{Quota, QuotaError};
use crate::store::word::{self, Parameters, Word};
use alloc::boxed::Box;

/// The largest limit: what fits beside an instant of the whole clock in 128 bits.
const MAX_LIMIT: u64 = (1 << 48) - 1;

/// At most **limit in each window**, one window after the other.
///
/// The count starts again with every window. This is the weakest guarantee of all windows, and the cheapest to keep and to
/// explain: "1000 per day, midnight to midnight". If the limit has to hold in *every* interval, use a sliding window.
///
/// ```text
///  count
///  limit ┤      ╭──────────╮     ╭──     refused from here until the window is over
///        │   ╭──╯          │   ╭─╯
///        │ ╭─╯             │ ╭─╯
///      0 ┤─╯               ╰─╯
///        └─┬───────────────┬─┬──────────▶ time
///          1st operation   end 1st of the next
/// ```
///
/// A window begins with the first operation that is admitted while no window is open, and lasts for the quota's period. With
/// [`align`](FixedWindowBuilder::align) and [`align_to_wall`](FixedWindowBuilder::align_to_wall), windows follow each other
/// without a gap, from a given time or by the calendar.
///
/// ```
/// use flowgate::{FixedWindow, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: FixedWindow::new(quota)
/// let limiter = FixedWindow::builder("3/min".parse()?).clock(&time).build()?;
///
/// time.advance(Duration::from_secs(10));
/// assert_eq!(limiter.take_up_to(5), 3);
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(60)));
/// time.advance(Duration::from_secs(60));
/// assert_eq!(limiter.available(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![FixedWindow: 20 in each second, 40 around a boundary][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). In each window, the limiter admits at most the limit, on every schedule of threads: the
///   beginning of a window and its count change together. A refused operation is not counted and opens no window. An interval
///   as long as a window can lie across two windows. It then holds up to `2 × limit − 1` operations, or `2 × limit` if windows
///   are aligned.
/// - **Never refuses needlessly** (C2). A refusal means that the window is full.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the time until the window ends, to the
///   nanosecond.
/// - **Safe under clock anomalies** (C4). A `now` from before the window is counted in it, and opens no other. A `now` from
///   before the last change of quota is admitted only if both quotas admit it: the quota before the change at `now`, and the
///   current quota at the change. A `now` from before the previous change is refused until that change.
/// - **Sound refunds** (C5). Units that were counted in the newest window come back, with one exception. If a waiter gives up
///   the grant that opened a window while later operations stay counted, one unit stays counted until the window ends.
///   Otherwise an interval of one window could admit `2 × limit`. Aligned windows have no such exception.
///
/// # Quota
///
/// The count is the limit, up to 2⁴⁸ − 1 in units, and the period is the window. A quota that sets a burst is refused: a window
/// has none.
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on 64 bits. It takes no lock and allocates nothing. The
/// compare-and-swap has 128 bits in two cases:
///
/// - The window, in ns, times the least power of two above the limit is over 2⁵³ (1000 per 2.4 hours).
/// - The limit is 2²⁴ or more.
///
/// With [`clock_free`](FixedWindowBuilder::clock_free), the limiter does not read the clock while the window is not full.
/// [`is_lock_free`](RateLimiter::is_lock_free) reports whether the target has a 128-bit compare-and-swap.
///
/// # Refunds
///
/// [`refund`](RateLimiter::refund) returns units that were counted in the open window, the newest first. Units of an earlier
/// window do not come back.
///
/// # Changing the quota
///
/// [`set_quota`](RateLimiter::set_quota) keeps the count of the open window, so that no window admits more than the larger of
/// the limits. The count stays
///
/// - until the window has lasted for the new period;
/// - if windows are aligned, until the first beginning of a new window after the open one has lasted for the shorter of the two
///   periods (less 1/1000 of it, at most 1 s).
///
/// If the new quota divides a token into another number of units, the count is converted to them, and rounded up.
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/fixed-window.md"))]
pub type FixedWindow = RateLimiter<Windows>;

/// Windows one after the other. The open one has a count.
#[derive(Debug)]
#[repr(C)]
pub struct Windows {
    /// First, so that the word and the parameters that most decisions use share a cache line.
    pub(crate) word: Word<word::FixedWindow>,
    clock_free: bool,
    /// The quota until `settings` are made, which then start with it.
    first_quota: Quota,
    /// See [`settings`](Self::settings).
    settings: Lazy<Box<Lock<Settings>>>,
}

/// The settings from which the current parameters were made.
#[derive(Clone, Copy, Debug)]
struct Settings {
    quota: Quota,
    /// An instant, perhaps before the clock's origin, at which a window begins, if windows are aligned.
    begins_ns: Option<i128>,
    /// The last window that a change has kept beyond its scheduled end.
    kept: Option<Kept>,
    /// When tokens were last divided into other units.
    rescaled_ns: Option<u64>,
    /// The end of the window in which one unit stays counted in place of the first operation
    /// ([`Windows::uncount`]).
    stands_in_ns: Option<u128>,
}

/// A window that does not end one period after its beginning.
#[derive(Clone, Copy, Debug)]
struct Kept {
    end_ns: u128,
    /// It may be before the clock's origin, if windows are aligned.
    began_ns: i128,
}

impl Windows {
    fn new(settings: Settings, clock_free: bool) -> Result<Self, QuotaError> {
        let (limit, window_ns) = change::limit_of(&settings.quota)?;
        let parameters = settings.parameters(limit, window_ns, count_bits(limit));
        let windows = Self {
            word: Word::built(parameters, 0),
            clock_free,
            first_quota: settings.quota,
            settings: Lazy::new(),
        };
        if settings.begins_ns.is_some() {
            let make = || Box::new(Lock::new(settings));
            windows.settings.get_or_make(make);
        }
        Ok(windows)
    }

    /// Returns the settings that only few windows need. They are made when windows are aligned, when units first come back, or
    /// when the quota is first changed.
    fn settings(&self) -> &Lock<Settings> {
        let make = || Box::new(Lock::new(Settings::new(self.first_quota, None)));
        self.settings.get_or_make(make)
    }

    /// The last window that a change has kept beyond its scheduled end.
    fn kept(&self) -> Option<Kept> {
        self.settings.get()?.lock().kept
    }
}

impl Settings {
    const fn new(quota: Quota, begins_ns: Option<i128>) -> Self {
        Self {
            quota,
            begins_ns,
            kept: None,
            rescaled_ns: None,
            stands_in_ns: None,
        }
    }

    fn parameters(&self, limit: u64, window_ns: u64, count_bits: u32) -> Parameters {
        // Less than a window.
        let grid_ns = self
            .begins_ns
            .map(|ns| ns.rem_euclid(i128::from(window_ns)) as u64);
        Parameters::for_window(limit, self.quota.scale(), window_ns, grid_ns, count_bits)
    }
}

/// The binary digits of a count up to `most`.
const fn count_bits(most: u64) -> u32 {
    u64::BITS - most.leading_zeros()
}

impl FixedWindow {
    /// Creates a limiter on [`Clock::system`](crate::Clock::system), with a window that begins with the first operation.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the quota sets a burst, or the limit is 2⁴⁸ or more.
    #[cfg(feature = "std")]
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::builder(quota).build()
    }

    /// Returns a builder, for another clock, aligned windows, or the clock-free form.
    pub fn builder(quota: Quota) -> FixedWindowBuilder {
        Builder::new(builder::BuilderSettings {
            quota,
            alignment: Alignment::Free,
            clock_free: false,
        })
    }

    /// Aligns windows, so that one begins at `begins` and the others one period apart.
    ///
    /// The count of the last window stays until the first such beginning after the window has lasted for its period, less
    /// 1/1000 of it, at most 1 s. So a window is neither opened twice, nor postponed by aligning again and again.
    ///
    /// ```
    /// # use flowgate::{FixedWindow, ManualClock, Timestamp};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = FixedWindow::builder("10/h".parse()?).clock(&time).build()?;
    /// limiter.try_acquire_n(10)?;
    /// limiter.align(Timestamp::from_nanos(1_800_000_000_000)); // at half past
    /// assert_eq!(limiter.snapshot().reset_after, Duration::from_secs(5400));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn align(&self, begins: Timestamp) {
        self.align_to(i128::from(begins.as_nanos()));
    }

    fn align_to(&self, begins_ns: i128) {
        let change = |settings| Settings {
            begins_ns: Some(begins_ns),
            ..settings
        };
        let _change = self.queue.reconfigure(self);
        // The quota has been accepted before.
        let _ = self
            .engine
            .change(change, || self.clock.latest().as_nanos());
    }
}
