//! [`KeyedConcurrencyLimit`]: the public type, which wraps [`InFlight`].

mod acquire;
mod builder;
mod in_flight;
#[cfg(all(test, flowgate_loom))]
mod model;
mod permit;
mod with;

pub use acquire::KeyPermits;
pub use permit::{AtKey, KeyPermit, OwnedKeyPermit};
pub use with::WithLimit;

use super::builder::KeyedBuilder;
use super::entry::Place;
#[cfg(feature = "std")]
use super::error::KeyedError;
use super::keys::Refusal;
use super::names::Hashed;
use super::queues::KeyQueues;
use super::table::Table;
use crate::clock::Clock;
use crate::concurrency::limit::{ConcurrencyLimit, check};
use crate::concurrency::permit::Permit;
use crate::limiter::Snapshot;
use crate::primitive::{AtomicU64, Ordering};
use crate::queue::Acquire;
use crate::quota::QuotaError;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::ops::Deref;
use core::time::Duration;
use in_flight::{Asked, InFlight};

/// A concurrency limit for each key, in memory of fixed size.
///
/// The number of operations in flight for a key is at most the limit, at every instant. A key can be a host, a user or a tenant. It
/// has a table entry from its first operation in flight until the last one ends.
///
/// ```text
///   key      in flight    limit 3
///   ─────────────────────────────
///   alice    ■ ■ ■        refused: busy
///   bob      ■ □ □        let in
///   carol    □ □ □        let in, and takes a slot of the table as long as she has something in flight
/// ```
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
///
/// // Two at once for each host, a thousand hosts at once.
/// let limits = KeyedConcurrencyLimit::new(2, 1000)?;
/// let first = limits.try_acquire("a.example")?;
/// let second = limits.try_acquire("a.example")?;
/// assert!(limits.try_acquire("a.example").unwrap_err().is_busy());
/// assert!(limits.try_acquire("b.example").is_ok());
///
/// drop(first);
/// assert_eq!((limits.in_flight("a.example"), limits.available("a.example")), (1, 1));
/// # drop(second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - **Never over-admits** ([C1](crate::guide::guarantees#never-over-admits-c1)): the operations in flight for a key are at most
///   the limit, for every schedule of threads. After the limit was lowered below that number, the key admits nothing until enough
///   of its permits are dropped.
/// - **Never refuses needlessly** ([C2](crate::guide::guarantees#never-refuses-needlessly-c2)): admitting a caller that is refused
///   as [busy](Denied::is_busy) would have broken C1. While another thread lowers the limit, a caller that will be refused can
///   count for a moment.
/// - **Key isolation** ([C7](crate::guide::guarantees#key-isolation-c7)): a key with operations in flight keeps its table entry.
///   Its count is never dropped for another key. A new key without an entry is refused with [`Denied::is_table_full`].
/// - **FIFO fairness** ([C6](crate::guide::guarantees#fifo-fairness-c6)): each key has its own queue, as that of a
///   [`ConcurrencyLimit`](crate::ConcurrencyLimit). The queue exists only while at least one caller waits for the key.
/// - **Collisions**: two keys that are in flight concurrently share a limit with a probability of 2⁻³⁷ / capacity. A secret seed
///   decides which keys collide, so callers cannot choose them.
///
/// # Capacity and memory
///
/// The limiter takes 64 bytes for each key of its capacity, and up to 16 KiB more; see [`bytes`](Self::bytes). It allocates all of
/// this memory when it is built. It does not store keys, so their number and length do not matter. After that, only
/// [waiters](Self::acquire) take more memory, and their number is bounded.
///
/// Each key can use two cache lines of four entries. Whether a new key finds a vacant entry depends on the other keys:
///
/// - With as many keys in flight as the capacity, about one new key in 10⁷ is refused.
/// - With twice as many, one in 500 is refused.
/// - Four times the capacity is the maximum.
///
/// # Amounts
///
/// - The `n` operations of one request are admitted all or none.
/// - `n` = 0 succeeds and changes nothing.
/// - `n` above the limit is refused with [`Denied::is_never`]. A limit of 0 is a pause, and does not refuse in this way.
///
/// # Memory ordering
///
/// Dropping a permit happens before the next caller for the same key receives its permit. The next caller sees all writes that were
/// made before the drop.
///
/// # Cancel safety
///
/// A wait that is dropped leaves the queue, and does not delay the other waiters. Permits that it had been granted go to the next
/// waiter.
///
/// # Cost
///
/// A request hashes the key (SipHash-1-3). It then takes one load and one compare-and-swap on 128 bits, in a cache line that is
/// probably not cached. Dropping the permit costs the same. Only a key without an entry takes a lock, one of 256 that its hash
/// selects.
pub struct KeyedConcurrencyLimit {
    in_flight: InFlight,
    limit: AtomicU64,
    clock: Clock,
    queues: KeyQueues<u32>,
    max_waiters_per_key: usize,
}

impl KeyedConcurrencyLimit {
    /// Builds a limiter of `limit` operations per key, for `capacity` keys in flight.
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if `limit` is above 2³¹ − 1, if `capacity` is 0 or above 2³², or if the memory is not available.
    #[cfg(feature = "std")]
    pub fn new(limit: u32, capacity: usize) -> Result<Self, KeyedError> {
        Self::builder(limit).capacity(capacity)
    }

    /// Returns a builder, for settings other than the defaults.
    ///
    /// ```
    /// # use flowgate::{KeyedConcurrencyLimit, ManualClock};
    /// let limits = KeyedConcurrencyLimit::builder(2)
    ///     .clock(ManualClock::new()) // deadlines pass when a test says so
    ///     .max_waiting_keys(100)
    ///     .max_waiters_per_key(10)
    ///     .capacity(1000)?;
    /// assert_eq!((limits.limit(), limits.capacity()), (2, 1000));
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn builder(limit: u32) -> KeyedBuilder<ConcurrencyLimit> {
        KeyedBuilder::new(limit)
    }

    /// Admits one operation for `key`.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the limit of operations is in flight for `key` or callers wait for it ([`is_busy`](Denied::is_busy)), or
    /// if the table has no entry for `key` ([`is_table_full`](Denied::is_table_full)). No retry-after is known in either case.
    #[inline]
    pub fn try_acquire(&self, key: &(impl Hash + ?Sized)) -> Result<KeyPermit<&Self>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// Admits `n` operations for `key`, all or none.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 100)?;
    /// let permit = limits.try_acquire_n(&7, 4)?;
    /// assert!(limits.try_acquire_n(&7, 2).unwrap_err().is_busy());
    /// assert!(limits.try_acquire_n(&7, 6).unwrap_err().is_never());
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in these cases:
    ///
    /// - Fewer than `n` permits of `key` are free, or callers wait for `key` ([`is_busy`](Denied::is_busy)).
    /// - `n` is above the limit ([`is_never`](Denied::is_never)).
    /// - The table has no entry for `key` ([`is_table_full`](Denied::is_table_full)).
    #[inline]
    pub fn try_acquire_n(
        &self,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<KeyPermit<&Self>, Denied> {
        self.permit(key, n, None, || self)
    }

    /// Admits one operation for `key`; the permit keeps the limiter alive.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the limit of operations is in flight for `key` or callers wait for it ([`is_busy`](Denied::is_busy)), or
    /// if the table has no entry for `key` ([`is_table_full`](Denied::is_table_full)).
    #[inline]
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
    ) -> Result<OwnedKeyPermit, Denied> {
        self.try_acquire_n_owned(key, 1)
    }

    /// Admits `n` operations for `key`, all or none; the permit keeps the limiter alive.
    ///
    /// ```
    /// use flowgate::KeyedConcurrencyLimit;
    /// use std::sync::Arc;
    ///
    /// let limits = Arc::new(KeyedConcurrencyLimit::new(5, 1000)?);
    /// let permit = limits.try_acquire_n_owned("tenant", 3)?;
    /// let worker = std::thread::spawn(move || drop(permit)); // … after its work
    /// assert!(worker.join().is_ok());
    /// assert!(limits.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] for the same reasons as [`try_acquire_n`](Self::try_acquire_n): `n` permits are not free
    /// ([`is_busy`](Denied::is_busy)), `n` is above the limit ([`is_never`](Denied::is_never)), or the table has no entry for `key`
    /// ([`is_table_full`](Denied::is_table_full)).
    #[inline]
    pub fn try_acquire_n_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<OwnedKeyPermit, Denied> {
        self.permit(key, n, None, || Arc::clone(self))
    }

    /// Waits until one operation may start for `key`.
    ///
    /// Waiters of the same key are granted in order. The result is a future that is also a builder, for tasks (`.await`) and
    /// threads ([`.block()`](crate::Acquire::block)).
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// # use std::time::Duration;
    /// let limits = KeyedConcurrencyLimit::new(1, 1000)?;
    /// let permit = limits.acquire("tenant").within(Duration::from_secs(1)).block()?;
    /// let denied = limits.acquire("tenant").within(Duration::ZERO).block().unwrap_err();
    /// assert!(denied.is_busy());
    /// let other = limits.acquire("another").block()?;
    /// # drop((permit, other));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When awaited, returns [`Denied`] in these cases:
    ///
    /// - The request is above the limit ([`is_never`](Denied::is_never)).
    /// - The permits are not free by the deadline ([`is_busy`](Denied::is_busy)).
    /// - The table has no entry for `key` ([`is_table_full`](Denied::is_table_full)).
    /// - Too many callers wait already ([`is_queue_full`](Denied::is_queue_full)).
    pub fn acquire(&self, key: &(impl Hash + ?Sized)) -> Acquire<KeyPermits<&Self>> {
        Acquire::new(KeyPermits::of(self, self.place(key), None))
    }

    /// Waits as [`acquire`](Self::acquire) does; the future and the permit keep the limiter alive.
    ///
    /// ```
    /// use flowgate::KeyedConcurrencyLimit;
    /// use std::sync::Arc;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Arc::new(KeyedConcurrencyLimit::new(2, 1000)?);
    /// for page in 0..10 {
    ///     let permit = limits.acquire_owned("a.example").await?;
    ///     tokio::spawn(async move {
    ///         // … fetch the page …
    ///         drop((page, permit));
    ///     });
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When awaited, returns [`Denied`] for the same reasons as [`acquire`](Self::acquire): [`is_never`](Denied::is_never),
    /// [`is_busy`](Denied::is_busy), [`is_table_full`](Denied::is_table_full) or [`is_queue_full`](Denied::is_queue_full).
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
    ) -> Acquire<KeyPermits<Arc<Self>>> {
        Acquire::new(KeyPermits::of(Arc::clone(self), self.place(key), None))
    }

    /// Returns the same methods with a per-key limit, which the caller names.
    ///
    /// The limiter counts all operations of a key together, whatever limit admitted them. New requests do not overtake the waiters
    /// of the key. All waiters of a key use the limit of the last one that [joined](WithLimit::acquire). Use the same limit for all
    /// requests of a key, until the key's limit changes.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(2, 1000)?;
    /// let generous = limits.with(3)?;
    /// let permit = generous.try_acquire_n("big tenant", 3)?;
    /// assert!(generous.try_acquire("big tenant").unwrap_err().is_busy());
    /// assert!(limits.try_acquire_n("small tenant", 3).unwrap_err().is_never());
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `limit` is above 2³¹ − 1.
    pub fn with(&self, limit: u32) -> Result<WithLimit<&Self>, QuotaError> {
        Ok(WithLimit::new(self, check(limit)?))
    }

    /// Returns the methods of [`with`](Self::with), for permits that keep the limiter alive.
    ///
    /// ```
    /// use flowgate::KeyedConcurrencyLimit;
    /// use std::sync::Arc;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Arc::new(KeyedConcurrencyLimit::new(2, 1000)?);
    /// let permit = limits.with_owned(50)?.acquire("big tenant").n(3).await?;
    /// let work = tokio::spawn(async move { drop(permit) }); // … after its work
    /// work.await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `limit` is above 2³¹ − 1.
    pub fn with_owned(self: &Arc<Self>, limit: u32) -> Result<WithLimit<Arc<Self>>, QuotaError> {
        Ok(WithLimit::new(Arc::clone(self), check(limit)?))
    }

    /// Returns the number of operations in flight for `key`.
    ///
    /// After the [limit](Self::limit) was lowered, this number can be above it for some time.
    pub fn in_flight(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.in_flight.look(&self.place(key)).0
    }

    /// Returns the number of operations that could be admitted for `key` now.
    ///
    /// The number is 0 while other callers wait for `key`. The operations are admitted only if the table has an entry for `key`.
    pub fn available(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// Returns a snapshot of the limit, and what remains of it for `key`.
    ///
    /// The time at which permits will be released is not known. `reset_after` is therefore [`Duration::MAX`], unless nothing is in
    /// flight.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 1000)?;
    /// let permit = limits.try_acquire_n("tenant", 3)?;
    /// let seen = limits.snapshot("tenant");
    /// assert_eq!((seen.limit, seen.remaining), (5, 2));
    /// assert_eq!((limits.len(), limits.waiting_keys()), (1, 0)); // of all tenants
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, key: &(impl Hash + ?Sized)) -> Snapshot {
        self.snapshot_by(key, self.limit())
    }

    /// Returns the [`snapshot`](Self::snapshot) for this `limit`.
    fn snapshot_by(&self, key: &(impl Hash + ?Sized), limit: u32) -> Snapshot {
        let place = self.place(key);
        let (in_flight, waits) = self.in_flight.look(&place);
        let queue = waits.and_then(|slot| self.queues.find(slot, &place, &()));
        let limit = u64::from(limit);
        // Free permits belong to the waiters as long as there are any.
        let remaining = match queue {
            Some(queue) if queue.queue.is_held() => 0,
            _ => limit.saturating_sub(in_flight),
        };
        Snapshot {
            limit,
            remaining,
            reset_after: match in_flight == 0 && remaining == limit {
                true => Duration::ZERO,
                false => Duration::MAX,
            },
        }
    }

    /// Returns the number of operations that may be in flight for a key.
    pub fn limit(&self) -> u32 {
        // Acquires what `set_limit` releases. It is never above `MOST`.
        self.limit.load(Ordering::SeqCst) as u32
    }

    /// Replaces the limit of all keys without a [per-key limit](Self::with), with immediate effect.
    ///
    /// - A higher limit grants as many waiters as now fit, in order, before this method returns.
    /// - A lower limit revokes no permits. A key with more operations in flight is refused until enough permits are dropped.
    /// - A limit of 0 is a pause.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 1000)?;
    /// let mut permit = limits.try_acquire_n("key", 4)?;
    /// limits.set_limit(3)?;
    /// assert_eq!((limits.in_flight("key"), limits.available("key")), (4, 0));
    /// drop(permit.split(2));
    /// assert_eq!((limits.in_flight("key"), limits.available("key")), (2, 1));
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `limit` is above 2³¹ − 1. Nothing is then changed.
    pub fn set_limit(&self, limit: u32) -> Result<(), QuotaError> {
        // Meets the second reading of the limit in `take`.
        self.limit.store(check(limit)?.into(), Ordering::SeqCst);
        for queue in self.queues.all() {
            drop(queue.queue.reconfigure(&self.waited_for(&queue)));
        }
        Ok(())
    }

    /// Returns the number of keys with operations in flight or waiters.
    ///
    /// It reads every table entry, so do not call it for each request.
    pub fn len(&self) -> usize {
        self.in_flight.keys()
    }

    /// Returns whether nothing is in flight and no caller waits, for any key.
    ///
    /// It reads every table entry, as [`len`](Self::len) does.
    ///
    /// ```
    /// use flowgate::KeyedConcurrencyLimit;
    /// use std::sync::Arc;
    ///
    /// let hosts = Arc::new(KeyedConcurrencyLimit::new(2, 1000)?);
    /// let permit = hosts.try_acquire_owned("a.example")?;
    /// assert!(!hosts.is_empty());
    /// drop(permit);
    /// assert!(hosts.is_empty()); // as after a drain
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys that callers wait for.
    pub fn waiting_keys(&self) -> usize {
        self.queues.len()
    }

    /// Returns the number of waiters of all keys.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.waiters()
    }

    /// Returns the clock that is used for deadlines.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the number of keys that the limiter was built for.
    pub fn capacity(&self) -> usize {
        self.in_flight.table.lines()
    }

    /// Returns the bytes of memory that the limiter takes, which never change.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 1_000_000)?;
    /// println!("{} bytes", limits.bytes());
    /// assert!(limits.bytes() < 100 * limits.capacity());
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn bytes(&self) -> usize {
        let table = Table::<Hashed>::bytes(self.in_flight.table.lines() as u128);
        // This much memory has been allocated, so the number fits.
        table as usize + size_of::<Self>()
    }

    /// Returns whether the limiter takes no locks on this target.
    ///
    /// This covers admitting an operation and dropping its permit, if the key has an entry and no waiters.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 1000)?;
    /// if !limits.is_lock_free() {
    ///     eprintln!("limits take locks here: no 128-bit compare-and-swap");
    /// }
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    /// Returns how often a key was refused because the table is full.
    ///
    /// The limiter counts from when it was built. A large number shows that its capacity is too small.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 10)?;
    /// let permits: Vec<_> = (0..1000).filter_map(|key| limits.try_acquire(&key).ok()).collect();
    /// assert_eq!(limits.refused_for_room(), 1000 - permits.len() as u64);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn refused_for_room(&self) -> u64 {
        self.in_flight.refused_for_room.load(Ordering::Relaxed)
    }

    pub(crate) fn place(&self, key: &(impl Hash + ?Sized)) -> Place {
        self.in_flight.table.who(key).place
    }

    /// Admits `n` for `key`, by `own` or the current limit, unless callers wait. The permit holds what `limit` returns.
    #[inline]
    fn permit<P: Deref<Target = Self>>(
        &self,
        key: &(impl Hash + ?Sized),
        n: u64,
        own: Option<u32>,
        limit: impl FnOnce() -> P,
    ) -> Result<KeyPermit<P>, Denied> {
        let (place, is_in_line) = (self.place(key), false);
        let asked = Asked { n, own, is_in_line };
        let admitted = match self.admit(&place, asked) {
            Err(Refusal::Waits(slot)) => self.stand_back(&place, slot, asked),
            admitted => admitted,
        };
        admitted.map_err(Refusal::denied)?;
        let limit = limit();
        Ok(Permit::new(AtKey { limit, place }, n))
    }

    /// Admits the request of the key at `place`, whose entry is in `slot`, if its queue is empty after all.
    #[cold]
    fn stand_back(&self, place: &Place, slot: usize, asked: Asked) -> Result<(), Refusal> {
        if let Some(queue) = self.queues.find(slot, place, &()) {
            let supply = self.waited_for(&queue);
            let now_ns = self.clock.now().as_nanos();
            // The queue may use a limit that never allows as many. A limit of 0 is a pause.
            let n = asked.n.min(supply.limit().max(1).into());
            let passed = queue.queue.pass(&supply, now_ns, Some(n));
            passed.map_err(Refusal::Denied)?;
        }
        let is_in_line = true;
        self.admit(
            place,
            Asked {
                is_in_line,
                ..asked
            },
        )
    }

    #[inline]
    fn admit(&self, place: &Place, asked: Asked) -> Result<(), Refusal> {
        if asked.n == 0 {
            return Ok(());
        }
        loop {
            let limit = asked.own.unwrap_or_else(|| self.limit());
            let in_flight = self.in_flight.take(place, asked, limit)?;
            // If the limit was lowered in the meantime, this admission came too late. Either this thread sees the new limit, or
            // the thread that has set it sees these operations in flight.
            if asked.own.is_some() || in_flight <= self.limit().into() {
                return Ok(());
            }
            match asked.is_in_line {
                false => self.give_back(place, asked.n),
                // The caller serves the waiters in the queue.
                true => _ = self.in_flight.give_back(place, asked.n),
            }
        }
    }

    #[inline]
    fn give_back(&self, place: &Place, n: u64) {
        if let Some(slot) = self.in_flight.give_back(place, n) {
            self.serve(place, slot);
        }
    }

    /// Grants what has been returned to the waiters of the key at `place`, whose entry is in `slot`.
    #[cold]
    fn serve(&self, place: &Place, slot: usize) {
        if let Some(queue) = self.queues.find(slot, place, &()) {
            queue.queue.serve_counted(&self.waited_for(&queue));
        }
    }
}

impl fmt::Debug for KeyedConcurrencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedConcurrencyLimit")
            .field("limit", &self.limit())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
