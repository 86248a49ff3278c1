//! What all limiters have in common.

use crate::clock::{Clock, Timestamp};
use crate::reservation::Reservation;
use crate::room::{Acquire, Line};
use crate::verdict::Denied;
use core::time::Duration;

pub(crate) mod sealed {
    pub trait Sealed: core::any::Any {
        /// Itself, as its line sees it.
        fn supply(&self) -> &dyn crate::room::Supply;
    }
}

/// Any limit, of rate or of concurrency: what a [`Gate`](crate::Gate) is made of. Sealed.
pub trait Limit: sealed::Sealed + Send + Sync + core::fmt::Debug {}

impl<L: sealed::Sealed + Send + Sync + core::fmt::Debug> Limit for L {}

/// Any limiter, for code that does not care which: `&dyn Limiter`, `Arc<dyn Limiter>`.
///
/// The methods are those of the concrete types, which have more. Sealed: it is implemented by this
/// crate alone, and may grow.
///
/// ```
/// use flowgate::{Limiter, TokenBucket};
/// use std::sync::Arc;
///
/// let limiter: Arc<dyn Limiter> = Arc::new(TokenBucket::new("5/s".parse()?));
/// let worker = std::thread::spawn({
///     let limiter = Arc::clone(&limiter);
///     move || (0..10).filter(|_| limiter.try_acquire().is_ok()).count()
/// });
/// assert!(worker.join().unwrap() >= 5);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub trait Limiter: sealed::Sealed + Send + Sync + core::fmt::Debug {
    /// Takes one token, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is none; nothing is then taken.
    fn try_acquire(&self) -> Result<(), Denied>;

    /// Takes `n` units, all or none. `n` = 0 succeeds and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there are fewer; nothing is then taken.
    fn try_acquire_n(&self, n: u64) -> Result<(), Denied>;

    /// [`Limiter::try_acquire_n`] at a time of the caller's.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_acquire_n`].
    fn try_acquire_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied>;

    /// What [`try_acquire`](Self::try_acquire) would answer now. Takes nothing, so that the answer may be old when it is
    /// used.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_acquire`].
    fn peek(&self) -> Result<(), Denied> {
        self.peek_n_at(self.clock().now(), self.supply().token())
    }

    /// What [`try_acquire_n_at`](Self::try_acquire_n_at) would answer. Takes nothing.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_acquire_n`].
    fn peek_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        let supply = self.supply();
        supply.room().pass(supply, now.as_nanos(), Some(n))?;
        supply.look(now, n)
    }

    /// Takes `n` units now, to be used when [`Reservation::at`] says. `None` if this type of limiter cannot
    /// promise a time.
    ///
    /// # Errors
    ///
    /// Inside: [`Denied`] if `n` can never be granted.
    fn reserve_n(&self, n: u64) -> Option<Result<Reservation<'_>, Denied>> {
        let _ = n;
        None
    }

    /// Waits for one token, in turn; see [`Acquire`].
    fn acquire(&self) -> Acquire<'_> {
        Acquire::new(self.supply())
    }

    /// Those who wait here.
    fn line(&self) -> Line<'_> {
        Line::new(self.supply())
    }

    /// How many units could be taken now without a debt. A limiter where the next caller pays may let more go ahead.
    fn available(&self) -> u64;

    /// The limit, what remains of it, and when it is whole again, seen at one instant.
    fn snapshot(&self) -> Snapshot;

    /// The clock that the limiter decides by.
    fn clock(&self) -> &Clock;
}

/// Implements [`Limiter`] by the inherent methods of the same names of the type after `as`, which the first one is or
/// dereferences to; by `reserve_n` too if it is named.
macro_rules! limiter_by_its_verbs {
    ($limiter:ty as $verbs:ty $(, $reserve_n:ident)?) => {
        impl crate::limiter::Limiter for $limiter {
            fn try_acquire(&self) -> Result<(), crate::Denied> {
                <$verbs>::try_acquire(self)
            }

            fn try_acquire_n(&self, n: u64) -> Result<(), crate::Denied> {
                <$verbs>::try_acquire_n(self, n)
            }

            fn try_acquire_n_at(&self, now: crate::Timestamp, n: u64) -> Result<(), crate::Denied> {
                <$verbs>::at(self, now).try_acquire_n(n)
            }

            $(
                fn reserve_n(&self, n: u64) -> Option<Result<crate::Reservation<'_>, crate::Denied>> {
                    Some(<$verbs>::$reserve_n(self, n))
                }
            )?

            fn available(&self) -> u64 {
                <$verbs>::available(self)
            }

            fn snapshot(&self) -> crate::Snapshot {
                <$verbs>::snapshot(self)
            }

            fn clock(&self) -> &crate::Clock {
                <$verbs>::clock(self)
            }
        }
    };
}
pub(crate) use limiter_by_its_verbs;

/// A limiter's state at one instant, in the terms of a `RateLimit` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most that can be had at once, in units.
    pub limit: u64,
    /// What could be taken now, in units.
    pub remaining: u64,
    /// The time until `remaining` equals `limit`, if nothing is taken; zero if it does. Rounded up to
    /// whole nanoseconds.
    pub reset_after: Duration,
}
