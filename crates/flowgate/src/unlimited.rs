//! [`Unlimited`]: a limiter that limits nothing.

use crate::at::At;
use crate::clock::{Clock, Timestamp};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::reservation::{Receipt, Reservation, Revoke};
use crate::verdict::Denied;
use core::time::Duration;

/// Admits everything, at once, and counts nothing: the limiter to plug in where none is wanted.
///
/// For code that takes a `&dyn Limiter` or an `Arc<dyn Limiter>` and should not have to ask whether there
/// is one, and for tests of such code.
///
/// ```text
///  ops ─▶─▶─▶▶▶─▶─▶▶──▶─▶▶▶▶▶▶▶▶▶─▶─▶   as they come
/// ```
///
/// ```
/// use flowgate::{Limiter, TokenBucket, Unlimited};
///
/// fn limiter(quota: Option<&str>) -> Result<Box<dyn Limiter>, flowgate::QuotaError> {
///     Ok(match quota {
///         Some(quota) => Box::new(TokenBucket::new(quota.parse()?)),
///         None => Box::new(Unlimited::new()),
///     })
/// }
/// let limiter = limiter(None)?;
/// assert!((0..1000).all(|_| limiter.try_acquire().is_ok()));
/// assert_eq!(limiter.snapshot().remaining, u64::MAX);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// It has no quota, no memory, and nothing that could be given back: there is no `refund`. A decision does
/// not read the clock, which is there because every [`Limiter`](crate::Limiter) has one.
#[derive(Debug)]
pub struct Unlimited {
    clock: Clock,
}

impl Unlimited {
    /// On [`Clock::system`].
    #[cfg(feature = "std")]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            clock: Clock::system(),
        }
    }

    /// On a clock of the caller's.
    pub fn with_clock(clock: impl Into<Clock>) -> Self {
        Self {
            clock: clock.into(),
        }
    }

    /// Succeeds.
    ///
    /// # Errors
    ///
    /// None, ever.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        Ok(())
    }

    /// Succeeds, for every `n`.
    ///
    /// # Errors
    ///
    /// None, ever.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        let _ = n;
        Ok(())
    }

    /// A reservation for now.
    ///
    /// # Errors
    ///
    /// None, ever.
    pub fn reserve(&self) -> Result<Reservation<'_>, Denied> {
        self.reserve_n(1)
    }

    /// A reservation for now, for every `n`. Cancelled, it gives everything back: it took nothing.
    ///
    /// # Errors
    ///
    /// None, ever.
    pub fn reserve_n(&self, n: u64) -> Result<Reservation<'_>, Denied> {
        self.at(self.clock.now()).reserve_n(n)
    }

    /// `n`.
    pub fn take_up_to(&self, n: u64) -> u64 {
        n
    }

    /// `u64::MAX`.
    pub fn available(&self) -> u64 {
        u64::MAX
    }

    /// A limit of `u64::MAX`, of which everything remains.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: u64::MAX,
            remaining: u64::MAX,
            reset_after: Duration::ZERO,
        }
    }

    /// The same verbs at a time of your own, which makes no difference but to reservations.
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At {
            limiter: self,
            now_ns: now.as_nanos(),
        }
    }

    /// The clock that reservations are told by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Default for Unlimited {
    fn default() -> Self {
        Self::with_clock(Clock::default())
    }
}

impl<'a> At<'a, Unlimited> {
    /// [`Unlimited::try_acquire`].
    ///
    /// # Errors
    ///
    /// None, ever.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        Ok(())
    }

    /// [`Unlimited::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// None, ever.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.limiter.try_acquire_n(n)
    }

    /// [`Unlimited::reserve_n`].
    ///
    /// # Errors
    ///
    /// None, ever.
    pub fn reserve_n(self, n: u64) -> Result<Reservation<'a>, Denied> {
        Ok(Reservation {
            limiter: self.limiter,
            units: n,
            at_ns: self.now_ns,
            receipt: Receipt::default(),
        })
    }

    /// [`Unlimited::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        n
    }

    /// [`Unlimited::available`].
    pub fn available(self) -> u64 {
        self.limiter.available()
    }

    /// [`Unlimited::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        self.limiter.snapshot()
    }
}

impl Revoke for Unlimited {
    fn revoke(&self, reservation: &Reservation<'_>, _: Option<Timestamp>) -> u64 {
        reservation.units
    }
}

limiter_by_its_verbs!(Unlimited as Unlimited, reserve_n);
