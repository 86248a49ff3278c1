use super::{KeyPermit, KeyedConcurrencyLimit, snapshot};
use crate::limiter::Snapshot;
use crate::verdict::Denied;
use core::hash::Hash;
use core::ops::Deref;

/// A [`KeyedConcurrencyLimit`] by another limit than its own; made by [`with`](KeyedConcurrencyLimit::with) and
/// [`with_owned`](KeyedConcurrencyLimit::with_owned).
#[derive(Clone, Copy, Debug)]
pub struct WithLimit<P> {
    all: P,
    limit: u32,
}

impl<P> WithLimit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit> + Clone,
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
    pub fn try_acquire<K: Hash + ?Sized>(&self, key: &K) -> Result<KeyPermit<P>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// [`KeyedConcurrencyLimit::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n<K: Hash + ?Sized>(&self, key: &K, n: u64) -> Result<KeyPermit<P>, Denied> {
        let place = self.all.place(key);
        self.all.take(&place, n, Some(self.limit))?;
        Ok(KeyPermit::new(self.all.clone(), place, n))
    }

    /// [`KeyedConcurrencyLimit::available`].
    pub fn available<K: Hash + ?Sized>(&self, key: &K) -> u64 {
        self.snapshot(key).remaining
    }

    /// [`KeyedConcurrencyLimit::snapshot`].
    pub fn snapshot<K: Hash + ?Sized>(&self, key: &K) -> Snapshot {
        snapshot(self.all.in_flight(key), self.limit)
    }

    /// The limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }
}
