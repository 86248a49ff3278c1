use super::{Carry, Refill, TokenBucket};
use crate::algorithm::token_bucket;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::{Booking, Receipt, Reservation, Revoke};
use crate::limiter::{At, ByClock, TimeSource};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::policy::Policy;
use crate::primitive::Ordering;
use crate::quota::{Quota, QuotaError};
use crate::room::waits_in_line;
use crate::verdict::Denied;
use crate::word::{Parameters, Step};
use core::fmt;
use core::time::Duration;

/// A [`TokenBucket`] where the **next caller pays**: at most burst + the largest n + rate · t in every span of
/// time t.
///
/// An explicit [`Carry`] may add to that, as for a [`TokenBucket`]: each [`Carry::Reset`] at most one new burst. None
/// forgives a debt.
///
/// An operation that comes while the bucket is not in debt goes at once if the debt that it leaves is at most
/// `max_debt`; the next has to wait until that is paid. So a large operation need not wait for its own cost,
/// only for that of the one before. One of more than `max_debt` waits until the bucket holds what it is over.
///
/// Made by [`TokenBucket::pay_after`]; [`max_debt`](crate::TokenBucketBuilder::max_debt), by default the burst, is set
/// where the bucket is built.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = TokenBucket::builder("1/s".parse()?)
///     .clock(&time)
///     .initial_tokens(0)
///     .max_debt(100)
///     .build()?
///     .pay_after();
///
/// limiter.try_acquire_n(4)?; // at once
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(4))); // the next one pays for it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// Guava's `RateLimiter` with smooth bursts: there, burst is one second's worth, the bucket starts
/// empty, and there is no bound to the debt. That limiter is
///
/// ```
/// # use flowgate::{Quota, TokenBucket};
/// let guava = |permits_per_second| {
///     TokenBucket::builder(Quota::per_second(permits_per_second))
///         .initial_tokens(0)
///         .max_debt(1_000_000_000)
///         .build()
///         .map(TokenBucket::pay_after)
/// };
/// assert!(guava(5)?.try_acquire_n(1000).is_ok());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub struct PayAfter(pub(super) TokenBucket);

impl PayAfter {
    /// Takes one token, unless the bucket is in debt, or the debt would be too deep.
    ///
    /// # Errors
    ///
    /// As [`TokenBucket::overdraw`].
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Takes `n` units, unless the bucket is in debt, or the debt would be too deep.
    ///
    /// # Errors
    ///
    /// As [`TokenBucket::overdraw`].
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Takes one token now, to be used when [`Reservation::at`] says.
    ///
    /// # Errors
    ///
    /// As [`reserve_n`](Self::reserve_n).
    pub fn reserve(&self) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve()
    }

    /// Takes `n` units now, to be used when [`Reservation::at`] says: when what was taken before is paid for, rounded
    /// up to whole nanoseconds.
    ///
    /// [`Reservation::cancel`] gives back only the last reservation, and only while nobody has taken anything after it.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// let limiter = TokenBucket::builder("10/s burst 1".parse()?)
    ///     .clock(ManualClock::new())
    ///     .max_debt(100)
    ///     .build()?
    ///     .pay_after();
    /// assert_eq!(limiter.reserve_n(51)?.at().as_nanos(), 0); // at once,
    /// assert_eq!(limiter.reserve()?.at().as_nanos(), 5_000_000_000); // and this one pays for it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied::is_never`] if `n` is above burst + `max_debt`, or if its turn would come after
    /// [`Timestamp::MAX`]; nothing is then taken.
    pub fn reserve_n(&self, n: u64) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n(n)
    }

    /// [`reserve`](Self::reserve), unless that would mean waiting for longer than `max_wait`: Guava's `tryAcquire` with a
    /// timeout.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).build()?.pay_after();
    /// limiter.try_acquire_n(20)?; // 10 that were there, and a debt of a second
    /// assert!(limiter.reserve_within(Duration::from_millis(500)).is_err());
    /// assert!(limiter.reserve_within(Duration::from_secs(1)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`reserve_n`](Self::reserve_n), and [`Denied`] if the wait would be longer.
    pub fn reserve_within(&self, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_within(max_wait)
    }

    /// [`reserve_n`](Self::reserve_n), unless that would mean waiting for longer than `max_wait`.
    ///
    /// # Errors
    ///
    /// As [`reserve_n`](Self::reserve_n), and [`Denied`] if the wait would be longer; its
    /// [`retry_after`](Denied::retry_after) is when the same call would succeed.
    pub fn reserve_n_within(&self, n: u64, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n_within(n, max_wait)
    }

    /// Takes the available units, up to `n`, and returns how many it took.
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.0.take_up_to(n)
    }

    /// [`TokenBucket::refund`].
    pub fn refund(&self, n: u64) -> u64 {
        self.0.refund(n)
    }

    /// How many units the bucket holds; 0 while in debt, and also where the next operation would still
    /// go at once, into debt.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// let limiter =
    ///     TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).build()?.pay_after();
    /// limiter.try_acquire_n(10)?;
    /// assert_eq!(limiter.available(), 0);
    /// assert!(limiter.try_acquire_n(3).is_ok()); // into debt
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn available(&self) -> u64 {
        self.0.available()
    }

    /// [`TokenBucket::snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.0.quota()
    }

    /// [`TokenBucket::set_quota`].
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).build()?.pay_after();
    /// limiter.try_acquire_n(20)?; // a debt of 10
    /// limiter.set_quota("1/s burst 10".parse()?);
    /// assert_eq!(limiter.quota().to_string(), "1/s burst 10");
    /// assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(10)));
    /// assert_eq!(limiter.refund(4), 4);
    /// assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(6)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// None.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.0.set_quota(quota)
    }

    /// [`TokenBucket::set_quota_with`]: what `carry` adds pays the debt first, and only then lets operations through.
    ///
    /// ```
    /// # use flowgate::{Carry, ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).build()?.pay_after();
    /// limiter.try_acquire_n(20)?; // a debt of 10
    /// limiter.set_quota_with("10/s burst 4".parse()?, Carry::Reset);
    /// assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(Duration::from_millis(600)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quota_with(&self, quota: Quota, carry: Carry) {
        self.0.set_quota_with(quota, carry);
    }

    /// [`TokenBucket::set_refill`].
    ///
    /// ```
    /// # use flowgate::{ManualClock, Refill, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).build()?.pay_after();
    /// limiter.try_acquire_n(15)?; // a debt of 5
    /// limiter.set_refill(Refill::Interval);
    /// assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_refill(&self, refill: Refill) {
        self.0.set_refill(refill);
    }

    /// The same verbs at a time of your own; see [`TokenBucket::at`].
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn at_now(&self) -> At<'_, Self, ByClock> {
        At::new(self, self.0.now_ns())
    }
}

impl<'a, T: TimeSource> At<'a, PayAfter, T> {
    /// [`PayAfter::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_acquire(self) -> Result<(), Denied> {
        // Out of stock, as a rule, and then as fast as from a bucket that makes no debts.
        let bucket = self.bucket();
        bucket.note();
        if bucket.limiter.word.takes_token(bucket.now_ns) {
            return Ok(());
        }
        bucket.pass(None)?;
        bucket.overdraw_units(|parameters| parameters.units_per_token)
    }

    /// [`PayAfter::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        let bucket = self.bucket();
        bucket.try_acquire_n(n).or_else(|_| bucket.overdraw(n))
    }

    /// [`PayAfter::reserve`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve(self) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|parameters| parameters.units_per_token, None)
    }

    /// [`PayAfter::reserve_n`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_n(self, n: u64) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|_| n, None)
    }

    /// [`PayAfter::reserve_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_within(self, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|parameters| parameters.units_per_token, Some(max_wait))
    }

    /// [`PayAfter::reserve_n_within`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_n_within(self, n: u64, max_wait: Duration) -> Result<Reservation<'a>, Denied> {
        self.reserve_units(|_| n, Some(max_wait))
    }

    /// [`PayAfter::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.bucket().refund(n)
    }

    /// [`PayAfter::available`].
    pub fn available(self) -> u64 {
        self.bucket().available()
    }

    /// [`PayAfter::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        self.bucket().snapshot()
    }

    /// [`PayAfter::set_quota`].
    ///
    /// # Errors
    ///
    /// None.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        self.bucket().set_quota(quota)
    }

    /// [`PayAfter::set_quota_with`].
    pub fn set_quota_with(self, quota: Quota, carry: Carry) {
        self.bucket().set_quota_with(quota, carry);
    }

    /// [`PayAfter::set_refill`].
    pub fn set_refill(self, refill: Refill) {
        self.bucket().set_refill(refill);
    }

    fn bucket(self) -> At<'a, TokenBucket, T> {
        At::new(&self.limiter.0, self.now_ns)
    }

    fn reserve_units(
        self,
        units: impl Fn(&Parameters) -> u64,
        max_wait: Option<Duration>,
    ) -> Result<Reservation<'a>, Denied> {
        self.bucket().reserve_step(
            self.limiter,
            units,
            max_wait,
            Parameters::most_overdrawn,
            |view, cost| {
                let (burst, max_debt) =
                    (view.parameters.burst_ticks(), view.parameters.debt_ticks());
                token_bucket::reserve_overdraft(view.state, view.now, cost, burst, max_debt)
            },
        )
    }
}

impl Revoke for PayAfter {
    fn revoke(&self, booking: &Booking, now: Option<Timestamp>) -> u64 {
        let now_ns = match now {
            Some(now) => {
                self.0.at(now).note();
                now.as_nanos()
            }
            None => self.0.clock.latest().as_nanos(),
        };
        self.0.cancel_last(booking, now_ns)
    }
}

impl TokenBucket {
    /// Gives back all of it if nothing has happened since, and otherwise nothing.
    pub(super) fn cancel_last(&self, booking: &Booking, now_ns: u64) -> u64 {
        let _change = self.room.change(self);
        let Receipt {
            state,
            given_back,
            epoch,
            told_before_ns,
            ..
        } = booking.receipt;
        // Holds back everybody else who gives back.
        let ledger = self.ledger.lock();
        // Before the state changes, as where a token bucket's reservation is cancelled.
        let lowered = self.last_told_ns.compare_exchange(
            booking.at_ns,
            told_before_ns,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let back = self.word.update_stored(now_ns, |view| {
            let is_last = view.state == state
                && view.parameters.epoch == epoch
                && self.given_back.load(Ordering::Acquire) == given_back;
            let now_ns = self.settled_ns(now_ns, &view.parameters, view.state);
            let now = view.parameters.now_ticks(now_ns);
            let cost = view.parameters.ticks(booking.units);
            let tat = token_bucket::give_back(view.state, now, cost);
            if !is_last || tat == view.state {
                return Step::Stay(None);
            }
            let units = view.balance_at(now, tat) - view.balance_at(now, view.state);
            Step::Move(tat, Some(u64::try_from(units).unwrap_or(0)))
        });
        if let (None, Ok(told_ns)) = (back, lowered) {
            self.last_told_ns.fetch_max(told_ns, Ordering::AcqRel);
        }
        drop(ledger);
        back.unwrap_or(0)
    }
}

waits_in_line!(PayAfter, |limiter| &limiter.0);
limiter_by_its_verbs!(PayAfter as PayAfter, reserve_n;
    policy: |bucket| Policy::new(bucket.quota(), false), refund: PayAfter::refund,
    charge: |limiter: &PayAfter, n| limiter.0.charge(n));

impl fmt::Debug for PayAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PayAfter").field(&self.0).finish()
    }
}
