//! [`Sometimes`]: says which of many calls are worth acting on.

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

/// Lets some of many calls speak, the first few, every n-th, one per interval, and **counts the others
/// without losing one**: log lines, samples, warnings.
///
/// What is set adds up: a call speaks if *any* of the settings picks it. The very first speaks always.
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
/// Source: `Sometimes` of `golang.org/x/time/rate`, which picks the same calls. It runs the
/// function under a lock, so that a call from inside deadlocks, and does not count what it leaves out.
///
/// # What it promises
///
/// - Calls are numbered in the order of one atomic counter; those that `first` and `every` pick speak, on
///   every schedule.
/// - No call speaks because of the interval within it of another that had spoken, whatever the reason. By a clock that
///   runs backward, calls are silent for longer and never speak more often.
/// - Counts are exact: what the speaking calls are told, and what [`suppressed`](Self::suppressed) still
///   holds, add up to the silent calls. A silent call is told to one that speaks after it, or to one that speaks
///   at the same time.
///
/// # Cost
///
/// No lock, no memory. The clock is read only where an interval is set. A silent call is one or two
/// atomic additions.
///
/// # In a static, and by callsite
///
/// Everything but a clock of your own is `const`. [`sometimes!`](crate::sometimes!) makes a static where it
/// stands. For one per *value*, see [`SometimesBy`].
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
    /// Nothing set: only the first call speaks.
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

    /// Counts a call. If it is one that speaks, says how many calls were silent since the last that spoke.
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

    /// Counts a call, and runs `speak` if it is one that speaks, with how many were silent since the last.
    ///
    /// No lock is held meanwhile: `speak` may take as long as it likes, and call this again. If it panics,
    /// the call has spoken.
    #[inline]
    pub fn run<R>(&self, speak: impl FnOnce(u64) -> R) -> Option<R> {
        self.check().map(speak)
    }

    /// Silent calls that no call has been told of yet: what to say at the very end.
    pub fn suppressed(&self) -> u64 {
        self.tally.silent()
    }

    /// The same verbs at a time of your own.
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

/// The first call speaks, and no other.
#[cfg(not(flowgate_loom))]
impl Default for Sometimes {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl At<'_, Sometimes> {
    /// [`Sometimes::check`].
    pub fn check(self) -> Option<u64> {
        let sometimes = self.limiter;
        sometimes
            .tally
            .check(sometimes.settings.policy(), || self.now_ns)
    }

    /// [`Sometimes::run`].
    pub fn run<R>(self, speak: impl FnOnce(u64) -> R) -> Option<R> {
        self.check().map(speak)
    }
}

/// A [`Sometimes`](crate::Sometimes) of its own for the place where it stands.
///
/// The settings are those of [`SometimesBuilder`](crate::SometimesBuilder), with values that are constant. The
/// result is a `&'static Sometimes`.
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
        // A static's name is seen by the values too, so it is one that nobody else has.
        static __FLOWGATE_SOMETIMES: $crate::Sometimes =
            $crate::Sometimes::builder()$(.$setting($value))*.build();
        &__FLOWGATE_SOMETIMES
    }};
}
