//! [`Gate`]: several limits, one permit.

mod builder;
mod change;
mod keyed;
mod state;
mod supply;

pub use builder::{GateBuilder, GateError};
pub use change::GateLimits;
pub use keyed::{KeyedGate, KeyedGateBuilder, KeyedTurn};

use crate::clock::{Clock, Timestamp};
use crate::concurrency::permit::{Lender, Permit, Permits, permit_verbs};
use crate::limiter::sealed::Identity;
use crate::limiter::{Limit, Limiter};
use crate::primitive::Lock;
use crate::queue::{Acquire, Asker, Queue, Receipt, WaitQueue};
use crate::verdict::Denied;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;

/// A combination of limits that admits an operation only if **all** of them do.
///
/// If one of the limits refuses, the gate takes **nothing** from any of them.
///
/// Use a gate where several limits apply to one operation: a rate limit and a concurrency limit, a limit per second and one
/// per day, the caller's quota and the site's. If you ask such limits one after the other, the first has been charged when
/// the second refuses. A gate asks all of them first and then takes from all, as one step. Tokens are taken when a wait is
/// granted, not while the caller waits.
///
/// ```text
///                  ┌─ "per second"   ok ─┐
///   n operations ──┼─ "per day"      ok ─┼── take from all: a permit
///                  └─ "in flight"    ok ─┘        ╰─ dropped: permits are free again; tokens stay spent
///                            │
///                            ╰─ any no: take nothing; the refusal names it
/// ```
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, TokenBucket};
///
/// let gate = Gate::builder()
///     .limit("rate", TokenBucket::new("100/s burst 3".parse()?))
///     .limit("slots", ConcurrencyLimit::new(2))
///     .build()?;
///
/// let first = gate.try_acquire()?;
/// let second = gate.try_acquire()?;
/// let denied = gate.try_acquire().unwrap_err();
/// assert!(denied.is_busy());
/// assert_eq!(gate.name_of(&denied), Some("slots"));
///
/// drop(first);
/// let third = gate.try_acquire()?; // the last token: the refusal took none
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// A gate has the [guarantees](crate::guide::guarantees) of all of its limits. A refusal means that one of them refuses, or
/// that other callers wait. `retry_after` is known if all limits that refuse know one; it is the longest of them.
///
/// # Amounts
///
/// `n` counts operations. `n` operations take `n` permits of each concurrency limit and `n` tokens of each rate limit. If a
/// rate limit divides its tokens into units, each operation takes all units of one token.
///
/// # Limits in a gate
///
/// All limits share one clock. [`inspect`](Self::inspect) and [`configure`](Self::configure) give access to them.
///
/// A rate limiter in an [`Arc`] can be in several gates, and can also be used alone. Callers that wait at the limiter itself
/// are not overtaken. A gate can be a limit of another one. No limiter can be in a gate twice, directly or through another
/// gate: [`GateError::SameLimiter`].
///
/// ```
/// use flowgate::{Gate, TokenBucket};
/// use std::sync::Arc;
///
/// let site = Arc::new(TokenBucket::new("1000/h".parse()?));
/// let search = Gate::builder()
///     .limit("site", Arc::clone(&site))
///     .limit("search", TokenBucket::new("10/s".parse()?))
///     .build()?;
/// let orders = Gate::builder()
///     .limit("site", Arc::clone(&site))
///     .limit("orders", TokenBucket::new("100/s".parse()?))
///     .build()?;
/// let (_search, _order) = (search.try_acquire()?, orders.try_acquire()?);
/// site.try_acquire()?;
/// assert_eq!(site.available(), 997);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// > **Limit:** a gate asks a shared limiter again at the time that the limiter reported before. If the limiter gets a refund
/// > or a faster quota meanwhile, a wait at the gate may still last until that time.
///
/// A concurrency limit cannot be shared in this way, and neither can a gate: neither compiles in an [`Arc`]. To share permits
/// between several gates, use the [shared](KeyedGate::shared) limits of a [`KeyedGate`], or put a separate gate around the
/// others.
///
/// ```compile_fail,E0277
/// use flowgate::{ConcurrencyLimit, Gate};
/// use std::sync::Arc;
///
/// let slots = Arc::new(ConcurrencyLimit::new(2));
/// let gate = Gate::builder().limit("slots", Arc::clone(&slots)).build();
/// ```
///
/// For the same reason, a gate cannot contain itself:
///
/// ```compile_fail,E0277
/// use flowgate::Gate;
/// use std::sync::Arc;
///
/// fn around(inner: &Arc<Gate>) -> Result<Gate, flowgate::GateError> {
///     Gate::builder().limit("inner", Arc::clone(inner)).build()
/// }
/// ```
///
/// # Cancel safety
///
/// If a wait is dropped after it was granted and before its owner has seen the permit:
///
/// - Every concurrency limit gets all of its permits back.
/// - Every token and leaky bucket gets back as many tokens as from [`Reservation::cancel`](crate::Reservation::cancel).
/// - Every other limit gets back what its own `acquire()` returns in that case.
///
/// # Performance
///
/// Decisions of a gate run one after the other, for as long as asking and taking last. Where one limit is enough, use that
/// limit alone.
pub struct Gate {
    members: Box<[Member]>,
    clock: Clock,
    queue: Queue,
    /// The number of receipts that all limits together give for each grant.
    receipts: usize,
    /// Held while a decision asks all limits and then takes from all of them, which makes it one step.
    taking: Lock<Taking>,
}

struct Taking {
    /// The latest time at which anything was taken.
    latest_ns: u64,
    /// The receipts of what is taken, as many as each limit gives, in order. Kept here so that no decision allocates.
    receipts: Box<[Receipt]>,
}

impl Taking {
    fn new(receipts: usize) -> Self {
        Self {
            latest_ns: 0,
            receipts: core::iter::repeat_n(Receipt::default(), receipts).collect(),
        }
    }
}

struct Member {
    name: Box<str>,
    limit: Box<dyn Limit>,
}

impl Gate {
    /// Creates a builder, which has no limits yet.
    pub fn builder() -> GateBuilder {
        GateBuilder {
            members: Vec::new(),
        }
    }

    permit_verbs! {
        /// Admits one operation, or returns why not.
        ///
        /// # Errors
        ///
        /// Returns [`Denied`] if any of the limits refuses, if other callers wait, or if the gate is [closed](Denied::is_closed).
        /// Nothing is taken then. [`name_of`](Self::name_of) returns the name of the limit that refused.
        try_acquire;

        /// Admits `n` operations, all or none.
        ///
        /// ```
        /// # use flowgate::{ConcurrencyLimit, Gate, TokenBucket};
        /// let gate = Gate::builder()
        ///     .limit("rate", TokenBucket::new("10/h".parse()?))
        ///     .limit("slots", ConcurrencyLimit::new(3))
        ///     .build()?;
        /// assert!(gate.try_acquire_n(4).is_err()); // too many for the slots: no token is taken
        /// assert_eq!(gate.inspect("rate", TokenBucket::available), Some(10));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// Returns [`Denied`] if any of the limits refuses, if other callers wait, or if the gate is [closed](Denied::is_closed).
        /// Nothing is taken then. [`name_of`](Self::name_of) returns the name of the limit that refused.
        try_acquire_n;

        /// Admits one operation, with a permit that can move into another thread or task.
        ///
        /// ```
        /// use flowgate::{ConcurrencyLimit, Gate};
        /// use std::sync::Arc;
        ///
        /// let gate = Arc::new(Gate::builder().limit("slots", ConcurrencyLimit::new(3)).build()?);
        /// let permit = gate.try_acquire_owned()?;
        /// std::thread::spawn(move || {
        ///     // … work …
        ///     drop(permit);
        /// });
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        ///
        /// Returns [`Denied`] if any of the limits refuses, if other callers wait, or if the gate is [closed](Denied::is_closed).
        /// Nothing is taken then.
        try_acquire_owned;

        /// Admits `n` operations, all or none, with a permit that can move elsewhere.
        ///
        /// # Errors
        ///
        /// Returns [`Denied`] if any of the limits refuses, if other callers wait, or if the gate is [closed](Denied::is_closed).
        /// Nothing is taken then.
        try_acquire_n_owned;

        /// Waits in the queue until the gate admits one operation.
        ///
        /// The result is a future that is also a builder.
        ///
        /// ```
        /// # use flowgate::{ConcurrencyLimit, Gate, TokenBucket};
        /// # use std::time::Duration;
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// # let gate = Gate::builder()
        /// #     .limit("rate", TokenBucket::new("100/s".parse()?))
        /// #     .limit("slots", ConcurrencyLimit::new(2))
        /// #     .build()?;
        /// let permit = gate.acquire().within(Duration::from_secs(1)).await?; // a token and a slot
        /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<_, Box<dyn std::error::Error>>(())
        /// ```
        acquire;

        /// Waits as [`acquire`](Self::acquire) does, for a permit that can move into another task.
        ///
        /// ```
        /// use flowgate::{ConcurrencyLimit, Gate};
        /// use std::sync::Arc;
        ///
        /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        /// let gate = Arc::new(Gate::builder().limit("slots", ConcurrencyLimit::new(3)).build()?);
        /// for page in 0..10 {
        ///     let permit = gate.acquire_owned().await?;
        ///     tokio::spawn(async move {
        ///         // … fetch the page …
        ///         drop((page, permit));
        ///     });
        /// }
        /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
        /// # Ok::<_, Box<dyn std::error::Error>>(())
        /// ```
        acquire_owned;
    }

    /// Returns the queue of the gate. [Closing](WaitQueue::close) the queue closes the gate.
    ///
    /// ```
    /// # use flowgate::{ConcurrencyLimit, Gate};
    /// let gate = Gate::builder().limit("slots", ConcurrencyLimit::new(3)).build()?;
    /// gate.queue().set_max_waiters(100);
    /// gate.queue().close();
    /// assert!(gate.try_acquire().unwrap_err().is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self)
    }

    /// Returns the names of the limits, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.name)
    }

    /// Returns the name of the limit that refused.
    ///
    /// `None` if no limit refused. The queue may have been full, for example.
    pub fn name_of(&self, denied: &Denied) -> Option<&str> {
        let member = self.members.get(denied.limit()?)?;
        Some(&member.name)
    }

    /// Calls `look` with one of the limits. `None` if no limit has that name and type.
    ///
    /// ```
    /// # use flowgate::{Gate, TokenBucket};
    /// let gate = Gate::builder().limit("rate", TokenBucket::new("5/h".parse()?)).build()?;
    /// assert_eq!(gate.inspect("rate", TokenBucket::available), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inspect<L: Any, R>(&self, name: &str, look: impl FnOnce(&L) -> R) -> Option<R> {
        let limit: &dyn Any = &*self.member(name)?.limit;
        limit.downcast_ref().map(look)
    }

    /// Calls `change` with one of the limits, and then serves waiters by it.
    ///
    /// Waiters are served if the change makes that possible, and refused if they can never be served any more. `None` if no
    /// limit has that name and type.
    ///
    /// ```
    /// # use flowgate::{Gate, TokenBucket};
    /// let gate = Gate::builder().limit("rate", TokenBucket::new("1/s".parse()?)).build()?;
    /// let faster = "100/s".parse()?;
    /// assert!(gate.configure("rate", |bucket: &TokenBucket| bucket.set_quota(faster)).is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn configure<L: Any, R>(&self, name: &str, change: impl FnOnce(&L) -> R) -> Option<R> {
        self.inspect(name, |limit| {
            let _change = self.queue.reconfigure(self);
            change(limit)
        })
    }

    /// Calls `look` with one of the rate limiters, whatever its type.
    ///
    /// If the limiter is [observed](crate::Observed), `look` gets the limiter inside. `None` if the limit of that name is not
    /// a rate limiter, or if there is none.
    ///
    /// ```
    /// # use flowgate::{Gate, Limiter, TokenBucket};
    /// let gate = Gate::builder().limit("rate", TokenBucket::new("5/h".parse()?)).build()?;
    /// assert_eq!(gate.inspect_limiter("rate", |limiter| limiter.available()), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inspect_limiter<R>(
        &self,
        name: &str,
        look: impl FnOnce(&dyn Limiter) -> R,
    ) -> Option<R> {
        self.member(name)?.limit.limiter().map(look)
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| *member.name == *name)
    }

    /// Calls `change` with the rate limiter that [`inspect_limiter`](Self::inspect_limiter) finds.
    ///
    /// Waiters are then served as by [`configure`](Self::configure).
    ///
    /// ```
    /// # use flowgate::{Gate, Limiter, TokenBucket};
    /// let gate = Gate::builder().limit("rate", TokenBucket::new("5/h".parse()?)).build()?;
    /// assert!(gate.configure_limiter("rate", |limiter| limiter.charge(2)).is_some());
    /// assert_eq!(gate.inspect_limiter("rate", |limiter| limiter.available()), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn configure_limiter<R>(
        &self,
        name: &str,
        change: impl FnOnce(&dyn Limiter) -> R,
    ) -> Option<R> {
        self.inspect_limiter(name, |limiter| {
            let _change = self.queue.reconfigure(self);
            change(limiter)
        })
    }

    /// Returns the clock that the limits share.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the name of the limit that is, or holds, a key of this table.
    fn name_of_key_in<T>(&self, table: &T) -> Option<&str> {
        let is_key = |member: &&Member| {
            let mut is_key = false;
            let visit = &mut |limiter: Identity| is_key |= limiter.is_key_of(table);
            member.limit.each_limiter(visit);
            is_key
        };
        Some(&*self.members.iter().find(is_key)?.name)
    }

    fn take(&self, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        let now_ns = self.clock.now().as_nanos();
        self.queue.pass(self, now_ns, Some(n))?;
        let mut taking = self.taking.lock();
        // Another caller may have read the clock later, and taken first.
        let at = Timestamp::from_nanos(now_ns.max(taking.latest_ns));
        let asked = self.ask_all(supply::hardest, at, n, Asker::HEAD);
        asked.map_err(|denied| denied.sooner(at.as_nanos() - now_ns))?;
        self.take_from_all(&mut taking, at, n, 1)
    }
}

impl Lender for Gate {}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.members.iter();
        f.debug_map()
            .entries(limits.map(|member| (&member.name, &member.limit)))
            .finish()
    }
}
