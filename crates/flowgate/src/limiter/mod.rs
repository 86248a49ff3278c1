//! [`RateLimiter`]: all methods of a rate limiter, implemented once over an engine, a clock and a queue.

mod acquire;
mod any;
mod at;
pub(crate) mod builder;
pub(crate) mod engine;
pub(crate) mod reservation;
mod snapshot;
pub(crate) mod state;
mod supply;

pub use any::{Limit, Limiter};
pub(crate) use any::{own_verbs, sealed};
pub use at::At;
pub(crate) use at::{ByClock, TimeSource};
pub use builder::Builder;
pub use reservation::Reservation;
pub use snapshot::{QuotaState, Snapshot};
pub use state::{LimiterState, LimiterStateError};

use crate::clock::{Clock, Timestamp};
use crate::primitive::const_unless_loom;
use crate::queue::{Acquire, Queue, WaitQueue};
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use engine::{Engine, Refunds, Request, Requotas, Reserves};
#[cfg(feature = "std")]
use state::unix_now;

/// A rate limiter: an algorithm `E` with its state, a clock and a queue.
///
/// You use it under the names of its algorithms: [`TokenBucket`](crate::TokenBucket), [`LeakyBucket`](crate::LeakyBucket),
/// [`DualTokenBucket`](crate::DualTokenBucket), [`FixedWindow`](crate::FixedWindow), [`SlidingWindow`](crate::SlidingWindow),
/// [`SegmentedWindow`](crate::SegmentedWindow), [`ApproximateWindow`](crate::ApproximateWindow), [`WarmUp`](crate::WarmUp),
/// [`DecayingBucket`](crate::DecayingBucket), [`Leased`](crate::Leased). Each of these pages states what its algorithm guarantees,
/// and which of the methods below it has.
///
/// | method | if the limit is reached |
/// |---|---|
/// | [`try_acquire`](Self::try_acquire) | refuses, and reports when to retry |
/// | [`acquire`](Self::acquire) | waits |
/// | [`reserve`](Self::reserve) | returns the time from which the tokens may be used |
///
/// Each method takes the time from the limiter's [`clock`](Self::clock). To decide at an explicit timestamp, call the same
/// methods on [`at(now)`](Self::at).
///
/// # Units
///
/// `n` counts units. A unit is a token unless the quota divides tokens ([`Quota::units_per_token`]). `n` = 0 succeeds and
/// changes nothing. An `n` above the limit is refused with [`Denied::is_never`].
///
/// # Sharing
///
/// A limiter is not `Clone`, because a clone would be a second limit. Share it by reference, in an `Arc`, or in a `static`.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: TokenBucket::new(quota)
/// let limiter = TokenBucket::builder("10/s burst 5".parse()?).clock(&time).build()?;
///
/// limiter.try_acquire_n(5)?;
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// time.advance(Duration::from_millis(100));
/// assert!(limiter.try_acquire().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(C, align(64))]
pub struct RateLimiter<E> {
    /// First, so that the state begins a cache line.
    pub(crate) engine: E,
    pub(crate) clock: Clock,
    pub(crate) queue: Queue,
}

impl<E> RateLimiter<E> {
    const_unless_loom! {
        pub(crate) const fn over(engine: E, clock: Clock) -> Self {
            Self {
                engine,
                clock,
                queue: Queue::new(),
            }
        }
    }

    /// Returns the clock by which the limiter decides.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Reports whether decisions take no lock on this machine, whatever the quota.
    ///
    /// It is `false` if the processor has no 128-bit compare-and-swap. Quotas that need one are then decided under a lock, and
    /// equally exactly.
    ///
    /// ```
    /// use flowgate::{Quota, TokenBucket};
    ///
    /// static LIMIT: TokenBucket = TokenBucket::new(Quota::per_second(100));
    /// if !LIMIT.is_lock_free() {
    ///     eprintln!("decisions take a lock on this machine");
    /// }
    /// ```
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    /// Returns the same methods at an explicit timestamp.
    ///
    /// Use it for simulations, for several decisions at one time, and for callers that have already read the clock. A timestamp
    /// may be older than an earlier one; that never adds tokens.
    ///
    /// Use either the clock or your own timestamps with one limiter, not both. A refund uses the clock, and would meet tokens
    /// of another timeline.
    ///
    /// ```
    /// # use flowgate::{Timestamp, TokenBucket};
    /// let limiter = TokenBucket::new("2/s burst 1".parse()?);
    /// let admitted: Vec<_> = (0..1_500)
    ///     .filter(|&ms| limiter.at(Timestamp::from_nanos(ms * 1_000_000)).try_acquire().is_ok())
    ///     .collect();
    /// assert_eq!(admitted, [0, 500, 1000]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    #[inline]
    pub(crate) fn at_now(&self) -> At<'_, Self, ByClock> {
        At::new(self, self.clock.now().as_nanos())
    }
}

impl<E: Engine> RateLimiter<E> {
    /// Takes one token.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("1/h".parse()?);
    /// assert!(limiter.try_acquire().is_ok());
    /// assert!(limiter.try_acquire().is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if no token is available or others wait for it. [`Denied::retry_after`] is the
    /// shortest wait after which the call can succeed.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        if self.takes_unread(Request::Token) {
            return Ok(());
        }
        self.at_now().try_acquire()
    }

    /// Takes `n` units, all or none.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// assert!(limiter.try_acquire_n(7).is_ok());
    /// assert!(limiter.try_acquire_n(7).is_err());
    /// assert!(limiter.try_acquire_n(11).unwrap_err().is_never());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if fewer than `n` units are available or others wait for them. If `n` is above
    /// the limit, [`Denied::is_never`] is true.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        if self.takes_unread(Request::Units(n)) {
            return Ok(());
        }
        self.at_now().try_acquire_n(n)
    }

    /// Takes the available units, up to `n`, and returns how many it took.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// assert_eq!(limiter.take_up_to(7), 7);
    /// assert_eq!(limiter.take_up_to(7), 3);
    /// assert_eq!(limiter.take_up_to(7), 0);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.at_now().take_up_to(n)
    }

    /// Waits for one token, in the order of arrival.
    ///
    /// Set the amount and the deadline on the future: `.n(5)`, `.within(timeout)`, `.by(deadline)`. Then `.await` it, or block
    /// the thread with `.block()`. [`Acquire`] has the details.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = TokenBucket::new("1000/s burst 1".parse()?);
    /// for _ in 0..3 {
    ///     limiter.acquire().within(Duration::from_secs(1)).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(self)
    }

    /// Waits as [`acquire`](Self::acquire) does; the future holds the `Arc`.
    ///
    /// A spawned task can therefore own it.
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(Arc::clone(self))
    }

    /// Returns the queue of waiters, with its length, order and bounds.
    pub fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self)
    }

    /// Returns what [`try_acquire`](Self::try_acquire) would return now; takes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`try_acquire`](Self::try_acquire).
    pub fn peek(&self) -> Result<(), Denied> {
        self.at_now().peek()
    }

    /// Returns what [`try_acquire_n`](Self::try_acquire_n) would return now; takes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`try_acquire_n`](Self::try_acquire_n).
    pub fn peek_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().peek_n(n)
    }

    /// Returns how many units can be taken now.
    ///
    /// It is 0 while others wait, or while the limiter is in debt.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// Returns limit, available units and time until reset, as a consistent snapshot.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 5".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(4)?;
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (5, 1));
    /// assert_eq!(seen.reset_after, Duration::from_millis(400));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    #[inline(always)]
    fn takes_unread(&self, request: Request) -> bool {
        self.engine.takes_unread(request, || self.queue.is_held())
    }
}

impl<E: Engine> RateLimiter<E> {
    /// Returns what was taken until now, for [`import`](Self::import) after a restart.
    ///
    /// | kept | not kept |
    /// |---|---|
    /// | what was taken, and debts | waiters |
    /// | [reservations](crate::Reservation), as taken | the [`Reservation`](crate::Reservation)s themselves, which cancel |
    /// | the wall time of the export | quota, clock and settings |
    ///
    /// Decisions continue during the export, and may or may not be part of it. If none may be lost, stop acquiring first.
    ///
    /// ```
    /// use flowgate::TokenBucket;
    ///
    /// let budget = || Ok::<_, flowgate::QuotaError>(TokenBucket::new("1000/day".parse()?));
    /// let before = budget()?;
    /// before.try_acquire_n(700)?;
    /// let file = before.export().to_string();
    /// // … after the restart:
    /// let after = budget()?;
    /// after.import(&file.parse()?)?;
    /// assert_eq!(after.available(), 300);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn export(&self) -> LimiterState {
        self.export_by(unix_now())
    }

    fn export_by(&self, unix_time: Duration) -> LimiterState {
        LimiterState::new(E::NAME, self.engine.export(self.now_ns()), unix_time)
    }

    /// Takes what the exporter of `state` had taken, except what has come back since.
    ///
    /// The wall clock determines how much has come back. Import once, before the first request: units that were already taken
    /// from this limiter stay taken *in addition*, so that no bound is exceeded. The quota may differ from the exporter's.
    /// Units stay taken, counted in tokens. Windows must be at most as long as the exporter's.
    ///
    /// - If the wall clock was set back since the export, no time counts as passed. If it was set forward, more time counts as
    ///   passed than really passed.
    /// - Windows that remember times ([`SlidingWindow`](crate::SlidingWindow), [`SegmentedWindow`](crate::SegmentedWindow),
    ///   [`ApproximateWindow`](crate::ApproximateWindow)) cannot represent a time before the origin of their clock. Units that
    ///   were taken before it count as taken at the origin, and so for longer than necessary.
    ///   [`Clock::system_since`](crate::Clock::system_since) has an earlier origin.
    /// - Intervals of [`Refill::Interval`](crate::Refill::Interval) and segments are counted on this limiter's clock. Units
    ///   that were taken in a part of one count from the latest time at which they can have been taken.
    ///
    /// # Errors
    ///
    /// Returns [`LimiterStateError`], and changes nothing, in these cases:
    ///
    /// - The state is of another type of limiter.
    /// - The settings of the two limiters do not fit together.
    /// - A number is out of range.
    #[cfg(feature = "std")]
    pub fn import(&self, state: &LimiterState) -> Result<(), LimiterStateError> {
        self.import_by(state, unix_now())
    }

    fn import_by(
        &self,
        state: &LimiterState,
        unix_time: Duration,
    ) -> Result<(), LimiterStateError> {
        let numbers = state.numbers(E::NAME, unix_time)?;
        let _change = self.queue.change(self);
        self.engine.import(numbers, self.now_ns())
    }
}

impl<E: Engine + Reserves> RateLimiter<E> {
    /// Takes one token now, to be used from [`Reservation::at`] on.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`reserve_n`](Self::reserve_n).
    pub fn reserve(&self) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve()
    }

    /// Takes `n` units now, to be used from [`Reservation::at`] on.
    ///
    /// That time is now if the units are available, and otherwise the time at which they will have flowed in. Later callers
    /// come after it.
    ///
    /// The units are complete at an exact instant, which may lie between two nanoseconds. The next reservation is counted from
    /// that instant, so a sequence of reservations never drifts. The returned time is rounded up.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Timestamp, TokenBucket};
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 1".parse()?).clock(&ManualClock::new()).build()?;
    /// let starts = [0, 1, 2].map(|_| limiter.reserve().unwrap().at());
    /// assert_eq!(starts, [0, 100_000_000, 200_000_000].map(Timestamp::from_nanos));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, in these cases:
    ///
    /// - `n` is above the limit, or the time would be after [`Timestamp::MAX`] ([`Denied::is_never`]).
    /// - Others wait.
    pub fn reserve_n(&self, n: u64) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n(n)
    }

    /// Does the same as [`reserve`](Self::reserve), if the token can be used within `max_wait`.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`reserve_n_within`](Self::reserve_n_within).
    pub fn reserve_within(&self, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_within(max_wait)
    }

    /// Does the same as [`reserve_n`](Self::reserve_n), if the units can be used within `max_wait`.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 1".parse()?).clock(&ManualClock::new()).build()?;
    /// let max_wait = Duration::from_millis(150);
    /// assert!(limiter.reserve_within(max_wait).is_ok()); // at 0
    /// assert!(limiter.reserve_within(max_wait).is_ok()); // at 100 ms
    /// let denied = limiter.reserve_within(max_wait).unwrap_err(); // would be at 200 ms
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(50)));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if the wait would be longer than `max_wait`. [`Denied::retry_after`] is then the
    /// time until the same call succeeds. Also returns it in the cases of [`reserve_n`](Self::reserve_n).
    pub fn reserve_n_within(&self, n: u64, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n_within(n, max_wait)
    }
}

impl<E: Engine + Refunds> RateLimiter<E> {
    /// Returns `n` unused units to the limiter, and reports how many came back.
    ///
    /// The newest `n` admitted units then count as never admitted. Each limiter's page states what can come back. Units that do
    /// not fit are lost. To undo one reservation, use [`Reservation::cancel`].
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// limiter.try_acquire_n(4)?;
    /// assert_eq!(limiter.refund(1), 1);
    /// assert_eq!(limiter.available(), 7);
    /// assert_eq!(limiter.refund(100), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64) -> u64 {
        let _change = self.queue.change(self);
        self.engine.refund(n, &self.clock)
    }
}

impl<E: Engine + Requotas> RateLimiter<E> {
    /// Returns the current quota.
    pub fn quota(&self) -> Quota {
        self.engine.quota()
    }

    /// Replaces the quota.
    ///
    /// Concurrent decisions use either the old or the new quota, never a mix. Each limiter's page states which earlier
    /// admissions are kept.
    ///
    /// ```
    /// # use flowgate::{FixedWindow, ManualClock};
    /// let limiter = FixedWindow::builder("5/s".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(3)?;
    /// limiter.set_quota("4/s".parse()?)?;
    /// assert_eq!(limiter.available(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`], and changes nothing, if the limiter does not accept the quota. The reasons are those of its
    /// builder.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        let _change = self.queue.reconfigure(self);
        self.engine.set_quota(quota, &self.clock)
    }
}

impl<E: Engine> fmt::Debug for RateLimiter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct(E::NAME);
        if let Some(requotas) = self.engine.capabilities().requotas {
            fields.field("quota", &requotas.quota());
        }
        self.engine.describe(&mut fields);
        fields
            .field("available", &self.available())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
