use super::{KeyPermit, KeyPermits, KeyedConcurrencyLimit};
use crate::limiter::Snapshot;
use crate::queue::Acquire;
use crate::verdict::Denied;
use core::hash::Hash;
use core::ops::Deref;

/// A [`KeyedConcurrencyLimit`] by another limit than its own; made by [`with`](KeyedConcurrencyLimit::with) and
/// [`with_owned`](KeyedConcurrencyLimit::with_owned).
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

impl<P> WithLimit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit> + Clone + Send + Sync,
{
    pub(super) fn new(all: P, limit: u32) -> Self {
        Self { all, limit }
    }

    /// [`KeyedConcurrencyLimit::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(&self, key: &(impl Hash + ?Sized)) -> Result<KeyPermit<P>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// [`KeyedConcurrencyLimit::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(
        &self,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<KeyPermit<P>, Denied> {
        self.all
            .permit(key, n, Some(self.limit), || self.all.clone())
    }

    /// [`KeyedConcurrencyLimit::acquire`], or, by [`with_owned`](KeyedConcurrencyLimit::with_owned),
    /// [`acquire_owned`](KeyedConcurrencyLimit::acquire_owned). All who wait for the key do so by this limit from then on,
    /// until somebody comes with another: a larger one lets in as many of them as it has room for, in order, and who wants more
    /// than it ever allows is refused.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// [`KeyedConcurrencyLimit::available`].
    pub fn available(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// [`KeyedConcurrencyLimit::snapshot`].
    pub fn snapshot(&self, key: &(impl Hash + ?Sized)) -> Snapshot {
        self.all.snapshot_by(key, self.limit)
    }

    /// The limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }
}
