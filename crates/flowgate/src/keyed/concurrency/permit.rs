use super::KeyedConcurrencyLimit;
use crate::concurrency::permit::{Lent, Permit};
use crate::keyed::entry::Place;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// A guard of operations that a [`KeyedConcurrencyLimit`] has admitted for one key.
///
/// The operations are in flight until the permit is dropped. `P` is the pointer to the limiter: a reference, or an [`Arc`]
/// ([`OwnedKeyPermit`]) for a permit that moves into a separate task. The permit does not contain the key.
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
/// Any thread may drop the permit, also while it panics. If a permit is leaked ([`core::mem::forget`]), its operations stay in
/// flight forever.
pub type KeyPermit<P> = Permit<AtKey<P>>;

/// A [`KeyPermit`] that keeps its limiter alive and can move into a task.
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

/// One key of a [`KeyedConcurrencyLimit`], to which a [`KeyPermit`] belongs.
///
/// `P` is the pointer to the limiter.
#[derive(Clone)]
pub struct AtKey<P> {
    pub(super) limit: P,
    /// The place of the key's entry, which stays the same while anything is in flight.
    pub(super) place: Place,
}

impl<P: Deref<Target = KeyedConcurrencyLimit>> Lent for AtKey<P> {
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
