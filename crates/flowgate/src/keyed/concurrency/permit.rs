use super::KeyedConcurrencyLimit;
use crate::concurrency::permit::{Lent, Permit};
use crate::keyed::entry::Place;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// Operations that a [`KeyedConcurrencyLimit`] let through for a key, until this is dropped.
///
/// `P` is what it holds its limit by: a reference, or, for a permit that may go into a task of its own, an [`Arc`]
/// ([`OwnedKeyPermit`]). The key itself is not kept.
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
///
/// let limits = KeyedConcurrencyLimit::new(3, 1000)?;
/// let mut permit = limits.try_acquire_n("10.0.0.1", 2)?;
/// assert!(permit.merge(limits.try_acquire("10.0.0.1")?).is_ok());
/// let one = permit.split(1).unwrap();
/// assert_eq!((permit.units(), one.units()), (2, 1));
/// drop(permit);
/// assert_eq!(limits.in_flight("10.0.0.1"), 1);
///
/// let mut one = one;
/// let other = one.merge(limits.try_acquire("10.0.0.2")?).unwrap_err(); // unchanged
/// assert_eq!(other.limiter().in_flight("10.0.0.2"), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It may be dropped by any thread, also while that panics. Leaked ([`core::mem::forget`]), its operations are in
/// flight for ever.
pub type KeyPermit<P> = Permit<AtKey<P>>;

/// A [`KeyPermit`] that keeps its limit alive, and so may go into a task of its own.
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
/// use std::sync::Arc;
///
/// let limits = Arc::new(KeyedConcurrencyLimit::new(2, 1000)?);
/// let permit = limits.try_acquire_owned("tenant")?;
/// let worker = std::thread::spawn(move || {
///     // … work …
///     drop(permit);
/// });
/// worker.join().unwrap();
/// assert_eq!(limits.in_flight("tenant"), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OwnedKeyPermit = KeyPermit<Arc<KeyedConcurrencyLimit>>;

/// One key of a [`KeyedConcurrencyLimit`], which `P` points to: what a [`KeyPermit`] is of.
#[derive(Clone)]
pub struct AtKey<P> {
    pub(super) limit: P,
    /// Where the key's entry is, and stays as long as anything is in flight.
    pub(super) place: Place,
}

impl<P> Lent for AtKey<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    type Limiter = KeyedConcurrencyLimit;

    fn limiter(&self) -> &KeyedConcurrencyLimit {
        &self.limit
    }

    fn is_alike(&self, other: &Self) -> bool {
        core::ptr::eq(self.limiter(), other.limiter()) && self.place == other.place
    }

    #[inline]
    fn end(&self, n: u64) {
        self.limit.give_back(&self.place, n);
    }
}

impl<P> fmt::Debug for AtKey<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtKey").finish_non_exhaustive()
    }
}
