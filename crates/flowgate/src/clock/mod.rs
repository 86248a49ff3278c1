//! Clocks, from which limiters read the time.
//!
//! A limiter owns a [`Clock`]: a cheap, concrete handle that reads nanoseconds since the clock's origin. Production code needs
//! no setting, and gets [`Clock::system`]. Tests pass a [`ManualClock`] and never sleep.

pub(crate) mod alarm;
mod custom;
mod manual;
#[cfg(feature = "std")]
mod os;
mod sleep;
#[cfg(feature = "std")]
mod system;
mod timestamp;
#[cfg(all(feature = "tokio", not(any(flowgate_loom, flowgate_shuttle))))]
mod tokio;
#[cfg(all(
    feature = "tsc",
    target_arch = "x86_64",
    target_os = "linux",
    not(flowgate_loom)
))]
mod tsc;
pub(crate) mod user_code;

pub use custom::Source;
pub use manual::ManualClock;
#[cfg(all(feature = "std", not(target_os = "linux"), not(flowgate_loom)))]
pub(crate) use os::now_ns as os_now_ns;
pub use sleep::Sleep;
pub use timestamp::Timestamp;
pub(crate) use timestamp::saturating_nanos;

/// The setting of a builder with a field `clock: Option<Clock>`, and what the clock is for.
macro_rules! clock_setting {
    ($purpose:literal) => {
        #[doc = concat!("Sets the clock ", $purpose, " (default: [`Clock::system`]).")]
        ///
        /// Without the feature `std` there is no default: a builder without a clock gets a manual clock that stands at the
        /// origin.
        pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
            self.clock = Some(clock.into());
            self
        }
    };
}
pub(crate) use clock_setting;

use crate::clock::alarm::Alarm;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
#[cfg(feature = "std")]
use core::time::Duration;
use custom::Custom;

/// Source of time: the machine's clock, a test's clock, or a custom clock.
///
/// A handle is a few bytes, is cheap to clone, and can be shared by any number of limiters. The clones of one handle show the
/// same time. Instants are [`Timestamp`]s: nanoseconds since the clock's origin. All system and OS clocks of a process have the
/// same origin.
///
/// A clock may stand still, jump, or run backward. No limiter admits more because of that ([safe under clock
/// anomalies, C4](crate::guide::guarantees#safe-under-clock-anomalies-c4)).
///
/// ```
/// use flowgate::{Clock, ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = TokenBucket::builder("1/s".parse()?).clock(&time).build()?;
/// assert!(limiter.try_acquire().is_ok());
/// assert!(limiter.try_acquire().is_err());
/// time.advance(Duration::from_secs(1));
/// assert!(limiter.try_acquire().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    #[cfg(feature = "std")]
    System,
    /// Like `System`, with an origin this number of nanoseconds earlier.
    #[cfg(feature = "std")]
    SystemSince(u64),
    #[cfg(feature = "std")]
    Os,
    Manual(ManualClock),
    Custom(Arc<Custom>),
}

/// Returns [`Clock::system`]. Without the feature `std`, returns a [`ManualClock`] that stands at its origin.
impl Default for Clock {
    #[cfg(feature = "std")]
    fn default() -> Self {
        Self::system()
    }

    #[cfg(not(feature = "std"))]
    fn default() -> Self {
        ManualClock::new().into()
    }
}

impl Clock {
    /// Returns the machine's monotonic clock, read in the cheapest reliable way.
    ///
    /// On x86-64 Linux with the feature `tsc` (default), this is the processor's time stamp counter, which costs less than the
    /// OS clock. It is used if the processor reports that it ticks at a constant rate, and if the kernel itself keeps time by
    /// it. The counter is compared with the OS clock every second. If the two ever differ by more than 1 ms, the process falls
    /// back to the OS clock permanently. On all other machines, this is [`Clock::os`].
    ///
    /// On one thread, the clock does not run backward, with one exception. When the process falls back to the OS clock, the
    /// clock goes back by as much as the counter had leapt since the last comparison, which is less than 1 s.
    ///
    /// A processor may read the counter slightly before earlier memory accesses of the program. So the readings of two threads
    /// may be out of order by the time of such an access, usually under 1 µs. This does no harm to limiters.
    ///
    /// ```
    /// use flowgate::{Clock, TokenBucket};
    ///
    /// static LIMIT: TokenBucket = TokenBucket::new(flowgate::Quota::per_second(100)); // decides by it
    /// let began = Clock::system().now();
    /// LIMIT.try_acquire()?;
    /// println!("{:?}", Clock::system().now().saturating_duration_since(began));
    /// # Ok::<_, flowgate::Denied>(())
    /// ```
    #[cfg(feature = "std")]
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// Returns [`Clock::system`] with its origin moved back by `ago`.
    ///
    /// The origin is `ago` before the first reading in the process. So the clock has instants before the process began.
    ///
    /// Use it for windows that [import](crate::RateLimiter::import) the state from before a restart. If the origin is one
    /// window ago, all imported units leave the window on time. `ago` is at most 292 years; a longer time counts as 292 years.
    ///
    /// ```
    /// use flowgate::{Clock, SlidingWindow};
    /// use std::time::Duration;
    ///
    /// let day = Duration::from_secs(24 * 3600);
    /// let clock = Clock::system_since(day);
    /// let limiter = SlidingWindow::builder("1000/day".parse()?).clock(clock).build()?;
    /// assert!(limiter.clock().now().as_nanos() >= day.as_nanos() as u64);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn system_since(ago: Duration) -> Self {
        let most_ns = u64::MAX / 2;
        Self(Kind::SystemSince(
            u64::try_from(ago.as_nanos()).map_or(most_ns, |ns| ns.min(most_ns)),
        ))
    }

    /// Returns the operating system's monotonic clock, [`std::time::Instant`].
    ///
    /// ```
    /// use flowgate::{Clock, TokenBucket};
    ///
    /// // For a machine whose time stamp counter you do not trust.
    /// let limiter = TokenBucket::builder("100/s".parse()?).clock(Clock::os()).build()?;
    /// limiter.try_acquire()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub const fn os() -> Self {
        Self(Kind::Os)
    }

    /// Returns a clock that reads the time from `source`.
    ///
    /// ```
    /// use flowgate::{Clock, Source, TokenBucket};
    ///
    /// struct Frames(std::sync::atomic::AtomicU64);
    ///
    /// impl Source for Frames {
    ///     fn now_ns(&self) -> u64 {
    ///         self.0.load(std::sync::atomic::Ordering::Relaxed) * 16_666_667 // of a game at 60 per second
    ///     }
    /// }
    ///
    /// let clock = Clock::custom(Frames(0.into()));
    /// let limiter = TokenBucket::builder("5/s".parse()?).clock(clock).build()?;
    /// limiter.try_acquire()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn custom(source: impl Source + 'static) -> Self {
        Self(Kind::Custom(Arc::new(Custom::new(source))))
    }

    /// Returns the time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        // First, and the only branch that is inlined: nearly every limiter uses it.
        #[cfg(feature = "std")]
        if let Kind::System = self.0 {
            return Timestamp::from_nanos(system::now_ns());
        }
        self.now_elsewhere()
    }

    #[inline(never)]
    fn now_elsewhere(&self) -> Timestamp {
        match &self.0 {
            #[cfg(feature = "std")]
            Kind::System => Timestamp::from_nanos(system::now_ns()),
            #[cfg(feature = "std")]
            Kind::SystemSince(ago_ns) => Timestamp::from_nanos(system::now_ns() + ago_ns),
            #[cfg(feature = "std")]
            Kind::Os => Timestamp::from_nanos(os::now_ns()),
            Kind::Manual(manual) => manual.now(),
            Kind::Custom(custom) => custom.now(),
        }
    }

    /// Returns what this clock reads at `instant`; `None` if that is unknown.
    ///
    /// - [`Clock::system`], [`Clock::system_since`] and [`Clock::os`] convert every instant.
    /// - `Clock::tokio` converts instants as tokio does.
    /// - A custom clock converts an instant if its [source](Source::timestamp_of) does.
    /// - A [`ManualClock`] converts none, because it stands still while real time goes on.
    ///
    /// An instant before the clock's origin counts as the origin.
    ///
    /// ```
    /// use flowgate::{Clock, ManualClock};
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// let timestamp = Clock::system().timestamp_of(deadline).expect("this clock knows every instant");
    /// assert!(timestamp > Clock::system().now());
    /// assert_eq!(Clock::from(ManualClock::new()).timestamp_of(deadline), None);
    /// ```
    #[cfg(feature = "std")]
    pub fn timestamp_of(&self, instant: std::time::Instant) -> Option<Timestamp> {
        match &self.0 {
            Kind::System | Kind::Os => Some(Timestamp::from_nanos(os::ns_at(instant))),
            Kind::SystemSince(ago_ns) => {
                let shifted = instant.checked_add(core::time::Duration::from_nanos(*ago_ns))?;
                Some(Timestamp::from_nanos(os::ns_at(shifted)))
            }
            Kind::Manual(_) => None,
            Kind::Custom(custom) => custom.timestamp_of(instant),
        }
    }

    /// Returns the time until this clock reaches `at_ns` for the first time: 0 if the clock has been there, even if it was set
    /// back since.
    #[inline]
    pub(crate) fn ns_until(&self, at_ns: u64) -> u64 {
        // As in `now`. A real clock is not set back.
        #[cfg(feature = "std")]
        if let Kind::System = self.0 {
            return at_ns.saturating_sub(system::now_ns());
        }
        self.ns_until_elsewhere(at_ns)
    }

    #[inline(never)]
    fn ns_until_elsewhere(&self, at_ns: u64) -> u64 {
        let now_ns = self.now().as_nanos();
        if !self.is_real() && self.latest().as_nanos() >= at_ns {
            return 0;
        }
        at_ns.saturating_sub(now_ns)
    }

    /// Requests that `waker` is woken when this clock shows `at` or later. If the clock shows so already, wakes it before
    /// returning.
    ///
    /// The waker may be woken too early, so read the clock and ask again. If there is no thread to wake it later, it may be
    /// woken before this method returns ([`Alarm::after`]). So hold no lock that the waker takes.
    pub(crate) fn alarm(&self, at: Timestamp, waker: Waker) -> Alarm {
        match &self.0 {
            Kind::Manual(manual) => return manual.alarm(at, waker),
            Kind::Custom(custom) if custom.wake_at(at, &waker) => return Alarm::NOWHERE,
            _ => {}
        }
        // Uses the difference and not the time, so a constant difference between this clock and the alarm's clock does not
        // matter. The wake-up is early by what the clocks drift apart during the wait, and late by the time between the two
        // readings.
        match at.as_nanos().saturating_sub(self.now().as_nanos()) {
            0 => Alarm::at_once(waker),
            wait_ns => Alarm::after(wait_ns, waker),
        }
    }

    /// Returns an [`alarm`](Self::alarm) at `at`, in place of `alarm`, which wakes the same waiter. If `alarm` is still to come, it
    /// is moved, and needs no other waker.
    pub(crate) fn move_alarm(
        &self,
        alarm: Alarm,
        at: Timestamp,
        waker: impl FnOnce() -> Waker,
    ) -> Alarm {
        match &self.0 {
            Kind::Manual(manual) => manual.move_alarm(alarm, at, waker),
            _ => self.alarm(at, waker()),
        }
    }

    /// Returns whether both show the same time.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            #[cfg(feature = "std")]
            (Kind::System, Kind::System) | (Kind::Os, Kind::Os) => true,
            #[cfg(feature = "std")]
            (Kind::SystemSince(one), Kind::SystemSince(other)) => one == other,
            (Kind::Manual(one), Kind::Manual(other)) => one.is(other),
            (Kind::Custom(one), Kind::Custom(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns whether the clock moves by itself, so that a waiter can watch it until it reaches a time.
    pub(crate) fn is_real(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "std")]
            Kind::System | Kind::SystemSince(_) | Kind::Os => true,
            Kind::Manual(_) | Kind::Custom(_) => false,
        }
    }

    /// Returns the time, but never less than a time that this clock has returned before to a thread whose actions are visible
    /// here. A change of quota is settled at this time, because tokens that were credited at the old rate must not be credited
    /// again at the new one.
    pub(crate) fn latest(&self) -> Timestamp {
        match &self.0 {
            Kind::Manual(manual) => manual.latest(),
            Kind::Custom(custom) => custom.latest(),
            #[cfg(feature = "std")]
            Kind::System => Timestamp::from_nanos(system::now_ns_in_order()),
            #[cfg(feature = "std")]
            Kind::SystemSince(ago_ns) => Timestamp::from_nanos(system::now_ns_in_order() + ago_ns),
            #[cfg(feature = "std")]
            Kind::Os => self.now(),
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self(Kind::Manual(manual))
    }
}

impl From<&ManualClock> for Clock {
    fn from(manual: &ManualClock) -> Self {
        manual.clone().into()
    }
}

impl From<&Clock> for Clock {
    fn from(clock: &Clock) -> Self {
        clock.clone()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            #[cfg(feature = "std")]
            Kind::System => "System",
            #[cfg(feature = "std")]
            Kind::SystemSince(_) => "SystemSince",
            #[cfg(feature = "std")]
            Kind::Os => "Os",
            Kind::Manual(_) => "Manual",
            Kind::Custom(_) => "Custom",
        };
        write!(f, "Clock::{name}({:?})", self.now())
    }
}
