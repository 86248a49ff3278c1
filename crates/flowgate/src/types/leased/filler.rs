//! The side of a limiter that fills it.

use super::Leased;
use super::engine::checked;
use crate::clock::Timestamp;
use crate::quota::QuotaError;
use core::task::Waker;

/// The side of a [`Leased`] limiter through which tokens are supplied.
///
/// [`Leased::filler`] creates it. One task uses it, which asks the authority:
///
/// 1. It calls [`wake_below`](Self::wake_below), and sleeps.
/// 2. When it is woken, it reads [`held`](Self::held) and [`take_use`](Self::take_use), notes the time, and asks.
/// 3. It calls [`grant`](Self::grant) or [`deny_until`](Self::deny_until) with the answer, or [`cut_off`](Self::cut_off) if there
///    is none.
///
/// > **Warning:** each call of [`grant`](Self::grant) admits as many operations as it names. A token that the authority has not
/// > debited is a token too many.
#[derive(Clone, Copy, Debug)]
pub struct Filler<'a>(&'a Leased);

/// The units that a [`Leased`] limiter holds, and their last end.
///
/// ```
/// use flowgate::{Leased, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = Leased::builder(100).clock(&time).build()?;
/// assert_eq!(limiter.filler().held().units, 0);
/// limiter.filler().grant(60, time.now() + Duration::from_millis(50));
/// limiter.filler().grant(40, time.now() + Duration::from_millis(80));
/// let held = limiter.filler().held();
/// assert_eq!(held.units, 100);
/// assert_eq!(held.until.as_nanos(), 79_953_920); // whole ticks of 65,536 ns
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseHeld {
    /// Units that can be taken now.
    pub units: u64,
    /// The instant from which none of them can be taken; now, if there are none.
    pub until: Timestamp,
}

/// How a [`Leased`] limiter was used since the filler last asked.
///
/// ```
/// use flowgate::{LeaseUse, Leased, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = Leased::builder(100).clock(&time).build()?;
/// limiter.filler().grant(10, time.now() + Duration::from_millis(50));
/// limiter.try_acquire_n(7)?;
/// assert!(limiter.try_acquire_n(5).is_err());
/// time.advance(Duration::from_millis(50));
/// assert!(limiter.try_acquire().is_err());
///
/// let used = limiter.filler().take_use();
/// assert_eq!(used, LeaseUse { admitted: 7, refused: 6, largest: 5, unspent: 3 });
/// assert_eq!(limiter.filler().take_use(), LeaseUse::default());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseUse {
    /// Units that were admitted. Refunded units are subtracted.
    pub admitted: u64,
    /// Units of requests that were refused, including those that then waited.
    pub refused: u64,
    /// The units of the largest of these requests.
    pub largest: u64,
    /// Units that no request took before their lease ended.
    pub unspent: u64,
}

impl<'a> Filler<'a> {
    pub(super) const fn new(limiter: &'a Leased) -> Self {
        Self(limiter)
    }

    /// Adds a lease: `units` that the authority has debited, to be taken before `until`.
    ///
    /// Count `until` from the time at which the request was **sent**. Counted from the answer, tokens would be valid for longer
    /// than the authority assumes. `until` is rounded down to whole ticks of 65,536 ns.
    ///
    /// Returns how many units can be taken: 0 if the lease has ended, and at most 4,194,303. A limiter holds two leases. If
    /// there are two already, the one with fewer units is lost.
    ///
    /// ```
    /// # use flowgate::{Leased, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = Leased::builder(100).clock(&time).build()?;
    /// let sent = time.now();
    /// time.advance(Duration::from_millis(2)); // until the answer arrives
    /// assert_eq!(limiter.filler().grant(20, sent + Duration::from_millis(50)), 20);
    /// assert_eq!(limiter.take_up_to(30), 20);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn grant(self, units: u64, until: Timestamp) -> u64 {
        let _change = self.0.queue.change(self.0);
        let now_ns = self.0.now_ns();
        self.0.engine.grant(units, until.as_nanos(), now_ns)
    }

    /// Reports that the authority has no tokens until `then`.
    ///
    /// Until then, requests beyond the leases are refused, and [`Denied::retry_after`](crate::Denied::retry_after) is the time
    /// until `then`. The filler asks again at `then`, without being woken.
    ///
    /// ```
    /// # use flowgate::{Leased, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = Leased::builder(100).clock(&time).build()?;
    /// let wait = Duration::from_millis(30);
    /// limiter.filler().deny_until(time.now() + wait);
    /// assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(wait));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn deny_until(self, then: Timestamp) {
        let _change = self.0.queue.change(self.0);
        self.0.engine.deny_until(then.as_nanos());
    }

    /// Reports that the authority cannot be asked, until the next [`grant`](Self::grant) or [`deny_until`](Self::deny_until).
    ///
    /// Requests beyond the leases are refused with [`Denied::is_outage`](crate::Denied::is_outage). So are the waiters in the
    /// [queue](crate::RateLimiter::queue).
    ///
    /// ```
    /// # use flowgate::{Leased, ManualClock};
    /// let limiter = Leased::builder(100).clock(ManualClock::new()).build()?;
    /// limiter.filler().cut_off();
    /// let denied = limiter.try_acquire().unwrap_err();
    /// assert!(denied.is_outage()); // 503, not 429: no authority has refused
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn cut_off(self) {
        let _change = self.0.queue.change(self.0);
        self.0.engine.cut_off();
    }

    /// Replaces the largest request that the limiter admits.
    ///
    /// Leases that are held stay. Waiters for more than that are refused with [`Denied::is_never`](crate::Denied::is_never).
    ///
    /// ```
    /// # use flowgate::{Leased, ManualClock};
    /// let limiter = Leased::builder(100).clock(ManualClock::new()).build()?;
    /// limiter.filler().set_limit(500)?;
    /// assert!(!limiter.try_acquire_n(500).unwrap_err().is_never());
    /// assert!(limiter.filler().set_limit(0).is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `limit` is not 1 to 4,194,303. Nothing is changed then.
    pub fn set_limit(self, limit: u64) -> Result<(), QuotaError> {
        let limit = checked(limit)?;
        let _change = self.0.queue.reconfigure(self.0);
        self.0.engine.set_limit(limit);
        Ok(())
    }

    /// Returns the units that are left, and until when.
    pub fn held(self) -> LeaseHeld {
        let held = self.0.engine.held(self.0.now_ns());
        LeaseHeld {
            units: held.units,
            until: Timestamp::from_nanos(held.until_ns),
        }
    }

    /// Returns how the limiter was used since the last call.
    pub fn take_use(self) -> LeaseUse {
        let used = self.0.engine.take_used();
        LeaseUse {
            admitted: used.admitted,
            refused: used.refused,
            largest: used.largest,
            unspent: used.unspent,
        }
    }

    /// Wakes `waker` once, when fewer than `low` units are left or a request is refused.
    ///
    /// If requests have been refused since the last [`take_use`](Self::take_use), or callers wait, it is woken before this
    /// method returns. A later call replaces the waker. A unit whose lease ends unused wakes no waker, so a filler that wants to
    /// ask before the end needs a timer.
    ///
    /// The decision that finds too few units wakes the waker. It may hold locks of the limiter's queue. So the waker must only
    /// schedule the task, as those of runtimes do. It must not use the limiter itself.
    ///
    /// ```
    /// # use flowgate::{Leased, ManualClock};
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use std::sync::Arc;
    /// # use std::task::{Wake, Waker};
    /// # use std::time::Duration;
    /// # #[derive(Default)]
    /// # struct Flag(AtomicBool);
    /// # impl Wake for Flag {
    /// #     fn wake(self: Arc<Self>) {
    /// #         self.0.store(true, Ordering::Relaxed);
    /// #     }
    /// # }
    /// let time = ManualClock::new();
    /// let limiter = Leased::builder(100).clock(&time).build()?;
    /// limiter.filler().grant(10, time.now() + Duration::from_millis(50));
    /// let woken = Arc::new(Flag::default());
    /// limiter.filler().wake_below(5, &Waker::from(Arc::clone(&woken)));
    /// limiter.try_acquire_n(5)?;
    /// assert!(!woken.0.load(Ordering::Relaxed));
    /// limiter.try_acquire()?;
    /// assert!(woken.0.load(Ordering::Relaxed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wake_below(self, low: u64, waker: &Waker) {
        let is_waited_for = !self.0.queue().is_empty();
        self.0.engine.watch(low, waker.clone(), is_waited_for);
    }
}
