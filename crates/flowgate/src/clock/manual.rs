use super::Timestamp;
use crate::clock::alarm::{Alarm, ManualAlarms};
use crate::primitive::{AtomicU64, Ordering};
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

/// Clock for tests that moves only when told: forward, in jumps, or backward.
///
/// It starts at the origin. Clones are handles on the same clock, so a test keeps one handle and gives the limiter another:
/// `TokenBucket::builder(quota).clock(&time)`.
///
/// [`advance`](Self::advance) and [`set`](Self::set) wake all waiters whose time has come, in the order of their times. They do
/// so after the clock shows the new time, and before they return. A woken task runs when its runtime polls it, and a woken
/// thread when it is scheduled.
///
/// If a waker panics, the method that moved the clock panics, too. The waiters behind it are woken when the clock moves again.
///
/// Moving the clock takes no lock if there are no waiters, so an interrupt handler may move it. If there are waiters, the
/// handler must not interrupt code that uses the clock.
///
/// ```
/// use flowgate::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// time.advance(Duration::from_millis(3));
/// assert_eq!(time.now(), Timestamp::from_nanos(3_000_000));
/// time.set(Timestamp::ORIGIN);
/// assert_eq!(time.now(), Timestamp::ORIGIN);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Hands>);

#[derive(Default)]
struct Hands {
    now_ns: AtomicU64,
    /// The latest value that `now_ns` had before it was set back; raised before `now_ns` is replaced by an earlier one.
    latest_ns: AtomicU64,
    alarms: Arc<ManualAlarms>,
}

impl ManualClock {
    /// Creates a clock that stands at the origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether both are handles on one clock.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.now_ns.load(Ordering::Acquire))
    }

    /// Moves the clock forward, and wakes the waiters whose time has come.
    ///
    /// The clock stops at [`Timestamp::MAX`]. If several threads call this concurrently, the clock moves by the sum.
    ///
    /// ```
    /// # use flowgate::{LeakyBucket, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = LeakyBucket::builder("10/s".parse()?).clock(&time).build()?;
    /// limiter.try_acquire()?;
    /// time.advance(Duration::from_millis(99));
    /// assert!(limiter.try_acquire().is_err());
    /// time.advance(Duration::from_millis(1));
    /// assert!(limiter.try_acquire().is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) {
        self.change(|now| now + by);
    }

    /// Sets the clock to `to`, and wakes the waiters whose time has come.
    ///
    /// `to` may be earlier than now.
    ///
    /// ```
    /// # use flowgate::{LeakyBucket, ManualClock, Timestamp};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = LeakyBucket::builder("10/s".parse()?).clock(&time).build()?;
    /// time.set(Timestamp::from_nanos(5_000_000_000));
    /// limiter.try_acquire()?;
    /// time.set(Timestamp::ORIGIN); // a clock that runs backward gives nothing
    /// assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(Duration::from_millis(5100)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(&self, to: Timestamp) {
        self.change(|_| to);
    }

    /// Returns the earliest time at which a waiter asked to be woken, if any did.
    ///
    /// No waiter is woken before this time, so a simulation may move the clock there in one step.
    ///
    /// ```
    /// # use flowgate::{LeakyBucket, ManualClock};
    /// # use std::pin::pin;
    /// # use std::task::{Context, Waker};
    /// let time = ManualClock::new();
    /// let limiter = LeakyBucket::builder("10/s".parse()?).clock(&time).build()?;
    /// limiter.try_acquire()?;
    /// assert_eq!(time.next_wake(), None);
    ///
    /// let mut wait = pin!(limiter.acquire());
    /// assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    /// let at = time.next_wake().expect("a waiter");
    /// assert_eq!(at.as_nanos(), 100_000_000);
    /// time.set(at);
    /// assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.0.alarms.earliest_ns().map(Timestamp::from_nanos)
    }

    fn change(&self, to: impl Fn(Timestamp) -> Timestamp) {
        let mut now = self.now();
        loop {
            let then = to(now);
            if then < now {
                self.0.latest_ns.fetch_max(now.as_nanos(), Ordering::AcqRel);
            }
            let swapped = self.0.now_ns.compare_exchange_weak(
                now.as_nanos(),
                then.as_nanos(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match swapped {
                Ok(_) => return self.0.alarms.ring(|| self.now().as_nanos()),
                Err(current) => now = Timestamp::from_nanos(current),
            }
        }
    }

    pub(super) fn alarm(&self, at: Timestamp, waker: Waker) -> Alarm {
        let alarms = &self.0.alarms;
        alarms.ask(at.as_nanos(), waker, || self.now().as_nanos())
    }

    /// See [`Clock::move_alarm`](crate::Clock::move_alarm).
    pub(super) fn move_alarm(
        &self,
        alarm: Alarm,
        at: Timestamp,
        waker: impl FnOnce() -> Waker,
    ) -> Alarm {
        let alarms = &self.0.alarms;
        alarms.move_to(alarm, at.as_nanos(), waker, || self.now().as_nanos())
    }

    pub(super) fn latest(&self) -> Timestamp {
        // In this order: a value is stored in the other field before it is replaced here by an earlier one.
        let now_ns = self.0.now_ns.load(Ordering::Acquire);
        Timestamp::from_nanos(now_ns.max(self.0.latest_ns.load(Ordering::Acquire)))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", self.now())
    }
}
