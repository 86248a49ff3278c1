use crate::clock::{Clock, Timestamp};
use crate::queue::Receipt;
use crate::verdict::Denied;
use core::fmt;
use core::time::Duration;

/// Units that are already taken, and the time from which they may be used.
///
/// Dropping a reservation keeps its units taken. If they will not be used after all, [`cancel`](Self::cancel) returns as many
/// as the limiter's bound allows ([sound refunds, C5](crate::guide::guarantees#sound-refunds-c5)).
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
///
/// let limiter =
///     TokenBucket::builder("10/s burst 2".parse()?).clock(&ManualClock::new()).build()?;
/// limiter.try_acquire_n(2)?;
/// let reservation = limiter.reserve_n(2)?; // at 200 ms
/// assert_eq!(reservation.cancel(), 2);
/// assert_eq!(limiter.reserve()?.at().as_nanos(), 100_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the units are taken; use them from `at()` on, or cancel"]
pub struct Reservation<'a> {
    pub(crate) limiter: &'a dyn Revoke,
    pub(crate) booking: Booking,
}

/// The answer to a request for a reservation.
pub type Booked = Result<Booking, Denied>;

/// What a reservation holds: units, and the time from which they may be used.
#[derive(Clone, Copy, Debug)]
pub struct Booking {
    pub(crate) units: u64,
    pub(crate) at_ns: u64,
    pub(crate) receipt: Receipt,
}

/// A limiter whose reservations can be cancelled.
pub(crate) trait Revoke: Send + Sync {
    /// Cancels `booking` at `now`, or at the time of the limiter's own clock; reports how many units came back.
    fn revoke(&self, booking: &Booking, now: Option<Timestamp>) -> u64;

    /// The clock of the limiter.
    fn clock(&self) -> &Clock;
}

impl Reservation<'_> {
    /// Returns the time, on the limiter's clock, from which the units may be used.
    ///
    /// It never moves.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 1".parse()?).clock(ManualClock::new()).build()?;
    /// let at_ms = [limiter.reserve()?, limiter.reserve()?].map(|turn| turn.at().as_nanos() / 1_000_000);
    /// assert_eq!(at_ms, [0, 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.booking.at_ns)
    }

    /// Returns the time from now until [`at`](Self::at), or zero if it is over.
    ///
    /// The time is that of the limiter's clock.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = TokenBucket::builder("10/s burst 1".parse()?).clock(&time).build()?;
    /// limiter.try_acquire()?;
    /// let reservation = limiter.reserve()?;
    /// assert_eq!(reservation.delay(), Duration::from_millis(100));
    /// time.advance(Duration::from_millis(30));
    /// assert_eq!(reservation.delay(), Duration::from_millis(70));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delay(&self) -> Duration {
        self.at()
            .saturating_duration_since(self.limiter.clock().now())
    }

    /// Returns the number of units that the reservation holds.
    pub fn units(&self) -> u64 {
        self.booking.units
    }

    /// Returns the units to the limiter, and reports how many came back.
    ///
    /// All units come back, unless that would break a guarantee:
    ///
    /// - Later reservations keep their times. New requests that use the returned units must not, together with these
    ///   reservations, exceed the burst at any instant. While others hold reservations, units that are withheld for this reason
    ///   stay withheld, even if those reservations are cancelled as well. Cancel the last reservation first.
    /// - Units whose time has passed and that have flowed in again do not come back a second time, unless the burst has been
    ///   raised since and has room for them.
    /// - Nothing comes back after a change of quota that refilled the bucket ([`Carry::Reset`](crate::Carry::Reset)) or scaled
    ///   tokens ([`Carry::Proportional`](crate::Carry::Proportional)), or after more than 16 changes.
    pub fn cancel(self) -> u64 {
        self.limiter.revoke(&self.booking, None)
    }

    /// Does the same as [`cancel`](Self::cancel), at an explicit timestamp.
    ///
    /// Use it for a limiter that is used through [`TokenBucket::at`](crate::TokenBucket::at).
    ///
    /// ```
    /// # use flowgate::{Timestamp, TokenBucket};
    /// let limiter = TokenBucket::new("10/s burst 1".parse()?);
    /// let second = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);
    /// limiter.at(second(5)).try_acquire()?;
    /// let reservation = limiter.at(second(5)).reserve()?;
    /// assert_eq!(reservation.units(), 1);
    /// assert_eq!(reservation.cancel_at(second(5)), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_at(self, now: Timestamp) -> u64 {
        self.limiter.revoke(&self.booking, Some(now))
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("units", &self.booking.units)
            .field("at", &self.at())
            .finish()
    }
}
