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
use crate::concurrency::permit::{Lender, Permit, Permits};
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

/// Lets an operation through if **all** of its limits do, and takes **nothing** from any of them otherwise.
///
/// A rate and a concurrency limit, a limit per second and one per day, the caller's budget and the site's
/// patience: asked one after the other, the first has been charged when the second refuses. A gate asks all of them first
/// and then takes from all, as one step. Tokens are taken when a turn comes, not while it is waited for.
///
/// ```text
///                  ┌─ "per second"   ok ─┐
///   n operations ──┼─ "per day"      ok ─┼── take from all: a permit
///                  └─ "at once"      ok ─┘        ╰─ dropped: slots are free again; tokens stay spent
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
/// # What it promises
///
/// What each of its limits does. A refusal means that one of them refuses, or that others wait. `retry_after` is known if
/// all that refuse know one, and is then the longest.
///
/// # Amounts
///
/// n counts operations: n tokens of each rate limit (units of it, if it divides its tokens, are n times as many as one token
/// has) and n slots of each concurrency limit.
///
/// # Its limits
///
/// They share one clock. [`inspect`](Self::inspect) and [`configure`](Self::configure) reach them.
///
/// A rate limiter in an [`Arc`] may be in several gates, and used alone, too. Those who wait at the limiter itself are not
/// overtaken. A gate may be a limit of another one. No limiter may be in a gate twice, directly or through another gate:
/// [`GateError::SameLimiter`].
///
/// ```
/// use flowgate::{Gate, TokenBucket};
/// use std::sync::Arc;
///
/// let site = Arc::new(TokenBucket::new("1000/s".parse()?));
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
/// > **Limit:** a gate looks at a shared limiter when that said it could. If it gets a refund, or a faster quota, a wait at the
/// > gate may last until the time that it was told before. A concurrency limit cannot be shared in this way, nor can a gate:
/// > neither compiles in an [`Arc`]. Slots that several gates share are a [`KeyedGate`]'s [shared](KeyedGate::shared) limits,
/// > or a gate of their own around the others.
///
/// ```compile_fail,E0277
/// use flowgate::{ConcurrencyLimit, Gate};
/// use std::sync::Arc;
///
/// let slots = Arc::new(ConcurrencyLimit::new(2));
/// let gate = Gate::builder().limit("slots", Arc::clone(&slots)).build();
/// ```
///
/// So a gate cannot hold itself, either:
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
/// - Every concurrency limit gets all of its slots back.
/// - Every token and leaky bucket gets back as many tokens as from [`Reservation::cancel`](crate::Reservation::cancel).
/// - Every other limit gets back what its own `acquire()` returns in that case.
///
/// # Cost
///
/// Decisions take turns, for as long as asking and taking last. Where one limit will do, use that alone.
pub struct Gate {
    members: Box<[Member]>,
    clock: Clock,
    queue: Queue,
    /// How many receipts all limits together give for each grant.
    receipts: usize,
    /// Asking all and then taking from all is one step, by whoever holds this.
    taking: Lock<Taking>,
}

struct Taking {
    /// The latest time that anything was taken at.
    latest_ns: u64,
    /// Those of what is taken, for each limit as many as it gives, in order. Here so that no decision allocates.
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
    /// A gate with no limits yet.
    pub fn builder() -> GateBuilder {
        GateBuilder {
            members: Vec::new(),
        }
    }

    /// Lets one operation through, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if any of the limits refuses; nothing is then taken from any.
    pub fn try_acquire(&self) -> Result<Permit<&Self>, Denied> {
        self.try_acquire_n(1)
    }

    /// Lets `n` operations through, all or none.
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
    /// [`Denied`] if any of the limits refuses; nothing is then taken from any.
    pub fn try_acquire_n(&self, n: u64) -> Result<Permit<&Self>, Denied> {
        self.take(n).map(|()| Permit::new(self, n))
    }

    /// [`try_acquire`](Self::try_acquire) with a permit that may go anywhere.
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
    /// As there.
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, Denied> {
        self.try_acquire_n_owned(1)
    }

    /// [`try_acquire_n`](Self::try_acquire_n) with a permit that may go anywhere.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_acquire_n_owned(self: &Arc<Self>, n: u64) -> Result<Permit<Arc<Self>>, Denied> {
        self.take(n).map(|()| Permit::new(Arc::clone(self), n))
    }

    /// Waits in turn until one operation may go through: a future that is also a builder.
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
    pub fn acquire(&self) -> Acquire<Permits<&Self>> {
        Acquire::new(Permits(self))
    }

    /// [`acquire`](Self::acquire) of a permit that may go anywhere.
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
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Permits<Arc<Self>>> {
        Acquire::new(Permits(Arc::clone(self)))
    }

    /// Those who wait here: how many, in what order, and how many at most. [Closing](WaitQueue::close) it closes the gate.
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

    /// The names of its limits, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.name)
    }

    /// The name of the limit that gave this refusal; none if it was not one of them, but, say, the queue being full.
    pub fn name_of(&self, denied: &Denied) -> Option<&str> {
        let member = self.members.get(denied.limit()?)?;
        Some(&member.name)
    }

    /// Looks at one of its limits. `None` if there is none of that name and type.
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

    /// Changes one of its limits, and has those served who wait for what that makes possible; those who can never be
    /// served any more are refused. `None` if there is none of that name and type.
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

    /// [`inspect`](Self::inspect) for whichever limiter of rate; one that is [observed](crate::Observed) is looked at
    /// as it is inside. `None` also if the limit of that name is one of concurrency.
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

    /// [`configure`](Self::configure) for whichever limiter of rate that [`inspect_limiter`](Self::inspect_limiter)
    /// finds.
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

    /// The clock that its limits share.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The limit that is, or holds, a key of this table.
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
        // Somebody may have read the clock later, and taken first.
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
