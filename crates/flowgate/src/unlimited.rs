//! [`Unlimited`]: a limiter that limits nothing.

use crate::clock::{Clock, Timestamp};
use crate::limiter::At;
use crate::limiter::reservation::{Booking, Receipt, Reservation, Revoke};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::primitive::const_unless_loom;
use crate::room::{Room, Supply, waits_in_line};
use crate::verdict::Denied;
use core::fmt;
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
/// not read the clock, which is there because every [`Limiter`](crate::Limiter) has one. Nobody ever waits in its
/// line, but that can be [closed](crate::Line::close), like every other.
pub struct Unlimited {
    clock: Clock,
    room: Room,
}

impl Unlimited {
    const_unless_loom! {
        /// On [`Clock::system`].
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new() -> Self {
            Self::on(Clock::system())
        }
    }

    /// On a clock of the caller's.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Unlimited};
    /// let time = ManualClock::new();
    /// let limiter = Unlimited::with_clock(&time);
    /// assert_eq!(limiter.reserve_n(1_000)?.at(), time.now());
    /// assert_eq!((limiter.take_up_to(7), limiter.available()), (7, u64::MAX));
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn with_clock(clock: impl Into<Clock>) -> Self {
        Self::on(clock.into())
    }

    const_unless_loom! {
        const fn on(clock: Clock) -> Self {
            Self {
                clock,
                room: Room::new(),
            }
        }
    }

    /// Succeeds.
    ///
    /// # Errors
    ///
    /// [`Denied::is_closed`] once its line has been closed, and no other.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.try_acquire_n(1)
    }

    /// Succeeds, for every `n`.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.pass(n, || self.clock.now().as_nanos())
    }

    /// A reservation for now.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub fn reserve(&self) -> Result<Reservation<'_>, Denied> {
        self.reserve_n(1)
    }

    /// A reservation for now, for every `n`. Cancelled, it gives everything back: it took nothing.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub fn reserve_n(&self, n: u64) -> Result<Reservation<'_>, Denied> {
        self.at(self.clock.now()).reserve_n(n)
    }

    /// `n`; nothing once its line has been closed.
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.try_acquire_n(n).map_or(0, |()| n)
    }

    /// `u64::MAX`; nothing once its line has been closed.
    pub fn available(&self) -> u64 {
        self.take_up_to(u64::MAX)
    }

    /// A limit of `u64::MAX`, of which everything remains; nothing, for ever, once its line has been closed.
    pub fn snapshot(&self) -> Snapshot {
        let remaining = self.available();
        let reset_after = match remaining {
            0 => Duration::MAX,
            _ => Duration::ZERO,
        };
        Snapshot {
            limit: u64::MAX,
            remaining,
            reset_after,
        }
    }

    /// The same verbs at a time of your own, which makes no difference but to reservations.
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }

    /// The clock that reservations are told by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Unless it is closed.
    #[inline(always)]
    fn pass(&self, n: u64, now_ns: impl FnOnce() -> u64) -> Result<(), Denied> {
        if self.room.is_held() {
            return self.room.pass(self, now_ns(), Some(n));
        }
        Ok(())
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
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.try_acquire_n(1)
    }

    /// [`Unlimited::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.limiter.pass(n, || self.now_ns)
    }

    /// [`Unlimited::reserve_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_n(self, n: u64) -> Result<Reservation<'a>, Denied> {
        self.try_acquire_n(n)?;
        Ok(Reservation {
            limiter: self.limiter,
            booking: Booking {
                units: n,
                at_ns: self.now_ns,
                receipt: Receipt::default(),
            },
        })
    }

    /// [`Unlimited::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        self.limiter.take_up_to(n)
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
    fn revoke(&self, booking: &Booking, _: Option<Timestamp>) -> u64 {
        booking.units
    }
}

impl Supply for Unlimited {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn grant(&self, _: Timestamp, _: u64) -> Result<(), Denied> {
        Ok(())
    }

    fn peek(&self, _: Timestamp, _: u64) -> Result<(), Denied> {
        Ok(())
    }

    fn take_back(&self, _: Timestamp, _: u64, _: &[Receipt]) {}
}

waits_in_line!(Unlimited, |limiter| limiter);
limiter_by_its_verbs!(Unlimited as Unlimited, reserve_n; charge: Unlimited::take_up_to);

impl fmt::Debug for Unlimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unlimited")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
