use super::{KeyPermit, KeyPermits, KeyedConcurrencyLimit};
use crate::limiter::Snapshot;
use crate::queue::Acquire;
use crate::verdict::Denied;
use core::hash::Hash;
use core::ops::Deref;

/// A [`KeyedConcurrencyLimit`] with a per-key limit.
///
/// [`with`](KeyedConcurrencyLimit::with) and [`with_owned`](KeyedConcurrencyLimit::with_owned) return it.
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
/// use std::sync::Arc;
///
/// let limits = Arc::new(KeyedConcurrencyLimit::new(2, 1000)?);
/// let big = limits.with_owned(50)?; // may be kept beside the tenant's other settings
/// let permits: Vec<_> = (0..10).map_while(|_| big.try_acquire("big tenant").ok()).collect();
/// assert_eq!((permits.len(), big.limit()), (10, 50));
/// assert_eq!(big.available("big tenant"), 40);
/// assert_eq!(big.snapshot("big tenant").limit, 50);
/// assert!(big.try_acquire_n("big tenant", 41).unwrap_err().is_busy());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WithLimit<P> {
    all: P,
    limit: u32,
}

impl<P: Deref<Target = KeyedConcurrencyLimit> + Clone + Send + Sync> WithLimit<P> {
    pub(super) fn new(all: P, limit: u32) -> Self {
        Self { all, limit }
    }

    /// Admits one operation for `key`; see [`KeyedConcurrencyLimit::try_acquire`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the limit of operations is in flight for `key` or callers wait for it ([`is_busy`](Denied::is_busy)), or
    /// if the table has no entry for `key` ([`is_table_full`](Denied::is_table_full)).
    #[inline]
    pub fn try_acquire(&self, key: &(impl Hash + ?Sized)) -> Result<KeyPermit<P>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// Admits `n` operations for `key`, all or none; see [`KeyedConcurrencyLimit::try_acquire_n`].
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
    ) -> Result<KeyPermit<P>, Denied> {
        self.all
            .permit(key, n, Some(self.limit), || self.all.clone())
    }

    /// Waits until one operation may start for `key`; see [`KeyedConcurrencyLimit::acquire`].
    ///
    /// With [`with_owned`](KeyedConcurrencyLimit::with_owned), it is [`acquire_owned`](KeyedConcurrencyLimit::acquire_owned). From
    /// then on, all waiters of the key use this limit, until a waiter with another limit joins. A higher limit grants as many of
    /// them as it has room for, in order. A waiter that asks for more than the limit ever allows is refused.
    ///
    /// # Errors
    ///
    /// When awaited, returns [`Denied`] in these cases:
    ///
    /// - The request is above the limit ([`is_never`](Denied::is_never)).
    /// - The permits are not free by the deadline ([`is_busy`](Denied::is_busy)).
    /// - The table has no entry for `key` ([`is_table_full`](Denied::is_table_full)).
    /// - Too many callers wait already ([`is_queue_full`](Denied::is_queue_full)).
    ///
    /// ```
    /// use flowgate::KeyedConcurrencyLimit;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = KeyedConcurrencyLimit::new(2, 1000)?;
    /// let permit = limits.with(3)?.acquire("big tenant").n(3).await?;
    /// assert_eq!(limits.in_flight("big tenant"), 3);
    /// # drop(permit);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(&self, key: &(impl Hash + ?Sized)) -> Acquire<KeyPermits<P>> {
        let place = self.all.place(key);
        Acquire::new(KeyPermits::of(self.all.clone(), place, Some(self.limit)))
    }

    /// Returns the number of operations that could be admitted for `key` now; see [`KeyedConcurrencyLimit::available`].
    pub fn available(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// Returns a snapshot of this limit for `key`; see [`KeyedConcurrencyLimit::snapshot`].
    pub fn snapshot(&self, key: &(impl Hash + ?Sized)) -> Snapshot {
        self.all.snapshot_by(key, self.limit)
    }

    /// Returns the per-key limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }
}
