use super::KeyedConcurrencyLimit;
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
/// let mut permit = limits.try_acquire_n("10.0.0.1", 3)?;
/// let one = permit.split(1).unwrap();
/// assert_eq!((permit.units(), one.units()), (2, 1));
/// drop(permit);
/// assert_eq!(limits.in_flight("10.0.0.1"), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It may be dropped by any thread, also while that panics. Leaked ([`core::mem::forget`]), its operations are in
/// flight for ever.
#[must_use = "dropped at once, it gives back at once"]
pub struct KeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    limit: P,
    /// Where the key's entry is, and stays until this is dropped, unless `n` is 0.
    place: Place,
    n: u64,
}

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

impl<P> KeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    /// For `n` operations that have been let in for the key at `place`.
    #[inline]
    pub(super) fn new(limit: P, place: Place, n: u64) -> Self {
        Self { limit, place, n }
    }

    /// How many operations it is for.
    pub fn units(&self) -> u64 {
        self.n
    }

    /// Who granted it.
    pub fn limiter(&self) -> &KeyedConcurrencyLimit {
        &self.limit
    }

    /// Hands `n` of its operations to another permit; `None` if it has fewer.
    pub fn split(&mut self, n: u64) -> Option<Self>
    where
        P: Clone,
    {
        self.n = self.n.checked_sub(n)?;
        Some(Self::new(self.limit.clone(), self.place, n))
    }

    /// Takes over all operations of `other`.
    ///
    /// ```
    /// # use flowgate::KeyedConcurrencyLimit;
    /// let limits = KeyedConcurrencyLimit::new(5, 1000)?;
    /// let mut permit = limits.try_acquire("tenant")?;
    /// assert!(permit.merge(limits.try_acquire_n("tenant", 2)?).is_ok());
    /// assert_eq!(permit.units(), 3);
    ///
    /// let other = permit.merge(limits.try_acquire("another")?).unwrap_err(); // unchanged
    /// assert_eq!(other.limiter().in_flight("another"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `other` itself, unchanged, if it is of another limit or for another key.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        let is_alike = core::ptr::eq(self.limiter(), other.limiter()) && self.place == other.place;
        if !is_alike {
            return Err(other);
        }
        // Both are in flight for one key, which are less than 2³².
        self.n += core::mem::take(&mut other.n);
        Ok(())
    }
}

impl<P> Drop for KeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    #[inline]
    fn drop(&mut self) {
        if self.n != 0 {
            self.limit.give_back(&self.place, self.n);
        }
    }
}

impl<P> fmt::Debug for KeyPermit<P>
where
    P: Deref<Target = KeyedConcurrencyLimit>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPermit")
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
