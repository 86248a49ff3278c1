//! [`ConcurrencyLimit`]: the public face over [`Slots`] and a queue.

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
use crate::concurrency::permit::{Lender, Permit, Permits};
use crate::limiter::{
    Limiter, Snapshot,
    sealed::{Plumbing, Sealed},
};
use crate::primitive::const_unless_loom;
use crate::queue::{Acquire, HOLD, Queue, WaitQueue};
use crate::quota::QuotaError;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use returned::Returned;
use slots::{Slots, View};

/// Bounds how many operations are under way at once: **in flight ≤ limit**, at every instant.
///
/// Whoever starts takes a slot, as a [`Permit`], and gives it back by dropping that. Where a rate limiter waits for time to
/// pass, this waits for others to finish: it is a *counting semaphore*, a *bulkhead*.
///
/// ```text
///              ╭───────────────╮
///              │ ■ in flight   │  a permit each
///   ○ ○ ○ ────▶│ ■             │──▶ dropped: the slot goes to the next in the queue
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
/// # What it promises
///
/// - **Never over** (contract C1). What is in flight is at most the limit, on every schedule of threads. After the limit
///   was lowered below what is in flight, nobody is admitted until that has shrunk by itself.
/// - **Nothing wasted** (C2). A slot that is given back goes to the next in the queue before it is offered to anybody else.
/// - **In turn** (C6). Large requests are served as well as small ones: while the next in the queue waits for five slots, a
///   later request for one waits too. `try_acquire` does not overtake. [`WaitQueue::set_order`] knows other orders.
///
/// # Amounts
///
/// An operation may take several slots, all at once or none. `n` = 0 succeeds and changes nothing. `n` above the limit
/// is refused with [`Denied::is_never`], and never waits; those who wait when the limit is lowered below what they ask
/// for are refused in the same way, at once. A limit of 0 is a pause: whoever asks is refused as busy, or waits,
/// until the limit is raised.
///
/// # Memory ordering
///
/// Dropping a permit happens before whoever takes the slot next has its own: what was written under the first is seen
/// under the second.
///
/// # Cancel safety
///
/// A wait that is dropped leaves the queue, and costs the others nothing; a slot that had been granted by then goes to
/// the next one. See [`Acquire`].
///
/// # Cost
///
/// Taking a slot is a load and one compare-and-swap on one 64-bit word, giving it back a load and one subtraction; no
/// clock is read, no lock taken, no memory. Only a caller that waits, and a caller that gives a slot back while
/// another one waits, comes to the queue, where the slot goes from hand to hand.
///
/// A limit is not `Clone`: two would be two limits. Share it by reference, `Arc`, or `static`:
///
/// ```
/// use flowgate::ConcurrencyLimit;
///
/// static CONVERSIONS: ConcurrencyLimit = ConcurrencyLimit::new(4);
/// let permit = CONVERSIONS.try_acquire();
/// assert!(permit.is_ok());
/// ```
///
/// How many slots a service needs for its rate and latency: [`sizing::limit_for`](crate::sizing::limit_for).
pub struct ConcurrencyLimit {
    slots: Slots,
    clock: Clock,
    queue: Queue,
}

impl ConcurrencyLimit {
    const_unless_loom! {
        /// `limit` slots, all of them free; deadlines are told by [`Clock::system`].
        ///
        /// # Panics
        ///
        /// If `limit` is above 2³¹ − 1; in a constant that is a compile error. For what is not known beforehand,
        /// [`builder`](Self::builder) returns an error instead.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(limit: u32) -> Self {
            assert!(limit <= slots::MOST, "a concurrency limit is at most 2147483647");
            Self::with_clock(limit, Clock::system())
        }
    }

    const_unless_loom! {
        const fn with_clock(limit: u32, clock: Clock) -> Self {
            Self {
                slots: Slots::new(limit),
                clock,
                queue: Queue::new(),
            }
        }
    }

    /// A limit with settings other than the default ones.
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

    /// Takes one slot, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`]: [`is_busy`](Denied::is_busy) if there is none, or others are in the queue for it;
    /// [`is_closed`](Denied::is_closed) after [`WaitQueue::close`]. No time is known then, so
    /// [`retry_after`](Denied::retry_after) is `None`.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, Denied> {
        self.try_acquire_n(1)
    }

    /// Takes `n` slots, all or none.
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
    /// As [`try_acquire`](Self::try_acquire); [`is_never`](Denied::is_never) if `n` is above the limit.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<Permit<&Self>, Denied> {
        self.take(n)?;
        Ok(Permit::new(self, n))
    }

    /// [`try_acquire`](Self::try_acquire), for a permit that keeps the limit alive.
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
    /// As there.
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<OwnedPermit, Denied> {
        self.try_acquire_n_owned(1)
    }

    /// [`try_acquire_n`](Self::try_acquire_n), for a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n_owned(self: &Arc<Self>, n: u64) -> Result<OwnedPermit, Denied> {
        self.take(n)?;
        Ok(OwnedPermit::new(Arc::clone(self), n))
    }

    /// Waits for a slot, in turn: a future that is also a builder, for tasks (`.await`) and threads
    /// ([`.block()`](crate::Acquire::block)).
    ///
    /// # Errors
    ///
    /// When awaited: [`Denied`] if as many as are asked for can never be had, or were not by the deadline, or if the
    /// [queue](Self::queue) is full or closed.
    pub fn acquire(&self) -> Acquire<Permits<&Self>> {
        Acquire::new(Permits(self))
    }

    /// [`acquire`](Self::acquire), for a permit that keeps the limit alive, as the future does.
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
    /// As there.
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Permits<Arc<Self>>> {
        Acquire::new(Permits(Arc::clone(self)))
    }

    /// Takes what there is, up to `n` slots; none while others wait, or after [`WaitQueue::close`].
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

    /// Takes all slots that are free.
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

    /// How many slots could be taken now; 0 while others wait for what is free, or after [`WaitQueue::close`].
    pub fn available(&self) -> u64 {
        available(self.slots.view())
    }

    /// How many slots are in use. More than the [limit](Self::limit) for a while after that was lowered.
    pub fn in_flight(&self) -> u64 {
        self.slots.view().in_flight()
    }

    /// The limit, and what remains of it, seen at one instant. When it is whole again nobody knows: unless it is,
    /// `reset_after` is [`Duration::MAX`].
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

    /// How many slots there are.
    pub fn limit(&self) -> u32 {
        self.slots.view().limit()
    }

    /// Puts another limit in force, at once.
    ///
    /// A larger one serves as many of those who wait as now fit, in order, before this returns. A smaller one takes nothing
    /// away from anybody: if more is in flight than it allows, nobody is admitted until enough has been given back. 0 is a pause.
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
    /// [`QuotaError`] if it is above 2³¹ − 1; nothing is then changed.
    pub fn set_limit(&self, limit: u32) -> Result<(), QuotaError> {
        let limit = builder::check(limit)?;
        let _change = self.queue.reconfigure(self);
        self.slots.set_limit(limit);
        Ok(())
    }

    /// Those who wait here: how many, in what order, and how many at most; and how to [close](WaitQueue::close) the limit.
    ///
    /// Nobody here waits for a time to come, so [`Precision`](crate::Precision) makes no difference; and how long a wait
    /// will be is not known beforehand, so [`WaitQueue::set_max_wait`] refuses nobody: give deadlines instead
    /// ([`Acquire::within`]).
    pub fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self)
    }

    /// The clock that deadlines are told by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Takes `n` slots for a newcomer.
    #[inline(always)]
    fn take(&self, n: u64) -> Result<(), Denied> {
        match self.slots.take(n, HOLD) {
            Ok(()) => Ok(()),
            Err(seen) if seen.is_held() => self.stand_back(n),
            Err(seen) => Err(seen.denied(n)),
        }
    }

    /// Takes `n` slots if nobody is in the queue after all.
    #[cold]
    #[inline(never)]
    fn stand_back(&self, n: u64) -> Result<(), Denied> {
        self.pass(n)?;
        self.take_past_the_line(n)
    }

    /// Lets a newcomer pass who wants `n` slots, or says why not.
    fn pass(&self, n: u64) -> Result<(), Denied> {
        let now_ns = self.clock.now().as_nanos();
        self.queue.pass(self, now_ns, Some(n))
    }

    /// Takes `n` slots, whoever waits.
    fn take_past_the_line(&self, n: u64) -> Result<(), Denied> {
        self.slots.take(n, 0).map_err(|seen| seen.denied(n))
    }

    #[inline(always)]
    fn give_back(&self, n: u64) {
        let view = self.slots.view();
        // Where newcomers may overtake, they get a look at it.
        if view.is_awaited() && view.is_held() {
            self.hand_on(n);
        } else if self.slots.give_back(n) {
            // Somebody has begun to wait since.
            self.queue.serve_changed(self);
        }
    }

    /// Gives `n` slots to those in the queue, as far as they go.
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

/// What a newcomer could take.
fn available(seen: View) -> u64 {
    if seen.is_held() { 0 } else { seen.free() }
}

impl Lender for ConcurrencyLimit {}

impl Sealed for ConcurrencyLimit {
    fn supply(&self) -> Plumbing<'_> {
        Plumbing(self)
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        None
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
