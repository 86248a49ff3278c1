//! [`ConcurrencyLimit`]: the public type, made of [`Slots`] and a queue.

mod builder;
#[cfg(all(test, flowgate_loom))]
mod model;
mod permit;
mod returned;
mod slots;
mod supply;

pub use builder::ConcurrencyLimitBuilder;
pub(crate) use builder::check;
pub use permit::OwnedPermit;
pub(crate) use slots::{MOST, denied};

use crate::clock::Clock;
use crate::concurrency::permit::{Lender, Permit, Permits, permit_verbs};
use crate::limiter::Snapshot;
use crate::limiter::sealed::{Plumbing, Sealed};
use crate::primitive::const_unless_loom;
use crate::queue::{Acquire, HOLD, Queue, WaitQueue};
use crate::quota::QuotaError;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use returned::Returned;
use slots::{Slots, View};

/// A limit on concurrent operations: at most `limit` are in flight at any instant.
///
/// An operation acquires a [`Permit`] when it starts, and returns it by dropping it. A rate limiter waits for time to pass; a
/// concurrency limit waits for other operations to finish. It is also called a *counting semaphore* or a *bulkhead*.
///
/// ```text
///              ╭───────────────╮
///              │ ■ in flight   │  a permit each
///   ○ ○ ○ ────▶│ ■             │──▶ dropped: the next waiter gets the permit
///     queue    │ ■             │
///              │ □ free        │
///              ╰───────────────╯
/// ```
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = ConcurrencyLimit::new(2);
/// let first = limit.try_acquire()?;
/// let second = limit.acquire().await?;
/// assert!(limit.try_acquire().unwrap_err().is_busy());
///
/// drop(first);
/// let _third = limit.acquire().within(Duration::from_millis(20)).await?;
/// assert_eq!((limit.in_flight(), limit.available()), (2, 0));
/// # drop(second);
/// # Ok::<_, flowgate::Denied>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - **Never over-admits** ([C1](crate::guide::guarantees#never-over-admits-c1)). The permits in use are at most the limit,
///   on every schedule of threads. After the limit was lowered below the number in use, no operation is admitted until enough
///   permits have been returned.
/// - **Never refuses needlessly** ([C2](crate::guide::guarantees#never-refuses-needlessly-c2)). A returned permit is offered
///   to the next waiter before any other caller.
/// - **FIFO fairness** ([C6](crate::guide::guarantees#fifo-fairness-c6)). Large requests are served as well as small ones:
///   while the next waiter needs five permits, a later request for one waits too. `try_acquire` does not overtake waiters.
///   [`WaitQueue::set_order`] sets another order.
///
/// # Amounts
///
/// An operation may take several permits. It gets all of them or none.
///
/// - `n` = 0 succeeds and changes nothing.
/// - `n` above the limit is refused with [`Denied::is_never`], and never waits, unless the limit is 0. If the limit is
///   lowered, waiters that ask for more than the new limit are refused immediately in the same way.
/// - A limit of 0 is a pause. Requests are refused as busy, or wait, until the limit is raised.
///
/// # Memory ordering
///
/// Dropping a permit happens before the next holder of that permit acquires it: the next holder sees what was written under
/// the dropped one.
///
/// # Cancel safety
///
/// A wait that is dropped leaves the queue and does not delay the other waiters. A permit that it had been granted by then
/// goes to the next waiter. See [`Acquire`].
///
/// # Performance
///
/// Acquiring a permit takes a load and one compare-and-swap on one 64-bit word. Returning it takes a load and one
/// subtraction. Neither reads a clock, takes a lock or allocates memory. Only two kinds of callers use the queue: a caller
/// that waits, and a caller that returns a permit while another one waits. The permit then goes directly to the next waiter.
///
/// A limit is not `Clone`, because a clone would be a second limit. Share it by reference, `Arc`, or `static`:
///
/// ```
/// use flowgate::ConcurrencyLimit;
///
/// static CONVERSIONS: ConcurrencyLimit = ConcurrencyLimit::new(4);
/// let permit = CONVERSIONS.try_acquire();
/// assert!(permit.is_ok());
/// ```
///
/// [`sizing::limit_for`](crate::sizing::limit_for) computes how many permits a service needs for its rate and latency.
pub struct ConcurrencyLimit {
    slots: Slots,
    clock: Clock,
    queue: Queue,
}

impl ConcurrencyLimit {
    const_unless_loom! {
        /// Creates a limit with `limit` permits, all of them free. Deadlines use [`Clock::system`].
        ///
        /// # Panics
        ///
        /// Panics if `limit` is above 2³¹ − 1; in a constant, that is a compile error. For a value that is known only at run
        /// time, [`builder`](Self::builder) returns an error instead.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(limit: u32) -> Self {
            assert!(limit <= slots::MOST, "a concurrency limit is at most 2147483647");
            Self::with_clock(limit, Clock::system())
        }
    }

    const_unless_loom! {
        pub(crate) const fn with_clock(limit: u32, clock: Clock) -> Self {
            Self {
                slots: Slots::new(limit),
                clock,
                queue: Queue::new(),
            }
        }
    }

    /// Creates a builder, for settings other than the default ones.
    ///
    /// ```
    /// # use flowgate::{ConcurrencyLimit, ManualClock};
    /// let time = ManualClock::new();
    /// let limit = ConcurrencyLimit::builder(10).clock(&time).build()?; // deadlines pass when `time` does
    /// let error = ConcurrencyLimit::builder(3_000_000_000).build().unwrap_err();
    /// assert_eq!(error.to_string(), "a concurrency limit of 3000000000 is out of range: 0 to 2147483647");
    /// # drop(limit);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn builder(limit: u32) -> ConcurrencyLimitBuilder {
        ConcurrencyLimitBuilder { limit, clock: None }
    }

    permit_verbs! {
        /// Acquires one permit, or returns why not.
        ///
        /// # Errors
        ///
        /// Returns [`Denied`]. The reason is one of these:
        ///
        /// - [`is_busy`](Denied::is_busy): no permit is free, or other callers wait for it.
        /// - [`is_closed`](Denied::is_closed): [`WaitQueue::close`] has been called.
        ///
        /// [`retry_after`](Denied::retry_after) is `None`, because it is not known when a permit will be returned.
        try_acquire;

        /// Acquires `n` permits, all or none.
        ///
        /// ```
        /// # use flowgate::ConcurrencyLimit;
        /// let limit = ConcurrencyLimit::new(5);
        /// let permit = limit.try_acquire_n(4)?;
        /// assert!(limit.try_acquire_n(2).unwrap_err().is_busy());
        /// assert!(limit.try_acquire_n(6).unwrap_err().is_never());
        /// # drop(permit);
        /// # Ok::<(), flowgate::Denied>(())
        /// ```
        ///
        /// # Errors
        ///
        /// Returns [`Denied`]. The reason is one of these:
        ///
        /// - [`is_busy`](Denied::is_busy): fewer than `n` permits are free, or other callers wait for them.
        /// - [`is_never`](Denied::is_never): `n` is above the limit.
        /// - [`is_closed`](Denied::is_closed): [`WaitQueue::close`] has been called.
        try_acquire_n;

        /// Acquires one permit; the [`OwnedPermit`] keeps the limit alive.
        ///
        /// ```
        /// use flowgate::ConcurrencyLimit;
        /// use std::sync::Arc;
        ///
        /// let workers = Arc::new(ConcurrencyLimit::new(2));
        /// if let Ok(permit) = workers.try_acquire_owned() {
        ///     std::thread::spawn(move || {
        ///         // … work …
        ///         drop(permit);
        ///     });
        /// }
        /// ```
        ///
        /// # Errors
        ///
        /// Returns [`Denied`], as [`try_acquire`](Self::try_acquire) does: if no permit is free or other callers wait
        /// ([`is_busy`](Denied::is_busy)), or if the limit is closed ([`is_closed`](Denied::is_closed)).
        try_acquire_owned;

        /// Acquires `n` permits, all or none; the [`OwnedPermit`] keeps the limit alive.
        ///
        /// # Errors
        ///
        /// Returns [`Denied`], as [`try_acquire_n`](Self::try_acquire_n) does: if fewer than `n` permits are free or other
        /// callers wait ([`is_busy`](Denied::is_busy)), if `n` is above the limit ([`is_never`](Denied::is_never)), or if the
        /// limit is closed ([`is_closed`](Denied::is_closed)).
        try_acquire_n_owned;

        /// Waits in the queue for one permit.
        ///
        /// The result is a future that is also a builder, for tasks (`.await`) and threads ([`.block()`](crate::Acquire::block)).
        ///
        /// # Errors
        ///
        /// When awaited, it returns [`Denied`]. The reason is one of these:
        ///
        /// - [`is_busy`](Denied::is_busy): the permits were not free by the deadline.
        /// - [`is_never`](Denied::is_never): more permits are asked for than the limit.
        /// - [`is_queue_full`](Denied::is_queue_full): the [queue](Self::queue) is full.
        /// - [`is_shed`](Denied::is_shed): the queue sheds waiters under overload ([`WaitQueue::set_codel`]).
        /// - [`is_closed`](Denied::is_closed): the queue is closed.
        /// - [`is_cancelled`](Denied::is_cancelled): a [`CancelHandle`](crate::CancelHandle) ended the wait.
        acquire;

        /// Waits in the queue for a permit that keeps the limit alive.
        ///
        /// The future keeps the limit alive, too.
        ///
        /// ```
        /// use flowgate::ConcurrencyLimit;
        /// use std::sync::Arc;
        ///
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// let limit = Arc::new(ConcurrencyLimit::new(10));
        /// for page in 0..100 {
        ///     let permit = limit.acquire_owned().await?;
        ///     tokio::spawn(async move {
        ///         // … fetch the page …
        ///         drop(permit);
        ///     });
        /// }
        /// # Ok::<_, flowgate::Denied>(()) })?;
        /// # Ok::<_, Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// When awaited, it returns [`Denied`], as [`acquire`](Self::acquire) does. The reasons are the same: a missed deadline, a
        /// request above the limit, a full or closed queue, or a cancelled wait.
        acquire_owned;
    }

    /// Acquires the free permits, up to `n`.
    ///
    /// It acquires none while other callers wait, or after [`WaitQueue::close`].
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(5);
    /// let permit = limit.take_up_to(3);
    /// assert_eq!((permit.units(), limit.take_up_to(3).units()), (3, 2));
    /// ```
    pub fn take_up_to(&self, n: u64) -> Permit<&Self> {
        let mut bar = HOLD;
        loop {
            let seen = self.slots.view();
            if bar != 0 && seen.is_held() {
                if self.pass(1).is_err() {
                    return Permit::new(self, 0);
                }
                bar = 0;
            }
            let n = n.min(seen.free());
            if n == 0 || self.slots.take(n, bar).is_ok() {
                return Permit::new(self, n);
            }
        }
    }

    /// Acquires all free permits.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(5);
    /// let one = limit.try_acquire()?;
    /// assert_eq!(limit.drain().units(), 4);
    /// # drop(one);
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn drain(&self) -> Permit<&Self> {
        self.take_up_to(u64::MAX)
    }

    /// Returns the number of permits that could be acquired now.
    ///
    /// It is 0 while other callers wait for what is free, or after [`WaitQueue::close`].
    pub fn available(&self) -> u64 {
        available(self.slots.view())
    }

    /// Returns the number of permits in use.
    ///
    /// It exceeds the [limit](Self::limit) for a while after that was lowered.
    pub fn in_flight(&self) -> u64 {
        self.slots.view().in_flight()
    }

    /// Returns the limit and what remains of it, as a consistent snapshot.
    ///
    /// `reset_after` is zero if all permits are available. Otherwise it is [`Duration::MAX`], because it is not known when
    /// permits will be returned.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(10);
    /// let permit = limit.try_acquire_n(3)?;
    /// let seen = limit.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (10, 7));
    /// # drop(permit);
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let seen = self.slots.view();
        let (limit, remaining) = (seen.limit().into(), available(seen));
        Snapshot {
            limit,
            remaining,
            reset_after: if seen.in_flight() == 0 && remaining == limit {
                Duration::ZERO
            } else {
                Duration::MAX
            },
        }
    }

    /// Returns the limit.
    pub fn limit(&self) -> u32 {
        self.slots.view().limit()
    }

    /// Replaces the limit immediately.
    ///
    /// A higher limit serves the waiters that now fit, in order, before this method returns. A lower limit revokes no
    /// permits: if more are in use than it allows, no operation is admitted until enough permits have been returned. 0 is a
    /// pause.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(5);
    /// let mut permit = limit.try_acquire_n(4)?;
    /// limit.set_limit(3)?;
    /// assert_eq!((limit.in_flight(), limit.available()), (4, 0));
    /// drop(permit.split(2));
    /// assert_eq!((limit.in_flight(), limit.available()), (2, 1));
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `limit` is above 2³¹ − 1. Nothing changes then.
    pub fn set_limit(&self, limit: u32) -> Result<(), QuotaError> {
        let limit = builder::check(limit)?;
        let _change = self.queue.reconfigure(self);
        self.slots.set_limit(limit);
        Ok(())
    }

    /// Returns the queue: its length, its order and bounds, and [`close`](WaitQueue::close).
    ///
    /// Waiters of a concurrency limit do not wait for a point in time; they wait for a permit to be returned.
    /// [`Precision`](crate::Precision) therefore makes no difference. The length of a wait is not known in advance, so
    /// [`WaitQueue::set_max_wait`] refuses no request. Set deadlines instead ([`Acquire::within`]).
    pub fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self)
    }

    /// Returns the clock that deadlines use.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Takes `n` slots for a new request.
    #[inline(always)]
    pub(crate) fn take(&self, n: u64) -> Result<(), Denied> {
        match self.slots.take(n, HOLD) {
            Ok(()) => Ok(()),
            Err(seen) if seen.is_held() => self.stand_back(n),
            Err(seen) => Err(seen.denied(n)),
        }
    }

    /// Takes `n` slots if there are no waiters after all.
    #[cold]
    #[inline(never)]
    fn stand_back(&self, n: u64) -> Result<(), Denied> {
        self.pass(n)?;
        self.take_past_the_line(n)
    }

    /// Lets a new request for `n` slots pass, or returns why not.
    fn pass(&self, n: u64) -> Result<(), Denied> {
        let now_ns = self.clock.now().as_nanos();
        self.queue.pass(self, now_ns, Some(n))
    }

    /// Takes `n` slots, whether there are waiters or not.
    fn take_past_the_line(&self, n: u64) -> Result<(), Denied> {
        self.slots.take(n, 0).map_err(|seen| seen.denied(n))
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, n: u64) {
        let view = self.slots.view();
        // Where new requests may overtake, they get a chance to take them.
        if view.is_awaited() && view.is_held() {
            self.hand_on(n);
        } else if self.slots.give_back(n) {
            // A caller has begun to wait since.
            self.queue.serve_changed(self);
        }
    }

    /// Gives `n` slots to the waiters, as far as they go.
    #[cold]
    #[inline(never)]
    fn hand_on(&self, n: u64) {
        let returned = Returned::new(self, n);
        self.queue.serve_changed(&returned);
    }

    fn forget(&self, n: u64) {
        let _change = self.queue.reconfigure(self);
        self.slots.forget(n);
    }
}

/// Returns how many slots a new request could take.
fn available(seen: View) -> u64 {
    if seen.is_held() { 0 } else { seen.free() }
}

impl Lender for ConcurrencyLimit {}

impl Sealed for ConcurrencyLimit {
    fn supply(&self) -> Plumbing<'_> {
        Plumbing(self)
    }
}

impl fmt::Debug for ConcurrencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.slots.view();
        f.debug_struct("ConcurrencyLimit")
            .field("limit", &seen.limit())
            .field("in_flight", &seen.in_flight())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
