//! [`KeyedConcurrencyLimit`]: the public face over [`InFlight`].

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
use crate::queue::{Acquire, WaitQueue};
use crate::quota::QuotaError;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::ops::Deref;
use core::time::Duration;
use in_flight::{Asked, InFlight};

/// Bounds how many operations are under way at once **for each key: in flight ≤ limit**, at every instant, in memory
/// that is fixed when it is made.
///
/// A [`ConcurrencyLimit`](crate::ConcurrencyLimit) for each host, user or tenant, that comes into being with the first
/// operation for a key and is gone with the last.
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
/// # What it promises
///
/// - **Never over** (contract C1). What is in flight for a key is at most the limit, on every schedule of threads.
///   After the limit was lowered below what is in flight, nobody is admitted until that has shrunk by itself.
/// - **Nothing wasted** (C2). Who is refused as [busy](Denied::is_busy) would have broken that. (While the limit is
///   being lowered, somebody who is about to be refused may be counted for a moment.)
/// - **Keys do not meddle** (C7). A key with something in flight keeps its slot: nobody's count is ever dropped for
///   another's sake. A new key for which there is no slot is refused, and that refusal says so
///   ([`Denied::is_table_full`]).
/// - **In turn** (C6), as at [`ConcurrencyLimit`](crate::ConcurrencyLimit), for each key by itself. There is a queue for
///   a key only while somebody stands in it.
/// - **Two keys are one** with a probability of 2⁻³⁷ / capacity, for each two that are in flight at once: then they
///   share a limit. Which those are depends on a secret seed, so nobody can choose them.
///
/// # Capacity and memory
///
/// 64 bytes for each key that it is made for, and up to 16 KiB; [`bytes`](Self::bytes) tells. All of it is taken when
/// the limit is made, and none after, however many keys there are and however long they are: they are not stored. Only
/// those who [wait](Self::acquire) take more, and how many may is bounded.
///
/// Each key may be in one of two cache lines of four slots, so that it depends on the others whether there is one for
/// it. With as many keys in flight as it is made for, about one new key in 10⁷ is refused for want of a slot, with
/// twice as many one in 500, and four times as many is the end.
///
/// # Amounts
///
/// As at [`ConcurrencyLimit`](crate::ConcurrencyLimit): `n` are admitted all or none; 0 succeed and change nothing;
/// more than the limit are refused with [`Denied::is_never`], except that a limit of 0 is a pause.
///
/// # Memory ordering
///
/// Dropping a permit happens before whoever is let in for the same key next has its own: what was written under the
/// first is seen under the second.
///
/// # Cancel safety
///
/// A wait that is dropped leaves the queue, and costs the others nothing; what had been granted by then goes to the
/// next.
///
/// # Cost
///
/// The key is hashed (SipHash-1-3). Then it is a load and a compare-and-swap of 128 bits, in a cache line that is
/// probably in no cache; as much again when the permit is dropped. Only a key that has no slot takes a lock, one of 256
/// by its hash.
pub struct KeyedConcurrencyLimit {
    in_flight: InFlight,
    limit: AtomicU64,
    clock: Clock,
    queues: KeyQueues<u32>,
    max_waiters_per_key: usize,
}

impl KeyedConcurrencyLimit {
    /// `limit` at once for each key, with room for `capacity` keys that have something in flight.
    ///
    /// # Errors
    ///
    /// [`KeyedError`] if `limit` is above 2³¹ − 1, or `capacity` is 0, above 2³², or more than there is memory for.
    #[cfg(feature = "std")]
    pub fn new(limit: u32, capacity: usize) -> Result<Self, KeyedError> {
        Self::builder(limit).capacity(capacity)
    }

    /// A limit with settings other than the default ones.
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

    /// Admits one operation for `key`, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`]: [`is_busy`](Denied::is_busy) if as many are in flight for this key as may be,
    /// [`is_table_full`](Denied::is_table_full) if none are, but there is no slot for it. No time is known in either
    /// case.
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
    /// As [`try_acquire`](Self::try_acquire); [`is_never`](Denied::is_never) if `n` is above the limit.
    #[inline]
    pub fn try_acquire_n(
        &self,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<KeyPermit<&Self>, Denied> {
        self.permit(key, n, None, || self)
    }

    /// [`try_acquire`](Self::try_acquire), for a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
    ) -> Result<OwnedKeyPermit, Denied> {
        self.try_acquire_n_owned(key, 1)
    }

    /// [`try_acquire_n`](Self::try_acquire_n), for a permit that keeps the limit alive.
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
    /// As there.
    #[inline]
    pub fn try_acquire_n_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<OwnedKeyPermit, Denied> {
        self.permit(key, n, None, || Arc::clone(self))
    }

    /// Waits until one operation may start for `key`, in turn with the others who wait for that key: a future that is
    /// also a builder, for tasks (`.await`) and threads ([`.block()`](crate::Acquire::block)).
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
    /// When awaited: [`Denied`] if as many as are asked for can never be had, or were not by the deadline, or if there
    /// is [no slot](Denied::is_table_full) for the key, or if [too many](Denied::is_queue_full) wait already.
    pub fn acquire(&self, key: &(impl Hash + ?Sized)) -> Acquire<KeyPermits<&Self>> {
        Acquire::new(KeyPermits::of(self, self.place(key), None))
    }

    /// [`acquire`](Self::acquire), for a permit that keeps the limit alive, as the future does.
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
    /// As there.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
    ) -> Acquire<KeyPermits<Arc<Self>>> {
        Acquire::new(KeyPermits::of(Arc::clone(self), self.place(key), None))
    }

    /// The same by a limit of a key's own, which the caller knows.
    ///
    /// What is in flight is counted for the key, by whichever limit it was admitted. Those who wait for it are not overtaken;
    /// they all do so by the limit with which the last of them [came](WithLimit::acquire), so ask for a key always with
    /// the limit that is its own at the time.
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
    /// [`QuotaError`] if `limit` is above 2³¹ − 1.
    pub fn with(&self, limit: u32) -> Result<WithLimit<&Self>, QuotaError> {
        Ok(WithLimit::new(self, check(limit)?))
    }

    /// [`with`](Self::with), for permits that keep the limit alive.
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
    /// As there.
    pub fn with_owned(self: &Arc<Self>, limit: u32) -> Result<WithLimit<Arc<Self>>, QuotaError> {
        Ok(WithLimit::new(Arc::clone(self), check(limit)?))
    }

    /// How many operations are in flight for `key`. More than the [limit](Self::limit) for a while after that was
    /// lowered.
    pub fn in_flight(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.in_flight.look(&self.place(key)).0
    }

    /// How many operations could be admitted for `key` now, if there is a slot for it; 0 while others wait for what is free.
    pub fn available(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// The limit, and what remains of it for `key`. When it is whole again nobody knows: unless it is,
    /// `reset_after` is [`Duration::MAX`].
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

    /// [`snapshot`](Self::snapshot) by this `limit`.
    fn snapshot_by(&self, key: &(impl Hash + ?Sized), limit: u32) -> Snapshot {
        let place = self.place(key);
        let (in_flight, waits) = self.in_flight.look(&place);
        let queue = waits.and_then(|slot| self.queues.find(slot, &place, &()));
        let limit = u64::from(limit);
        // What is free is spoken for as long as somebody is in the queue.
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

    /// How many operations may be in flight for a key.
    pub fn limit(&self) -> u32 {
        // Acquires what `set_limit` releases. It is never above `MOST`.
        self.limit.load(Ordering::SeqCst) as u32
    }

    /// Puts another limit in force, at once and for all keys, except by limits of [their own](Self::with).
    ///
    /// A larger one serves as many of those who wait as now fit, in order, before this returns. A smaller one takes
    /// nothing away from anybody: where more is in flight than it allows, nobody is admitted until enough has been
    /// given back. 0 is a pause.
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
    /// [`QuotaError`] if it is above 2³¹ − 1; nothing is then changed.
    pub fn set_limit(&self, limit: u32) -> Result<(), QuotaError> {
        // Meets the second reading of the limit in `take`.
        self.limit.store(check(limit)?.into(), Ordering::SeqCst);
        for queue in self.queues.all() {
            drop(queue.queue.reconfigure(&self.waited_for(&queue)));
        }
        Ok(())
    }

    /// How many keys have something in flight, or somebody who waits. It looks at every slot, so it is for now and
    /// then.
    pub fn len(&self) -> usize {
        self.in_flight.keys()
    }

    /// Whether nothing is in flight for any key, and nobody waits. It looks at every slot, as [`len`](Self::len).
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

    /// For how many keys somebody waits.
    pub fn waiting_keys(&self) -> usize {
        self.queues.len()
    }

    /// How many wait, for whichever key.
    pub(crate) fn waiting(&self) -> usize {
        let queues = self.queues.all();
        let waiting = queues.iter().map(|queue| {
            let key = self.waited_for(queue);
            WaitQueue::new(&key).len()
        });
        waiting.sum()
    }

    /// The clock that deadlines are told by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How many keys it was made for.
    pub fn capacity(&self) -> usize {
        self.in_flight.table.lines()
    }

    /// How many bytes it takes, which never changes.
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
        // It has been taken, so it can be told.
        table as usize + size_of::<Self>()
    }

    /// Whether admitting an operation for a key that has a slot, and giving it back, take no lock on this target as long as
    /// nobody waits for that key.
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

    /// How often a key was refused since the limit was made because there was no slot for it: a sign that it should
    /// have been made for more.
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

    /// Admits `n` for `key`, by `own` limit or the one in force, unless others wait; the permit holds what `limit` returns.
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

    /// Admits what is asked for by the key at `place`, which is in `slot`, if nobody is in the queue after all.
    #[cold]
    fn stand_back(&self, place: &Place, slot: usize, asked: Asked) -> Result<(), Refusal> {
        if let Some(queue) = self.queues.find(slot, place, &()) {
            let supply = self.waited_for(&queue);
            let now_ns = self.clock.now().as_nanos();
            // The queue may go by a limit by which it could never have as many; 0 is a pause.
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
            // If the limit was lowered meanwhile, this was too late. Either this sees the new one, or whoever has set
            // that sees these in flight.
            if asked.own.is_some() || in_flight <= self.limit().into() {
                return Ok(());
            }
            match asked.is_in_line {
                false => self.give_back(place, asked.n),
                // Called by who serves those in the queue.
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

    /// Lets those who wait for the key at `place`, which is in `slot`, have what has been given back.
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
