//! What a [`ConcurrencyLimit`](crate::ConcurrencyLimit) or a [`Gate`](crate::Gate) grants.

mod acquire;

pub use acquire::Permits;

use crate::clock::Timestamp;
use crate::queue::Supply;
use core::fmt;
use core::ops::Deref;

/// A limiter whose grants are in use for a while, and then no longer.
pub trait Lender: Supply + Sized {}

/// The methods of a [`Lender`] that grant permits, each with the documentation of that type. They take them by its `take`.
macro_rules! permit_verbs {
    (
        $(#[$try_acquire:meta])* try_acquire;
        $(#[$try_acquire_n:meta])* try_acquire_n;
        $(#[$try_acquire_owned:meta])* try_acquire_owned;
        $(#[$try_acquire_n_owned:meta])* try_acquire_n_owned;
        $(#[$acquire:meta])* acquire;
        $(#[$acquire_owned:meta])* acquire_owned;
    ) => {
        $(#[$try_acquire])*
        #[inline]
        pub fn try_acquire(&self) -> Result<Permit<&Self>, Denied> {
            self.try_acquire_n(1)
        }

        $(#[$try_acquire_n])*
        #[inline]
        pub fn try_acquire_n(&self, n: u64) -> Result<Permit<&Self>, Denied> {
            self.take(n)?;
            Ok(Permit::new(self, n))
        }

        $(#[$try_acquire_owned])*
        #[inline]
        pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, Denied> {
            self.try_acquire_n_owned(1)
        }

        $(#[$try_acquire_n_owned])*
        #[inline]
        pub fn try_acquire_n_owned(self: &Arc<Self>, n: u64) -> Result<Permit<Arc<Self>>, Denied> {
            self.take(n)?;
            Ok(Permit::new(Arc::clone(self), n))
        }

        $(#[$acquire])*
        pub fn acquire(&self) -> Acquire<Permits<&Self>> {
            Acquire::new(Permits(self))
        }

        $(#[$acquire_owned])*
        pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Permits<Arc<Self>>> {
            Acquire::new(Permits(Arc::clone(self)))
        }
    };
}
pub(crate) use permit_verbs;

/// The pointer by which a permit holds its limit.
pub trait Lent {
    type Limiter;

    fn limiter(&self) -> &Self::Limiter;

    /// Whether a grant of one of them can be given back to the other.
    fn is_alike(&self, other: &Self) -> bool;

    /// Notes that `n` operations that were granted are no longer in use.
    fn end(&self, n: u64);
}

impl<P: Deref<Target: Lender>> Lent for P {
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

/// The right to run admitted operations, held until it is dropped.
///
/// It holds permits of a [`ConcurrencyLimit`](crate::ConcurrencyLimit), or those of all concurrency limits of a
/// [`Gate`](crate::Gate).
///
/// `P` is the pointer to the limit: a reference or, for a permit that can move into another task, an
/// [`Arc`](alloc::sync::Arc) ([`OwnedPermit`](crate::OwnedPermit)). For one key of a
/// [`KeyedConcurrencyLimit`](crate::KeyedConcurrencyLimit), see [`KeyPermit`](crate::KeyPermit).
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
/// Any thread can drop a permit, even while that thread panics, and after the limit was [closed](crate::WaitQueue::close). A
/// leaked permit ([`core::mem::forget`]) stays in use forever. [`forget`](Self::forget) lowers a concurrency limit instead.
#[must_use = "a permit that is dropped immediately is returned immediately"]
pub struct Permit<P: Lent> {
    limit: P,
    pub(in crate::concurrency) n: u64,
}

impl<P: Lent> Permit<P> {
    /// Creates a permit for `n` operations that have been granted.
    #[inline(always)]
    pub(crate) fn new(limit: P, n: u64) -> Self {
        Self { limit, n }
    }

    /// Returns the number of operations that the permit is for.
    pub fn units(&self) -> u64 {
        self.n
    }

    /// Returns the limiter that granted the permit.
    pub fn limiter(&self) -> &P::Limiter {
        self.limit.limiter()
    }

    /// Hands `n` of its operations to a new permit; `None` if it has fewer.
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
    /// Returns `other` itself, unchanged, if it belongs to another limit or key, or if the two together would exceed 2⁶⁴ − 1.
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

impl<P: Deref<Target: Lender>> Permit<P> {
    /// Gives back all that was granted at `at`, including tokens, as if the operation had never been allowed.
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
