//! What a [`ConcurrencyLimit`](crate::ConcurrencyLimit) or a [`Gate`](crate::Gate) grants.

mod acquire;

pub use acquire::Permits;

use crate::clock::Timestamp;
use crate::queue::Supply;
use core::fmt;
use core::ops::Deref;

/// Whose grants are in use for a while, and then no longer.
pub trait Lender: Supply + Sized {}

/// What a permit holds its limit by.
pub trait Lent {
    type Limiter;

    fn limiter(&self) -> &Self::Limiter;

    /// Whether what one of them granted can be given back by the other.
    fn is_alike(&self, other: &Self) -> bool;

    /// `n` operations that were granted are no longer in use.
    fn end(&self, n: u64);
}

impl<P> Lent for P
where
    P: Deref,
    P::Target: Lender,
{
    type Limiter = P::Target;

    #[inline(always)]
    fn limiter(&self) -> &P::Target {
        self
    }

    fn is_alike(&self, other: &Self) -> bool {
        core::ptr::eq::<P::Target>(&**self, &**other)
    }

    #[inline(always)]
    fn end(&self, n: u64) {
        (**self).end(n);
    }
}

/// Operations that were let through, until this is dropped: slots of a [`ConcurrencyLimit`](crate::ConcurrencyLimit), in use, or those of all
/// limits of a [`Gate`](crate::Gate).
///
/// `P` is what it holds its limit by: a reference, or, for a permit that may go into a task of its own, an
/// [`Arc`](alloc::sync::Arc) ([`OwnedPermit`](crate::OwnedPermit)). For one key of a
/// [`KeyedConcurrencyLimit`](crate::KeyedConcurrencyLimit) see [`KeyPermit`](crate::KeyPermit).
///
/// ```
/// use flowgate::ConcurrencyLimit;
///
/// let limit = ConcurrencyLimit::new(3);
/// let mut permit = limit.try_acquire_n(3)?;
/// let one = permit.split(1).unwrap();
/// assert_eq!((permit.units(), one.units()), (2, 1));
/// drop(permit);
/// assert_eq!(limit.available(), 2);
/// # Ok::<(), flowgate::Denied>(())
/// ```
///
/// It may be dropped by any thread, also while that panics, and after the limit was
/// [closed](crate::WaitQueue::close). Leaked ([`core::mem::forget`]), its slots stay in use for ever;
/// [`forget`](Self::forget) says so to the limit.
#[must_use = "dropped at once, it gives its slots back at once"]
pub struct Permit<P: Lent> {
    limit: P,
    pub(in crate::concurrency) n: u64,
}

impl<P: Lent> Permit<P> {
    /// For `n` operations that have been granted.
    #[inline(always)]
    pub(crate) fn new(limit: P, n: u64) -> Self {
        Self { limit, n }
    }

    /// How many operations it is for.
    pub fn units(&self) -> u64 {
        self.n
    }

    /// Who granted it.
    pub fn limiter(&self) -> &P::Limiter {
        self.limit.limiter()
    }

    /// Hands `n` of its operations to another permit; `None` if it has fewer.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(10);
    /// let mut permit = limit.try_acquire_n(5)?;
    /// let half = permit.split(2).expect("it has 5");
    /// drop(half);
    /// assert_eq!((permit.units(), limit.in_flight()), (3, 3));
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn split(&mut self, n: u64) -> Option<Self>
    where
        P: Clone,
    {
        self.n = self.n.checked_sub(n)?;
        Some(Self::new(self.limit.clone(), n))
    }

    /// Takes over all operations of `other`.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// let [limit, elsewhere] = [(); 2].map(|()| ConcurrencyLimit::new(10));
    /// let mut permit = limit.try_acquire_n(5)?;
    /// assert!(permit.merge(limit.try_acquire_n(3)?).is_ok());
    /// assert_eq!(permit.units(), 8);
    ///
    /// let other = permit.merge(elsewhere.try_acquire()?).unwrap_err(); // unchanged
    /// assert_eq!(other.limiter().in_flight(), 1);
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `other` itself, unchanged, if it is of another limit or for another key, or if together they would be for more than
    /// 2⁶⁴ − 1.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        let n = self.n.checked_add(other.n);
        let Some(n) = n.filter(|_| self.limit.is_alike(&other.limit)) else {
            return Err(other);
        };
        self.n = n;
        other.n = 0;
        Ok(())
    }
}

impl<P> Permit<P>
where
    P: Deref,
    P::Target: Lender,
{
    /// Gives back all that was granted at `at`, tokens too, as if the operation had never been allowed.
    pub(crate) fn take_back(mut self, at: Timestamp) {
        let n = core::mem::take(&mut self.n);
        self.limit.take_back(at, n, &[]);
    }
}

impl<P: Lent> Drop for Permit<P> {
    #[inline]
    fn drop(&mut self) {
        if self.n != 0 {
            self.limit.end(self.n);
        }
    }
}

impl<P: Lent> fmt::Debug for Permit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}
