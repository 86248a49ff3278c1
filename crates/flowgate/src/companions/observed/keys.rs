//! The methods of observed tables and keyed gates, which take a key.

use super::shared::{ObservedKey, SharedCounters};
use super::{Observed, ObservedCounts};
use crate::concurrency::limit::OwnedPermit;
use crate::gate::{Gate, KeyedGate, KeyedTurn};
use crate::keyed::{
    AsKey, KeyNames, KeyPermit, KeyPermits, Keyed, KeyedAlgorithm, KeyedConcurrencyLimit,
    OwnedKeyPermit,
};
use crate::queue::Acquire;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::hash::Hash;

/// Defines the methods of an observed table of limiters.
macro_rules! counts_keys {
    ($table:ty) => {
        impl<A: KeyedAlgorithm, N: KeyNames> Observed<$table> {
            /// Acquires one token of `key`.
            ///
            /// # Errors
            ///
            /// Returns [`Denied`] if no token is available, or if the table is [full](Denied::is_table_full).
            #[inline]
            pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
                let answer = self.limiter.try_acquire(key);
                match &answer {
                    // In the current units, in case they are changing.
                    Ok(()) => self.counters.admitted(self.limiter.token_units()),
                    Err(denied) => self.counters.refused(denied),
                }
                answer
            }

            /// Acquires `n` units of `key`, all or none.
            ///
            /// # Errors
            ///
            /// Returns [`Denied`] if fewer units are available, or if the table is [full](Denied::is_table_full).
            #[inline]
            pub fn try_acquire_n(
                &self,
                key: &(impl AsKey<N> + ?Sized),
                n: u64,
            ) -> Result<(), Denied> {
                self.count(n, self.limiter.try_acquire_n(key, n))
            }

            /// Takes the available units of `key`, up to `n`, and returns how many it took.
            ///
            /// The call counts as one request for the returned number of units. It is not counted if that number is 0.
            pub fn take_up_to(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
                let taken = self.limiter.take_up_to(key, n);
                if taken > 0 {
                    self.counters.admitted(taken);
                }
                taken
            }

            /// Waits for one token of `key` in FIFO order. The returned future is also a builder.
            ///
            /// # Errors
            ///
            /// When awaited, it returns the [`Denied`] of the table.
            pub fn acquire(
                &self,
                key: &(impl AsKey<N> + ?Sized),
            ) -> Acquire<ObservedKey<'_, A, N>> {
                Acquire::new(self.key(key))
            }

            /// Returns the limiter of `key`, with the counters of the table.
            pub fn key(&self, key: &(impl AsKey<N> + ?Sized)) -> ObservedKey<'_, A, N> {
                self.part(self.limiter.key(key))
            }

            /// Returns the counts of all keys so far, and the number of waiters.
            pub fn counts(&self) -> ObservedCounts {
                self.counters.counts(self.limiter.waiting() as u64)
            }
        }
    };
}

counts_keys!(Keyed<A, N>);
counts_keys!(Arc<Keyed<A, N>>);

/// Methods that keep the table alive.
impl<A: KeyedAlgorithm, N: KeyNames> Observed<Arc<Keyed<A, N>>> {
    /// Returns the limiter of `key`, and keeps the table and its counters alive.
    ///
    /// Use it for a [`Gate`], a spawned task, or a struct. [`key`](Self::key) returns a limiter that borrows the table.
    pub fn key_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> ObservedKey<'static, A, N> {
        self.part_owned(self.limiter.key_owned(key))
    }

    /// Waits as [`acquire`](Self::acquire), with a future that keeps the table alive.
    ///
    /// The future can be moved into a spawned task.
    ///
    /// # Errors
    ///
    /// When awaited, it returns the [`Denied`] of the table.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> Acquire<ObservedKey<'static, A, N>> {
        Acquire::new(self.key_owned(key))
    }
}

/// Defines the methods of an observed table of concurrency limits.
macro_rules! counts_key_permits {
    ($table:ty) => {
        impl Observed<$table> {
            /// Admits one operation for `key`.
            ///
            /// # Errors
            ///
            /// Returns the [`Denied`] of [`KeyedConcurrencyLimit::try_acquire`].
            #[inline]
            pub fn try_acquire(
                &self,
                key: &(impl Hash + ?Sized),
            ) -> Result<KeyPermit<&KeyedConcurrencyLimit>, Denied> {
                self.try_acquire_n(key, 1)
            }

            /// Admits `n` operations for `key`, all or none.
            ///
            /// # Errors
            ///
            /// Returns the [`Denied`] of [`KeyedConcurrencyLimit::try_acquire_n`].
            #[inline]
            pub fn try_acquire_n(
                &self,
                key: &(impl Hash + ?Sized),
                n: u64,
            ) -> Result<KeyPermit<&KeyedConcurrencyLimit>, Denied> {
                self.count(n, self.limiter.try_acquire_n(key, n))
            }

            /// Waits in FIFO order for one permit of `key`. The returned future is also a builder.
            ///
            /// # Errors
            ///
            /// When awaited, it returns the [`Denied`] of [`KeyedConcurrencyLimit::acquire`].
            pub fn acquire(
                &self,
                key: &(impl Hash + ?Sized),
            ) -> Acquire<Observed<KeyPermits<&KeyedConcurrencyLimit>, SharedCounters<'_>>> {
                let limit: &KeyedConcurrencyLimit = &self.limiter;
                Acquire::new(self.part(KeyPermits::of_key(limit, key)))
            }

            /// Returns the counts of all keys so far, and the number of waiters.
            pub fn counts(&self) -> ObservedCounts {
                self.counters.counts(self.limiter.waiting() as u64)
            }
        }
    };
}

counts_key_permits!(KeyedConcurrencyLimit);
counts_key_permits!(Arc<KeyedConcurrencyLimit>);

/// Methods that keep the table alive.
impl Observed<Arc<KeyedConcurrencyLimit>> {
    /// Admits one operation for `key`, with a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// Returns the [`Denied`] of [`KeyedConcurrencyLimit::try_acquire`].
    #[inline]
    pub fn try_acquire_owned(&self, key: &(impl Hash + ?Sized)) -> Result<OwnedKeyPermit, Denied> {
        self.try_acquire_n_owned(key, 1)
    }

    /// Admits `n` operations for `key`, with a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// Returns the [`Denied`] of [`KeyedConcurrencyLimit::try_acquire_n`].
    #[inline]
    pub fn try_acquire_n_owned(
        &self,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<OwnedKeyPermit, Denied> {
        self.count(n, self.limiter.try_acquire_n_owned(key, n))
    }

    /// Waits as [`acquire`](Self::acquire). The future and its permit keep the limit alive.
    ///
    /// # Errors
    ///
    /// When awaited, it returns the [`Denied`] of [`KeyedConcurrencyLimit::acquire`].
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
    ) -> Acquire<Observed<KeyPermits<Arc<KeyedConcurrencyLimit>>, SharedCounters<'static>>> {
        let limit = Arc::clone(&self.limiter);
        Acquire::new(self.part_owned(KeyPermits::of_key(limit, key)))
    }
}

/// Counts the decisions of the gate, and not those of the limits inside.
impl<A: KeyedAlgorithm, N: KeyNames> Observed<KeyedGate<A, N>> {
    /// Acquires one token of `key` and one of each shared limit, or nothing.
    ///
    /// # Errors
    ///
    /// Returns the [`Denied`] of [`KeyedGate::try_acquire`].
    pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<OwnedPermit<Gate>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// Acquires `n` tokens of `key` and of each shared limit, or nothing.
    ///
    /// # Errors
    ///
    /// Returns the [`Denied`] of [`KeyedGate::try_acquire_n`].
    pub fn try_acquire_n(
        &self,
        key: &(impl AsKey<N> + ?Sized),
        n: u64,
    ) -> Result<OwnedPermit<Gate>, Denied> {
        self.count(n, self.limiter.try_acquire_n(key, n))
    }

    /// Waits for `key` and the shared limits. The returned future is also a builder.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Gate, Keyed, Observed};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let gate = Gate::builder()
    ///     .limit("slots", ConcurrencyLimit::new(50))
    ///     .keyed("host", Keyed::leaky_bucket("1/2s".parse()?).capacity(1000)?)
    ///     .build()?;
    /// let gate = Observed::new(gate);
    /// let permit = gate.acquire("example.org").await?;
    /// assert!(gate.try_acquire("example.org").is_err());
    /// let counts = gate.counts();
    /// assert_eq!((counts.admitted, counts.refused.total(), counts.waited), (1, 1, 0));
    /// # drop(permit);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When awaited, it returns the [`Denied`] of [`KeyedGate::acquire`].
    pub fn acquire(
        &self,
        key: &(impl AsKey<N> + ?Sized),
    ) -> Acquire<Observed<KeyedTurn<A, N>, SharedCounters<'_>>> {
        Acquire::new(self.part(self.limiter.turn_of(key)))
    }

    /// Waits as [`acquire`](Self::acquire), with a future that keeps the gate and its counters alive.
    ///
    /// # Errors
    ///
    /// When awaited, it returns the [`Denied`] of [`KeyedGate::acquire`].
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> Acquire<Observed<KeyedTurn<A, N>, SharedCounters<'static>>> {
        Acquire::new(self.part_owned(self.limiter.turn_of(key)))
    }

    /// Returns the counts of all keys so far, and this gate's number of waiters.
    pub fn counts(&self) -> ObservedCounts {
        self.counters.counts(self.counters.waiting())
    }
}
