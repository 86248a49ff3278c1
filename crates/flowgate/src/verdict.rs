//! [`Denied`]: why an operation may not go ahead, and when to retry.

use crate::algorithm::decaying_bucket::Overflow;
use crate::clock::saturating_nanos;
use core::fmt;
use core::num::{NonZeroU8, NonZeroU64};
use core::time::Duration;

/// The verdict on an operation: it goes ahead, or why not.
pub type Verdict = Result<(), Denied>;

/// A refusal: the operation may not go ahead now, and nothing was taken.
///
/// [`retry_after`](Self::retry_after) reports how long to wait. It computes the wait only when it is called, so a refusal costs
/// no division, and a refusal of a [`DecayingBucket`](crate::DecayingBucket) no search.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let limiter =
///     TokenBucket::builder("10/s burst 2".parse()?).clock(&ManualClock::new()).build()?;
/// limiter.try_acquire_n(2)?;
///
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// assert_eq!(denied.to_string(), "over the limit; retry after 100ms");
///
/// let denied = limiter.try_acquire_n(3).unwrap_err();
/// assert!(denied.is_never());
/// assert_eq!(denied.retry_after(), None);
/// assert_eq!(denied.to_string(), "3 can never be granted: the maximum is 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Denied(Reason);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Later {
        missing: [u64; 2],
        ticks_per_ns: NonZeroU64,
        limit: Limit,
    },
    Never {
        asked: u64,
        most: u64,
        limit: Limit,
    },
    /// The grant would come after the clock's last instant.
    TooLate,
    /// Until another caller returns a permit.
    Busy {
        limit: Limit,
    },
    /// The queue of waiters has reached one of its bounds; `wait_ns` is 0 where no time is known.
    LineFull {
        wait_ns: u64,
    },
    /// A keyed limiter has no room for another key; `wait_ns` is 0 where no time is known.
    TableFull {
        wait_ns: u64,
    },
    /// The backend refuses too many requests; `wait_ns` is not 0.
    Throttled {
        wait_ns: u64,
    },
    /// More important requests go first; `wait_ns` is not 0.
    LowPriority {
        wait_ns: u64,
    },
    /// It waited too long in a queue that persists.
    Shed,
    Closed,
    Cancelled,
    /// The limiter could not decide.
    Outage,
    /// Until enough of a level has decayed. It keeps what the wait is computed from, because the computation takes longer than
    /// the decision. Numbers of 64 bits have the places that they have in `Later`, so that refusals are copied in whole words.
    Decays {
        passed_ns: u64,
        half_life_ns: u64,
        /// The level and its target, of 48 bits each.
        levels_low: u64,
        levels_high: u32,
        limit: Limit,
    },
}

/// The limit of a gate that refused, counted from 1.
type Limit = Option<NonZeroU8>;

#[inline]
fn limit_of(index: usize) -> Limit {
    u8::try_from(index + 1).ok().and_then(NonZeroU8::new)
}

impl Denied {
    /// `missing` ticks have to pass first. `ticks_per_ns` of them (not 0) make a nanosecond.
    #[inline]
    pub(crate) fn later(missing: u128, ticks_per_ns: u64) -> Self {
        Self::of_later(missing, ticks_per_ns, None)
    }

    /// The same, by the limit at `index` of several.
    #[inline]
    pub(crate) fn later_by(missing: u128, ticks_per_ns: u64, index: usize) -> Self {
        Self::of_later(missing, ticks_per_ns, limit_of(index))
    }

    #[inline]
    fn of_later(missing: u128, ticks_per_ns: u64, limit: Limit) -> Self {
        let ticks_per_ns = NonZeroU64::new(ticks_per_ns).unwrap_or(NonZeroU64::MIN);
        Self(Reason::Later {
            missing: [missing as u64, (missing >> 64) as u64],
            ticks_per_ns,
            limit,
        })
    }

    /// A level has to decay first.
    #[inline]
    pub(crate) fn decays(overflow: Overflow) -> Self {
        let Overflow {
            level,
            target,
            half_life_ns,
            passed_ns,
        } = overflow;
        Self(Reason::Decays {
            passed_ns,
            half_life_ns,
            levels_low: level | target << 48,
            levels_high: (target >> 16) as u32,
            limit: None,
        })
    }

    /// Creates a refusal for now: the same request may be granted after `wait`.
    ///
    /// It is not granted earlier. A `wait` of 0 counts as 1 ns.
    ///
    /// This and the other public constructors are for limiters outside this library, such as a limiter that queries a database.
    ///
    /// ```
    /// use flowgate::Denied;
    /// use std::time::Duration;
    ///
    /// let denied = Denied::retry_in(Duration::from_millis(250));
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(250)));
    /// assert_eq!(denied.to_string(), "over the limit; retry after 250ms");
    /// assert!(Denied::retry_in(Duration::ZERO).retry_after() > Some(Duration::ZERO));
    /// ```
    #[must_use]
    pub fn retry_in(wait: Duration) -> Self {
        Self::later(wait.as_nanos().max(1), 1)
    }

    /// Creates a permanent refusal: `asked` units were requested, and the limit is `most`.
    ///
    /// The limiter never has more than `most` units.
    ///
    /// ```
    /// use flowgate::Denied;
    ///
    /// let denied = Denied::never(11, 10);
    /// assert!(denied.is_never());
    /// assert_eq!(denied.to_string(), "11 can never be granted: the maximum is 10");
    /// ```
    #[must_use]
    pub fn never(asked: u64, most: u64) -> Self {
        Self(Reason::Never {
            asked,
            most,
            limit: None,
        })
    }

    /// The grant would come after the clock's last instant.
    pub(crate) fn too_late() -> Self {
        Self(Reason::TooLate)
    }

    /// The same refusal, for a request of `n` tokens of `token` units each.
    pub(crate) fn of_tokens(mut self, n: u64, token: u64) -> Self {
        if let Reason::Never { asked, most, .. } = &mut self.0 {
            (*asked, *most) = (n, *most / token);
        }
        self
    }

    /// The same refusal, with `wait_ns` as the time to wait.
    pub(crate) fn for_ns(self, wait_ns: u64) -> Self {
        let later = Self::later(wait_ns.into(), 1);
        match self.limit() {
            Some(index) => later.by_limit(index),
            None => later,
        }
    }

    /// The same refusal, for a request that was made `early_ns` earlier.
    pub(crate) fn sooner(self, early_ns: u64) -> Self {
        match self.retry_after() {
            Some(wait) if early_ns > 0 => {
                let wait_ns = saturating_nanos(wait);
                self.for_ns(wait_ns.saturating_add(early_ns))
            }
            _ => self,
        }
    }

    /// The time at which a request that is refused at `now_ns` may be repeated. If no time is known, it is the end of time.
    pub(crate) fn until_ns(&self, now_ns: u64) -> u64 {
        let wait = self.retry_after().unwrap_or(Duration::MAX);
        u64::try_from(wait.as_nanos()).map_or(u64::MAX, |wait_ns| now_ns.saturating_add(wait_ns))
    }

    /// Creates a refusal because everything is in use, for an unknown time.
    ///
    /// ```
    /// # use flowgate::Denied;
    /// assert!(Denied::busy().is_busy());
    /// assert_eq!(Denied::busy().retry_after(), None);
    /// ```
    #[must_use]
    pub fn busy() -> Self {
        Self(Reason::Busy { limit: None })
    }

    /// The same refusal, by the limit at `index` of a gate.
    pub(crate) fn by_limit(mut self, index: usize) -> Self {
        if let Reason::Later { limit, .. }
        | Reason::Decays { limit, .. }
        | Reason::Never { limit, .. }
        | Reason::Busy { limit } = &mut self.0
        {
            *limit = limit_of(index);
        }
        self
    }

    /// Creates a refusal because too many callers wait already.
    ///
    /// `retry_after` is the time after which the same request can join the queue, if that is known.
    ///
    /// ```
    /// use flowgate::Denied;
    /// use std::time::Duration;
    ///
    /// let denied = Denied::queue_full(Some(Duration::from_secs(2)));
    /// assert!(denied.is_queue_full());
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(2)));
    /// ```
    #[must_use]
    pub fn queue_full(retry_after: Option<Duration>) -> Self {
        let wait_ns = retry_after.map_or(0, |wait| saturating_nanos(wait).max(1));
        Self(Reason::LineFull { wait_ns })
    }

    /// A refusal because there is no room for another key for `wait_ns`. 0 means that no time is known.
    pub(crate) const fn table_full(wait_ns: u64) -> Self {
        Self(Reason::TableFull { wait_ns })
    }

    /// A refusal because the backend refuses too many requests. The share that is sent is judged again after `wait_ns`.
    pub(crate) fn throttled(wait_ns: u64) -> Self {
        Self(Reason::Throttled {
            wait_ns: wait_ns.max(1),
        })
    }

    /// A refusal because more important requests go first. The threshold is judged again after `wait_ns`.
    pub(crate) fn low_priority(wait_ns: u64) -> Self {
        Self(Reason::LowPriority {
            wait_ns: wait_ns.max(1),
        })
    }

    /// A refusal of a waiter that has waited too long in a queue that persists.
    pub(crate) const fn shed() -> Self {
        Self(Reason::Shed)
    }

    /// Creates a refusal because the limiter is closed and grants nothing anymore.
    ///
    /// ```
    /// # use flowgate::Denied;
    /// assert!(Denied::closed().is_closed());
    /// ```
    #[must_use]
    pub const fn closed() -> Self {
        Self(Reason::Closed)
    }

    /// Creates a refusal because the limiter could not decide.
    ///
    /// Something that the limiter depends on has failed, or has not responded.
    ///
    /// ```
    /// # use flowgate::Denied;
    /// assert!(Denied::outage().is_outage());
    /// assert_eq!(Denied::outage().to_string(), "the limiter could not decide: its store did not answer");
    /// ```
    #[must_use]
    pub const fn outage() -> Self {
        Self(Reason::Outage)
    }

    pub(crate) fn cancelled() -> Self {
        Self(Reason::Cancelled)
    }

    /// Returns the least wait after which the same request succeeds.
    ///
    /// The wait is exact ([C3](crate::guide::guarantees#exact-retry-after-c3)), rounded up to whole nanoseconds. If no other
    /// caller takes anything in between, the same request, made with the same method, is granted after this duration and refused
    /// one nanosecond earlier.
    ///
    /// The result is `None` if no time is known:
    ///
    /// - the request can [never](Self::is_never) be granted;
    /// - it depends on what other callers do ([`is_busy`](Self::is_busy), [`is_shed`](Self::is_shed));
    /// - the limiter is closed and grants nothing anymore ([`is_closed`](Self::is_closed)).
    ///
    /// If callers wait in the queue, the result includes the units that they ask for. It is then exact for token and leaky
    /// buckets that refill continuously, and a lower bound elsewhere.
    ///
    /// For a [`Throttle`](crate::Throttle) or a [`PriorityShedder`](crate::PriorityShedder), the result is the time until more requests
    /// can be admitted.
    ///
    /// > **Note:** a retry after this wait is not a place in the queue. Other callers may be granted first.
    pub fn retry_after(&self) -> Option<Duration> {
        let Reason::Later {
            missing: [low, high],
            ticks_per_ns,
            ..
        } = self.0
        else {
            return self.other_wait();
        };
        let nanos = match high {
            // Most fit, and a division of 64 bits takes a fraction of the time.
            0 => low.div_ceil(ticks_per_ns.get()).into(),
            _ => {
                let missing = u128::from(low) | u128::from(high) << 64;
                missing.div_ceil(ticks_per_ns.get().into())
            }
        };
        Some(duration_from_nanos(nanos))
    }

    /// The wait of the refusals that are not [`Reason::Later`].
    #[cold]
    #[inline(never)]
    fn other_wait(&self) -> Option<Duration> {
        match self.0 {
            Reason::Later { .. } | Reason::Decays { .. } => self.computed().retry_after(),
            Reason::LineFull { wait_ns: 0 } | Reason::TableFull { wait_ns: 0 } => None,
            Reason::LineFull { wait_ns }
            | Reason::TableFull { wait_ns }
            | Reason::Throttled { wait_ns }
            | Reason::LowPriority { wait_ns } => Some(Duration::from_nanos(wait_ns)),
            Reason::Never { .. }
            | Reason::TooLate
            | Reason::Busy { .. }
            | Reason::Shed
            | Reason::Closed
            | Reason::Cancelled
            | Reason::Outage => None,
        }
    }

    /// The same refusal, with its wait computed.
    #[cold]
    #[inline(never)]
    fn computed(&self) -> Self {
        let Reason::Decays {
            passed_ns,
            half_life_ns,
            levels_low,
            levels_high,
            ..
        } = self.0
        else {
            return *self;
        };
        let overflow = Overflow {
            level: levels_low & ((1 << 48) - 1),
            target: levels_low >> 48 | u64::from(levels_high) << 16,
            half_life_ns,
            passed_ns,
        };
        let later = Self::later(overflow.wait_ns(), 1);
        match self.limit() {
            Some(index) => later.by_limit(index),
            None => later,
        }
    }

    /// Reports whether the request can never be granted, however long the caller waits.
    ///
    /// There are two reasons:
    ///
    /// - It asks for more than the limiter ever has. Ask for less, or use [`overdraw`](crate::TokenBucket::overdraw).
    /// - The queue of reservations reaches beyond what the clock can count, which is 584 years.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("100/s burst 20".parse()?);
    /// assert!(limiter.try_acquire_n(21).unwrap_err().is_never());
    /// # Ok::<_, flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn is_never(&self) -> bool {
        matches!(self.0, Reason::Never { .. } | Reason::TooLate)
    }

    /// Reports whether everything is in use: a concurrency limit has no free permit.
    ///
    /// Only a caller that returns a permit changes that.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(1);
    /// let permit = limit.try_acquire()?;
    /// let denied = limit.try_acquire().unwrap_err();
    /// assert!(denied.is_busy());
    /// assert_eq!(denied.retry_after(), None);
    /// # drop(permit);
    /// # Ok::<_, flowgate::Denied>(())
    /// ```
    #[inline]
    pub fn is_busy(&self) -> bool {
        matches!(self.0, Reason::Busy { .. })
    }

    /// Returns the index of the limit of a [`Gate`](crate::Gate) that refused.
    ///
    /// Limits are counted from 0, in the order in which the gate was built. [`Gate::name_of`](crate::Gate::name_of) returns the
    /// name. For a [`DualTokenBucket`](crate::DualTokenBucket), it is the index of the quota.
    pub fn limit(&self) -> Option<usize> {
        match self.0 {
            Reason::Later { limit, .. }
            | Reason::Decays { limit, .. }
            | Reason::Never { limit, .. }
            | Reason::Busy { limit } => limit.map(|limit| usize::from(limit.get()) - 1),
            _ => None,
        }
    }

    /// Reports whether the queue of waiters has reached one of its bounds.
    ///
    /// [`WaitQueue`](crate::WaitQueue) sets these bounds.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1/min".parse()?);
    /// limiter.queue().set_max_wait(Duration::from_secs(10));
    /// limiter.acquire().block()?;
    /// assert!(limiter.acquire().block().unwrap_err().is_queue_full());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn is_queue_full(&self) -> bool {
        matches!(self.0, Reason::LineFull { .. })
    }

    /// Reports whether the queue shed the waiter after too long a wait.
    ///
    /// [`Codel`](crate::Codel) is the rule. Only a queue with that rule sheds waiters.
    ///
    /// No time is known after which a retry is granted. It depends on when other callers return permits.
    ///
    /// ```
    /// use flowgate::{Codel, ConcurrencyLimit, ManualClock};
    /// use std::task::{Context, Poll, Waker};
    /// use std::{future::Future, time::Duration};
    ///
    /// let time = ManualClock::new();
    /// let limit = ConcurrencyLimit::builder(1).clock(&time).build()?;
    /// limit.queue().set_codel(Codel::default());
    ///
    /// let mut held = limit.try_acquire()?;
    /// let mut waits = [(); 3].map(|()| Box::pin(limit.acquire()));
    /// let mut poll = |index: usize| waits[index].as_mut().poll(&mut Context::from_waker(Waker::noop()));
    /// assert!((0..3).all(|index| poll(index).is_pending()));
    /// for index in 0..2 {
    ///     time.advance(Duration::from_millis(101)); // an interval in which every delay is above 5 ms
    ///     drop(held);
    ///     let Poll::Ready(permit) = poll(index) else { panic!("it is granted") };
    ///     held = permit?;
    /// }
    /// drop(held);
    /// let Poll::Ready(Err(denied)) = poll(2) else { panic!("it is shed") };
    /// assert!(denied.is_shed());
    /// assert_eq!(denied.retry_after(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn is_shed(&self) -> bool {
        matches!(self.0, Reason::Shed)
    }

    /// Reports whether a [`Keyed`](crate::Keyed) limiter had no room for another key.
    ///
    /// [`retry_after`](Self::retry_after) is then the time until the first of the keys that occupy the place becomes inactive.
    ///
    /// ```
    /// # use flowgate::{Keyed, WhenFull};
    /// let limits = Keyed::token_bucket("1/h".parse()?).when_full(WhenFull::Deny).capacity(100)?;
    /// let denied = (0..1000).find_map(|key| limits.try_acquire(&key).err());
    /// assert!(denied.unwrap().is_table_full());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn is_table_full(&self) -> bool {
        matches!(self.0, Reason::TableFull { .. })
    }

    /// Reports whether a [`Throttle`](crate::Throttle) refused, because the backend refuses too many requests.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Throttle};
    /// let time = ManualClock::new();
    /// let throttle = Throttle::builder().clock(&time).build()?;
    /// (0..20).for_each(|_| throttle.record(false)); // a backend refuses everything
    /// time.advance(throttle.bucket());
    /// assert!(throttle.try_begin().unwrap_err().is_throttled());
    /// # Ok::<_, flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn is_throttled(&self) -> bool {
        matches!(self.0, Reason::Throttled { .. })
    }

    /// Reports whether a [`PriorityShedder`](crate::PriorityShedder) refused, because more important requests go first.
    ///
    /// ```
    /// # use flowgate::{ManualClock, PriorityShedder};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let shedder = PriorityShedder::builder(2).clock(&time).build()?;
    /// for _ in 0..20 {
    ///     shedder.try_admit(0)?;
    ///     shedder.note_excess(); // the limit behind it is full
    /// }
    /// time.advance(Duration::from_millis(100));
    /// let denied = (0..20).find_map(|_| shedder.try_admit(0).err()).expect("a part is shed");
    /// assert!(denied.is_low_priority());
    /// assert!(shedder.try_admit(1).is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn is_low_priority(&self) -> bool {
        matches!(self.0, Reason::LowPriority { .. })
    }

    /// Reports whether the limiter has been closed, so that it grants nothing anymore.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("100/s".parse()?);
    /// limiter.queue().close();
    /// assert!(limiter.try_acquire().unwrap_err().is_closed());
    /// # Ok::<_, flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn is_closed(&self) -> bool {
        matches!(self.0, Reason::Closed)
    }

    /// Reports whether the caller's own [`CancelHandle`](crate::CancelHandle) ended the wait.
    ///
    /// ```
    /// use flowgate::{CancelHandle, TokenBucket};
    ///
    /// let limiter = TokenBucket::new("100/s".parse()?);
    /// let shutdown = CancelHandle::new();
    /// shutdown.cancel();
    /// let denied = limiter.acquire().cancelled_by(&shutdown).block().unwrap_err();
    /// assert!(denied.is_cancelled());
    /// # Ok::<_, flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, Reason::Cancelled)
    }

    /// Reports whether the limiter could not decide.
    ///
    /// Something that it depends on has failed ([`Denied::outage`]). Of the limiters of this library, only a
    /// [`Leased`](crate::Leased) one has such a dependency: it is cut off from its authority.
    ///
    /// ```
    /// use flowgate::{Denied, TokenBucket};
    ///
    /// /// Lets operations go ahead while the store is down.
    /// fn fail_open(answer: Result<(), Denied>) -> Result<(), Denied> {
    ///     match answer {
    ///         Err(denied) if denied.is_outage() => Ok(()),
    ///         answer => answer,
    ///     }
    /// }
    ///
    /// assert!(fail_open(Err(Denied::outage())).is_ok());
    /// assert!(fail_open(TokenBucket::new("1/h".parse()?).try_acquire_n(2)).is_err());
    /// # Ok::<_, flowgate::QuotaError>(())
    /// ```
    #[inline]
    pub fn is_outage(&self) -> bool {
        matches!(self.0, Reason::Outage)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Never { asked, most, .. } => {
                write!(f, "{asked} can never be granted: the maximum is {most}")
            }
            Reason::TooLate => {
                f.write_str("its turn would come after the end of time, in 584 years")
            }
            Reason::Busy { .. } => f.write_str("no slot is free"),
            Reason::LineFull { wait_ns: 0 } => f.write_str("the line of waiters is full"),
            Reason::LineFull { .. } => {
                let wait = self.retry_after().unwrap_or_default();
                write!(f, "the line of waiters is full; retry after {wait:?}")
            }
            Reason::TableFull { wait_ns: 0 } => f.write_str("no room for another key"),
            Reason::TableFull { .. } => {
                let wait = self.retry_after().unwrap_or_default();
                write!(f, "no room for another key; retry after {wait:?}")
            }
            Reason::Throttled { .. } => {
                let wait = self.retry_after().unwrap_or_default();
                write!(
                    f,
                    "not sent, because the backend refuses too many requests; retry after {wait:?}"
                )
            }
            Reason::LowPriority { .. } => {
                let wait = self.retry_after().unwrap_or_default();
                write!(
                    f,
                    "shed, because more important requests go first; retry after {wait:?}"
                )
            }
            Reason::Shed => f.write_str("shed: it waited too long in a queue that persists"),
            Reason::Closed => f.write_str("closed: nothing is granted any more"),
            Reason::Cancelled => f.write_str("the wait was cancelled"),
            Reason::Outage => f.write_str("the limiter could not decide: its store did not answer"),
            Reason::Later { .. } | Reason::Decays { .. } => {
                let wait = self.retry_after().unwrap_or_default();
                write!(f, "over the limit; retry after {wait:?}")
            }
        }
    }
}

/// A wait that has not been computed equals the same wait, computed.
impl PartialEq for Denied {
    fn eq(&self, other: &Self) -> bool {
        self.computed().0 == other.computed().0
    }
}

impl Eq for Denied {}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Denied({self})")
    }
}

impl core::error::Error for Denied {}

/// Converts any number of nanoseconds that a limiter can compute. `Duration` holds 2⁹³.
pub(crate) fn duration_from_nanos(nanos: u128) -> Duration {
    // Here, too, 64 bits are faster.
    if let Ok(nanos) = u64::try_from(nanos) {
        return Duration::from_nanos(nanos);
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % 1_000_000_000) as u32)
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use crate::algorithm::half_life::HalfLife;

    /// A decision returns one through memory.
    #[test]
    fn c9_a_refusal_is_small() {
        assert_eq!(size_of::<Result<(), Denied>>(), 32);
    }

    /// Whatever the numbers, up to the largest that a bucket has.
    #[test]
    fn c3_a_wait_that_is_computed_later_is_the_same() {
        let largest = (1 << 48) - 1;
        for level in [2, 1 << 31, 0x1234_5678_9abc, largest] {
            for target in [0, 1, level / 3, level - 1] {
                for half_life_ns in [1, 1_000_000_007, i64::MAX as u64] {
                    for passed_ns in [0, 5, u64::MAX] {
                        let overflow = Overflow {
                            level,
                            target,
                            half_life_ns,
                            passed_ns,
                        };
                        let half_life = HalfLife::new(half_life_ns);
                        let least_ns = half_life.least_ns(level, target);
                        let computed = Denied::later(least_ns.saturating_sub(passed_ns.into()), 1);
                        let denied = Denied::decays(overflow);
                        assert_eq!(denied.retry_after(), computed.retry_after(), "{overflow:?}");
                        assert_eq!(denied, computed);
                        assert_eq!(denied.to_string(), computed.to_string());
                        let by_third = denied.by_limit(2);
                        assert_eq!(by_third.limit(), Some(2));
                        assert_eq!(by_third, computed.by_limit(2));
                        assert_ne!(by_third, denied);
                    }
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_what_it_is_where_it_is_printed_for_debugging() {
        let denied = Denied::later(1_500, 1);
        assert_eq!(
            format!("{denied:?}"),
            "Denied(over the limit; retry after 1.5µs)"
        );
    }
}
