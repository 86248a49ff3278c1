//! [`Sometimes`]: picks the calls that are worth acting on.

mod builder;
mod by_value;
#[cfg(all(test, flowgate_loom))]
mod model;
mod tally;

pub use builder::SometimesBuilder;
pub use by_value::SometimesBy;

use crate::clock::Timestamp;
use crate::limiter::At;
use tally::{Policy, Tally};

/// Sampler that picks some calls and **counts all others**, for log lines and warnings.
///
/// It can pick the first `n` calls, every `n`-th call, and one call per interval. A call is picked if *any* of these settings
/// picks it. The very first call is always picked. The other calls are *suppressed*.
///
/// ```text
///  calls               1 2 3 4 5 6 7 8 9 …
///  first(2)            ● ●
///  every(4)            ●       ●       ●
///  interval(1 s)       ●     │ 1 s later │ ●
///  nothing set         ●
/// ```
///
/// ```
/// use flowgate::Sometimes;
///
/// let sometimes = Sometimes::builder().every(4).build();
/// let told: Vec<_> = (0..9).map(|_| sometimes.check()).collect();
/// assert_eq!(told, [Some(0), None, None, None, Some(3), None, None, None, Some(3)]);
/// ```
///
/// Source: `Sometimes` of `golang.org/x/time/rate`, which picks the same calls. That type runs the function under a lock, so a
/// nested call deadlocks. It does not count the suppressed calls.
///
/// # Guarantees
///
/// - Calls are numbered in the order of one atomic counter. The calls that `first` and `every` pick are picked on every
///   schedule of threads.
/// - The interval setting picks no call less than one interval after another picked call, whatever the reason for that one. If
///   the clock runs backward, calls are suppressed for longer, and never picked more often.
/// - Counts are exact. The numbers that the picked calls return and the number in [`suppressed`](Self::suppressed) add up to
///   the suppressed calls. Each suppressed call is counted by a call that is picked after it or at the same time.
///
/// # Performance
///
/// A call takes no lock and allocates no memory. It reads the clock only if an interval is set. A suppressed call takes one or
/// two atomic additions.
///
/// # Statics and call sites
///
/// Every setting except the clock is `const`. [`sometimes!`](crate::sometimes!) creates a static at the place of the call. For
/// a separate sampler for each *value*, see [`SometimesBy`].
///
/// ```
/// use flowgate::Sometimes;
/// use std::time::Duration;
///
/// static SLOW: Sometimes = Sometimes::builder().interval(Duration::from_secs(10)).build();
/// SLOW.run(|suppressed| eprintln!("slow; {suppressed} more like it were not shown"));
/// ```
#[derive(Debug)]
pub struct Sometimes {
    pub(self) settings: SometimesBuilder,
    pub(self) tally: Tally,
}

impl Sometimes {
    /// Returns a builder without settings: only the first call is picked.
    pub const fn builder() -> SometimesBuilder {
        SometimesBuilder {
            policy: Policy {
                first: 0,
                every: 0,
                interval_ns: 0,
            },
            clock: None,
        }
    }

    /// Counts a call. If the call is picked, returns the number of suppressed calls.
    ///
    /// The number is that of the calls suppressed since the last picked call.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Sometimes};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let second = Duration::from_secs(1);
    /// let sometimes = Sometimes::builder().interval(second).clock(&time).build();
    /// assert_eq!([(); 3].map(|()| sometimes.check()), [Some(0), None, None]);
    /// time.advance(second);
    /// assert_eq!(sometimes.check(), Some(2));
    /// ```
    #[inline]
    pub fn check(&self) -> Option<u64> {
        self.tally
            .check(self.settings.policy(), || self.settings.now_ns())
    }

    /// Counts a call, and runs `speak` if the call is picked.
    ///
    /// `speak` receives the number of calls suppressed since the last picked call. No lock is held, so `speak` may take any
    /// time, and may call this method again. If it panics, the call counts as picked.
    #[inline]
    pub fn run<R>(&self, speak: impl FnOnce(u64) -> R) -> Option<R> {
        self.check().map(speak)
    }

    /// Returns the number of suppressed calls that no picked call has returned yet.
    ///
    /// Report it at the end of the program.
    pub fn suppressed(&self) -> u64 {
        self.tally.silent()
    }

    /// Returns the same methods at an explicit timestamp.
    ///
    /// ```
    /// # use flowgate::{Sometimes, Timestamp};
    /// # use std::time::Duration;
    /// let sometimes = Sometimes::builder().interval(Duration::from_secs(10)).build();
    /// let spoke: Vec<_> = (0..25)
    ///     .filter(|s| sometimes.at(Timestamp::from_nanos(s * 1_000_000_000)).check().is_some())
    ///     .collect();
    /// assert_eq!(spoke, [0, 10, 20]);
    /// ```
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }
}

/// Picks the first call, and no other.
#[cfg(not(flowgate_loom))]
impl Default for Sometimes {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl At<'_, Sometimes> {
    /// Counts a call, as [`Sometimes::check`].
    pub fn check(self) -> Option<u64> {
        let sometimes = self.limiter;
        sometimes
            .tally
            .check(sometimes.settings.policy(), || self.now_ns)
    }

    /// Counts a call, as [`Sometimes::run`].
    pub fn run<R>(self, speak: impl FnOnce(u64) -> R) -> Option<R> {
        self.check().map(speak)
    }
}

/// Creates a static [`Sometimes`](crate::Sometimes) for the place of the call.
///
/// The settings are those of [`SometimesBuilder`](crate::SometimesBuilder), with constant values. The result is a `&'static
/// Sometimes`.
///
/// ```
/// use flowgate::sometimes;
/// use std::time::Duration;
///
/// for attempt in 0..1000 {
///     if let Some(suppressed) = sometimes!(first(3).interval(Duration::from_secs(5))).check() {
///         eprintln!("attempt {attempt} failed ({suppressed} similar not shown)");
///     }
/// }
/// ```
#[macro_export]
macro_rules! sometimes {
    ($($setting:ident($value:expr)).*) => {{
        // The values can see the name of a static, so the name is one that no other code uses.
        static __FLOWGATE_SOMETIMES: $crate::Sometimes =
            $crate::Sometimes::builder()$(.$setting($value))*.build();
        &__FLOWGATE_SOMETIMES
    }};
}
