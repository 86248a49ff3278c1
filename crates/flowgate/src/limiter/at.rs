//! Every method of a limiter at an explicit timestamp. The methods without one use the time of the clock.

use super::RateLimiter;
use super::engine::{Engine, Refunds, Request, Requotas, Reserves, SuppliedTime};
use super::reservation::Reservation;
use super::snapshot::{QuotaState, Snapshot};
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use core::marker::PhantomData;
use core::time::Duration;

/// The methods of a limiter, at an explicit timestamp instead of the clock's time.
///
/// [`RateLimiter::at`] creates it.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::new("10/s burst 3".parse()?);
/// let then = Timestamp::from_nanos(5_000_000_000); // on the caller's own timeline
/// let second = Duration::from_secs(1);
/// limiter.at(then).try_acquire_n(3)?;
/// let denied = limiter.at(then).try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
///
/// assert_eq!(limiter.at(then).refund(1), 1);
/// assert_eq!(limiter.at(then).take_up_to(5), 1);
/// assert_eq!(limiter.at(then).reserve()?.at(), then + Duration::from_millis(100));
/// assert!(limiter.at(then).reserve_within(Duration::from_millis(199)).is_err());
/// assert_eq!(limiter.at(then).snapshot().reset_after, Duration::from_millis(400));
///
/// limiter.at(then + second).overdraw(5)?; // two into debt
/// assert_eq!(limiter.at(then + second).available(), 0);
/// limiter.at(then + second).set_quota("1/s burst 3".parse()?);
/// assert_eq!(limiter.at(then + 4 * second).available(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct At<'a, L, T = Supplied> {
    pub(crate) limiter: &'a L,
    pub(crate) now_ns: u64,
    time: PhantomData<T>,
}

/// Where a time comes from.
pub trait TimeSource {
    /// The caller has supplied the time; it was not read from the limiter's clock.
    const IS_SUPPLIED: bool;
}

/// A time that the caller supplies.
#[derive(Debug)]
pub struct Supplied;

/// A time that has been read from the limiter's clock.
#[derive(Debug)]
pub struct ByClock;

impl TimeSource for Supplied {
    const IS_SUPPLIED: bool = true;
}

impl TimeSource for ByClock {
    const IS_SUPPLIED: bool = false;
}

impl<'a, L, T> At<'a, L, T> {
    #[inline(always)]
    pub(crate) const fn new(limiter: &'a L, now_ns: u64) -> Self {
        Self {
            limiter,
            now_ns,
            time: PhantomData,
        }
    }
}

impl<'a, E: Engine, T: TimeSource> At<'a, RateLimiter<E>, T> {
    /// Does the same as [`RateLimiter::try_acquire`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::try_acquire`].
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.note(Request::Token);
        let door = move || self.pass(None);
        self.limiter.engine.take_token(self.now_ns, door)
    }

    /// Does the same as [`RateLimiter::try_acquire_n`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::try_acquire_n`].
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.note(Request::Units(n));
        let door = move || self.pass(Some(n));
        self.limiter.engine.take_units(self.now_ns, n, door)
    }

    /// Does the same as [`RateLimiter::take_up_to`], at this time.
    pub fn take_up_to(self, n: u64) -> u64 {
        self.note(Request::Any);
        let door = move || self.pass(Some(n.min(1)));
        self.limiter.engine.take_up_to(self.now_ns, n, door)
    }

    /// Does the same as [`RateLimiter::peek`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::try_acquire`].
    pub fn peek(self) -> Result<(), Denied> {
        self.peek_n(self.limiter.engine.token())
    }

    /// Does the same as [`RateLimiter::peek_n`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::try_acquire_n`].
    pub fn peek_n(self, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.pass(Some(n))?;
        self.limiter.engine.look(self.now_ns, n)
    }

    /// Does the same as [`RateLimiter::available`], at this time.
    pub fn available(self) -> u64 {
        let door = move || self.pass(None);
        self.limiter.engine.available(self.now_ns, door)
    }

    /// Does the same as [`RateLimiter::snapshot`], at this time.
    pub fn snapshot(self) -> Snapshot {
        if self.limiter.queue.is_held() {
            let limit = self.limiter.engine.limit();
            if let Err(denied) = self.pass(Some(limit)) {
                return Snapshot {
                    limit,
                    remaining: 0,
                    reset_after: denied.retry_after().unwrap_or(Duration::MAX),
                };
            }
        }
        self.limiter.engine.snapshot(self.now_ns)
    }

    /// Does the same as [`Limiter::quota_states`](crate::Limiter::quota_states), at this time.
    pub fn quota_states(self) -> Option<[QuotaState; 2]> {
        let states = || self.limiter.engine.quota_states(self.now_ns);
        if !self.limiter.queue.is_held() {
            return states();
        }
        let pass = |units| self.pass(Some(units));
        // Of nothing: this only grants the waiters what is no longer there then.
        let _ = pass(0);
        Some(states()?.map(|state| state.behind_waiters(pass)))
    }

    /// Takes `n` units for work that has already been done.
    ///
    /// [`Limiter::charge`](crate::Limiter::charge) has the details.
    pub fn charge(self, n: u64) {
        self.note(Request::Any);
        let door = move || self.pass(Some(n.min(1)));
        self.limiter.engine.charge(self.now_ns, n, door);
    }

    /// Asks the queue to let `units` pass; none: one token.
    #[inline(always)]
    pub(crate) fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter
            .queue
            .pass_limiter(self.limiter, self.now_ns, units)
    }

    #[inline(always)]
    pub(crate) fn note(self, request: Request) {
        if T::IS_SUPPLIED {
            self.limiter.engine.supplied(self.now_ns, request);
        }
    }

    /// This time, for a change.
    pub(crate) fn time(self) -> SuppliedTime<'a> {
        SuppliedTime {
            now_ns: self.now_ns,
            clock: &self.limiter.clock,
        }
    }
}

impl<'a, E: Engine + Reserves, T: TimeSource> At<'a, RateLimiter<E>, T> {
    /// Does the same as [`RateLimiter::reserve`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::reserve_n`].
    pub fn reserve(self) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(None, None)
    }

    /// Does the same as [`RateLimiter::reserve_n`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::reserve_n`].
    pub fn reserve_n(self, n: u64) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(Some(n), None)
    }

    /// Does the same as [`RateLimiter::reserve_within`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::reserve_n_within`].
    pub fn reserve_within(self, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(None, Some(max_wait))
    }

    /// Does the same as [`RateLimiter::reserve_n_within`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::reserve_n_within`].
    pub fn reserve_n_within(self, n: u64, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(Some(n), Some(max_wait))
    }

    fn reserve_units(
        self,
        n: Option<u64>,
        max_wait: Option<Duration>,
    ) -> Result<Reservation<'a>, Denied> {
        self.note(n.map_or(Request::Token, Request::Units));
        let limiter = self.limiter;
        self.pass(n)?;
        let max_wait_ns = max_wait.map(|wait| wait.as_nanos());
        let booking = limiter.engine.reserve(self.now_ns, n, max_wait_ns)?;
        Ok(Reservation { limiter, booking })
    }
}

impl<E: Engine + Refunds> At<'_, RateLimiter<E>> {
    /// Does the same as [`RateLimiter::refund`], at this time.
    pub fn refund(self, n: u64) -> u64 {
        self.note(Request::Any);
        let _change = self.limiter.queue.change(self.limiter);
        self.limiter.engine.refund(n, &self.time())
    }
}

impl<E: Engine + Requotas> At<'_, RateLimiter<E>> {
    /// Does the same as [`RateLimiter::set_quota`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the same cases as [`RateLimiter::set_quota`].
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        self.limiter.engine.set_quota(quota, &self.time())
    }
}

impl<L, T> Clone for At<'_, L, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, T> Copy for At<'_, L, T> {}
