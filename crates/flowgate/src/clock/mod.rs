//! What time it is.
//!
//! A limiter owns a [`Clock`]: one cheap, concrete handle that reads nanoseconds since an origin of the
//! clock's own. Production code says nothing and gets [`Clock::system`]; tests hand in a
//! [`ManualClock`] and never sleep.

pub(crate) mod alarm;
mod custom;
mod manual;
#[cfg(feature = "std")]
mod os;
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
pub use timestamp::Timestamp;

use crate::clock::alarm::Alarm;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
#[cfg(feature = "std")]
use core::time::Duration;
use custom::Custom;

/// A source of time: the machine's, a test's, or your own.
///
/// A handle is a few bytes, cheap to clone, and may be shared by any number of limiters; the clones of
/// one handle tell the same time. Instants are [`Timestamp`]s: nanoseconds since the clock's origin,
/// which is the same for all system and OS clocks of a process.
///
/// A clock may stand still, jump, or run backward: no limiter grants anything extra for it.
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
    /// As `System`, with an origin so many nanoseconds before.
    #[cfg(feature = "std")]
    SystemSince(u64),
    #[cfg(feature = "std")]
    Os,
    Manual(ManualClock),
    Custom(Arc<Custom>),
}

/// [`Clock::system`]; without the feature `std`, a [`ManualClock`] that stands at its origin.
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
    /// The machine's monotonic clock, read in the cheapest way that can be trusted.
    ///
    /// With the feature `tsc` (default), on x86-64 Linux, that is the processor's time stamp counter
    /// (about half the cost of asking the OS), provided that the processor says it ticks at a constant rate and the kernel
    /// itself keeps time by it. It is compared with the OS clock every second; should the two ever
    /// differ by more than a millisecond, the process falls back to the OS clock for good. Everywhere
    /// else this is [`Clock::os`].
    ///
    /// On one thread it does not run backward, except when it falls back to the OS clock: then by as long as the counter had leapt
    /// since it was last compared, less than a second. A processor may read the counter a little before the memory
    /// accesses that precede it in the program, so what two threads read may be out of order by as long as
    /// such an access takes, under a microsecond as a rule; limiters take no harm from that.
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

    /// [`Clock::system`] with an origin `ago` before the first reading in the process, so that there are instants before the process
    /// began.
    ///
    /// For windows that [import](crate::RateLimiter::import) what was taken before a restart: with an origin a window ago, all that
    /// still counts leaves the window when it has to. `ago` is at most 292 years; more is cut to that.
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

    /// The operating system's monotonic clock, [`std::time::Instant`].
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

    /// A clock of your own.
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

    /// The time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        // First, and alone inlined: what nearly every limiter runs on.
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

    /// Returns what this clock reads at `instant`; `None` if it does not know.
    ///
    /// [`Clock::system`], [`Clock::system_since`] and [`Clock::os`] know every instant, `Clock::tokio` as tokio does, and a custom clock if its
    /// [source](Source::timestamp_of) does. A [`ManualClock`] knows none: it stands still while real time goes on. An instant
    /// before the clock's origin is the origin.
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

    /// Returns how long it is until this clock reaches `at_ns` for the first time: 0 if it has been there, even if it
    /// was set back since.
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

    /// Has `waker` woken when this clock tells `at` or later; before this returns if it does so already.
    ///
    /// It may be woken too early: look at the clock, and ask again. It may be woken before this returns for want of
    /// somebody to do it later, too ([`Alarm::after`]), so ask with no lock held that the waker takes.
    pub(crate) fn alarm(&self, at: Timestamp, waker: Waker) -> Alarm {
        match &self.0 {
            Kind::Manual(manual) => return manual.alarm(at, waker),
            Kind::Custom(custom) if custom.wake_at(at, &waker) => return Alarm::NOWHERE,
            _ => {}
        }
        // The difference, not the time: it does not matter then how this clock and the alarm's differ. Early by what
        // they drift apart while it lasts, late by what passes between the two readings.
        match at.as_nanos().saturating_sub(self.now().as_nanos()) {
            0 => Alarm::at_once(waker),
            wait_ns => Alarm::after(wait_ns, waker),
        }
    }

    /// Whether both tell the same time.
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

    /// Whether it goes on by itself, so that one can watch it until it gets somewhere.
    pub(crate) fn is_real(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "std")]
            Kind::System | Kind::SystemSince(_) | Kind::Os => true,
            Kind::Manual(_) | Kind::Custom(_) => false,
        }
    }

    /// The time, but never less than any that this clock has told before to whoever's doings are seen here: what a
    /// change of quota is settled at, because accrual that was paid out at the old rate must not be paid again
    /// at the new.
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
