use super::algorithm::KeyedAlgorithm;
use super::key::KeyLimiter;
use super::names::{AsKey, Hashed, KeyNames};
use super::rule::Terms;
use super::{Keyed, KeyedError};
use crate::clock::Timestamp;
use crate::limiter::Snapshot;
use crate::queue::Acquire;
use crate::quota::Quota;
use crate::verdict::Denied;
use core::fmt;

/// The methods of [`Keyed`] at an explicit timestamp, or with a per-key quota.
///
/// [`Keyed::at`] and [`Keyed::with`] return it. It is `Copy`, and can be kept.
///
/// ```
/// use flowgate::{Keyed, Quota, Timestamp};
/// use std::time::Duration;
///
/// let limits = Keyed::token_bucket("10/s burst 2".parse()?).capacity(1000)?;
/// let gold = limits.with(Quota::per_second(100))?;
/// assert_eq!((limits.available("bob"), gold.available("ann")), (2, 100));
/// assert_eq!(gold.take_up_to("ann", 120), 100);
/// assert!(gold.refund("ann", 30) <= 30); // some may have flowed in again by itself
/// gold.acquire("ann").block()?;
///
/// let then = Timestamp::from_nanos(5_000_000_000); // a simulation's time
/// let replayed = Keyed::token_bucket("10/s burst 2".parse()?).capacity(1000)?;
/// replayed.at(then).try_acquire_n("bob", 2)?;
/// let denied = replayed.at(then).peek("bob").unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
/// replayed.at(then).reset("bob");
/// assert_eq!(replayed.at(then).snapshot("bob").remaining, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedView<'a, A: KeyedAlgorithm, N: KeyNames = Hashed> {
    pub(super) keyed: &'a Keyed<A, N>,
    pub(super) now_ns: Option<u64>,
    pub(super) own: Option<Terms>,
}

impl<A: KeyedAlgorithm, N: KeyNames> Clone for KeyedView<'_, A, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Copy for KeyedView<'_, A, N> {}

impl<A: KeyedAlgorithm<Quota = Quota>, N: KeyNames> KeyedView<'_, A, N> {
    /// Returns the same methods with a per-key quota; see [`Keyed::with`].
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if the table cannot keep this quota.
    pub fn with(self, quota: Quota) -> Result<Self, KeyedError> {
        let own = Some(self.keyed.own_terms(quota)?);
        Ok(Self { own, ..self })
    }
}

impl<'a, A: KeyedAlgorithm, N: KeyNames> KeyedView<'a, A, N> {
    /// Returns the same methods at an explicit timestamp; see [`Keyed::at`].
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        let now_ns = Some(now.as_nanos());
        Self { now_ns, ..self }
    }

    fn key<'k>(&self, key: &'k (impl AsKey<N> + ?Sized)) -> KeyLimiter<'k, A, N>
    where
        'a: 'k,
    {
        let keyed: &'k Keyed<A, N> = self.keyed;
        keyed.seen(key).at_terms(self.now_ns, self.own)
    }

    /// Takes one token of `key`; see [`Keyed::try_acquire`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available ([`retry_after`](Denied::retry_after)), callers wait for the key, or the table
    /// has no entry for the key ([`is_table_full`](Denied::is_table_full)). Nothing is then taken.
    #[inline]
    pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.key(key).try_acquire()
    }

    /// Takes `n` units of `key`, all or none; see [`Keyed::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if fewer than `n` units are available ([`retry_after`](Denied::retry_after)), callers wait for the key,
    /// the table has no entry for the key ([`is_table_full`](Denied::is_table_full)), or `n` is more than the quota ever allows
    /// ([`is_never`](Denied::is_never)). Nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.key(key).try_acquire_n(n)
    }

    /// Returns the result that `try_acquire` would return now, and takes nothing; see [`Keyed::peek`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available ([`retry_after`](Denied::retry_after)) or callers wait for the key.
    pub fn peek(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.key(key).peek()
    }

    /// Returns the result that `try_acquire_n` would return now, and takes nothing; see [`Keyed::peek_n`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if fewer than `n` units are available ([`retry_after`](Denied::retry_after)), callers wait for the key,
    /// or `n` is more than the quota ever allows ([`is_never`](Denied::is_never)).
    pub fn peek_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.key(key).peek_n(n)
    }

    /// Takes up to `n` available units of `key`, and returns their number; see [`Keyed::take_up_to`].
    pub fn take_up_to(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
        self.key(key).take_up_to(n)
    }

    /// Returns up to `n` units to `key`, and reports how many; see [`Keyed::refund`].
    pub fn refund(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
        self.key(key).refund(n)
    }

    /// Forgets what `key` has taken; see [`Keyed::reset`].
    pub fn reset(&self, key: &(impl AsKey<N> + ?Sized)) {
        self.key(key).reset();
    }

    /// Returns the number of units that `key` could take now; see [`Keyed::available`].
    pub fn available(&self, key: &(impl AsKey<N> + ?Sized)) -> u64 {
        self.key(key).available()
    }

    /// Returns a consistent snapshot of `key`; see [`Keyed::snapshot`].
    pub fn snapshot(&self, key: &(impl AsKey<N> + ?Sized)) -> Snapshot {
        self.key(key).snapshot()
    }

    /// Waits for one token of `key` in the key's queue; see [`Keyed::acquire`].
    ///
    /// The wait uses the limiter's clock, even if this view has an explicit timestamp. From then on, all waiters of the key use
    /// this view's quota, until a waiter with another quota joins. As after [`Keyed::set_quota`], a faster quota grants them
    /// earlier, and a waiter that asks for more than the quota ever allows is refused.
    pub fn acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Acquire<KeyLimiter<'a, A, N>> {
        Acquire::new(self.keyed.key(key).at_terms(None, self.own))
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyedView<'_, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedView")
            .field("keyed", self.keyed)
            .field("now", &self.now_ns.map(Timestamp::from_nanos))
            .finish_non_exhaustive()
    }
}
