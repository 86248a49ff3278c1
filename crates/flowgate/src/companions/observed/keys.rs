//! The methods of observed tables and keyed gates, which name a key.

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

/// Gives an observed table of limiters its methods.
macro_rules! counts_keys {
    ($table:ty) => {
        impl<A: KeyedAlgorithm, N: KeyNames> Observed<$table> {
            /// Takes one token of `key`.
            ///
            /// # Errors
            ///
            /// [`Denied`] if there is none, or [no room](Denied::is_table_full) for the key.
            #[inline]
            pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
                let answer = self.limiter.try_acquire(key);
                match &answer {
                    // In the units of just now, should they be changing.
                    Ok(()) => self.counters.admitted(self.limiter.token_units()),
                    Err(denied) => self.counters.refused(denied),
                }
                answer
            }

            /// Takes `n` units of `key`, all or none.
            ///
            /// # Errors
            ///
            /// [`Denied`] if there are fewer, or [no room](Denied::is_table_full) for the key.
            #[inline]
            pub fn try_acquire_n(
                &self,
                key: &(impl AsKey<N> + ?Sized),
                n: u64,
            ) -> Result<(), Denied> {
                self.count(n, self.limiter.try_acquire_n(key, n))
            }

            /// Takes the available units of `key`, up to `n`, and returns how many it took. Counts as one request of so
            /// many units, and not at all if there are none.
            pub fn take_up_to(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
                let taken = self.limiter.take_up_to(key, n);
                if taken > 0 {
                    self.counters.admitted(taken);
                }
                taken
            }

            /// Waits for one token of `key`, in turn: a future that is also a builder.
            ///
            /// # Errors
            ///
            /// When awaited: [`Denied`], as at the table.
            pub fn acquire(
                &self,
                key: &(impl AsKey<N> + ?Sized),
            ) -> Acquire<ObservedKey<'_, A, N>> {
                Acquire::new(self.key(key))
            }

            /// Returns the limiter of `key`, which counts here.
            pub fn key(&self, key: &(impl AsKey<N> + ?Sized)) -> ObservedKey<'_, A, N> {
                self.part(self.limiter.key(key))
            }

            /// Returns what has been counted so far, of all keys, and how many wait now, for whichever key.
            pub fn counts(&self) -> ObservedCounts {
                self.counters.counts(self.limiter.waiting() as u64)
            }
        }
    };
}

counts_keys!(Keyed<A, N>);
counts_keys!(Arc<Keyed<A, N>>);

/// What keeps the table alive.
impl<A: KeyedAlgorithm, N: KeyNames> Observed<Arc<Keyed<A, N>>> {
    /// [`key`](Self::key), which keeps the table and its counters alive: for a [`Gate`], a task of its own, or a struct.
    pub fn key_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> ObservedKey<'static, A, N> {
        self.part_owned(self.limiter.key_owned(key))
    }

    /// [`acquire`](Self::acquire) with a future that keeps the table alive, and so may go into a task of its own.
    ///
    /// # Errors
    ///
    /// When awaited: [`Denied`], as at the table.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> Acquire<ObservedKey<'static, A, N>> {
        Acquire::new(self.key_owned(key))
    }
}

/// Gives an observed table of concurrency limits its methods.
macro_rules! counts_key_permits {
    ($table:ty) => {
        impl Observed<$table> {
            /// Admits one operation for `key`.
            ///
            /// # Errors
            ///
            /// [`Denied`] as from [`KeyedConcurrencyLimit::try_acquire`].
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
            /// [`Denied`] as from [`KeyedConcurrencyLimit::try_acquire_n`].
            #[inline]
            pub fn try_acquire_n(
                &self,
                key: &(impl Hash + ?Sized),
                n: u64,
            ) -> Result<KeyPermit<&KeyedConcurrencyLimit>, Denied> {
                self.count(n, self.limiter.try_acquire_n(key, n))
            }

            /// Waits until one operation may start for `key`, in turn: a future that is also a builder.
            ///
            /// # Errors
            ///
            /// When awaited: [`Denied`] as from [`KeyedConcurrencyLimit::acquire`].
            pub fn acquire(
                &self,
                key: &(impl Hash + ?Sized),
            ) -> Acquire<Observed<KeyPermits<&KeyedConcurrencyLimit>, SharedCounters<'_>>> {
                let limit: &KeyedConcurrencyLimit = &self.limiter;
                Acquire::new(self.part(KeyPermits::of_key(limit, key)))
            }

            /// Returns what has been counted so far, of all keys, and how many wait now, for whichever key.
            pub fn counts(&self) -> ObservedCounts {
                self.counters.counts(self.limiter.waiting() as u64)
            }
        }
    };
}

counts_key_permits!(KeyedConcurrencyLimit);
counts_key_permits!(Arc<KeyedConcurrencyLimit>);

/// What keeps the table alive.
impl Observed<Arc<KeyedConcurrencyLimit>> {
    /// [`try_acquire`](Self::try_acquire), for a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// The same.
    #[inline]
    pub fn try_acquire_owned(&self, key: &(impl Hash + ?Sized)) -> Result<OwnedKeyPermit, Denied> {
        self.try_acquire_n_owned(key, 1)
    }

    /// [`try_acquire_n`](Self::try_acquire_n), for a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// The same.
    #[inline]
    pub fn try_acquire_n_owned(
        &self,
        key: &(impl Hash + ?Sized),
        n: u64,
    ) -> Result<OwnedKeyPermit, Denied> {
        self.count(n, self.limiter.try_acquire_n_owned(key, n))
    }

    /// [`acquire`](Self::acquire), for a permit that keeps the limit alive, as the future does.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl Hash + ?Sized),
    ) -> Acquire<Observed<KeyPermits<Arc<KeyedConcurrencyLimit>>, SharedCounters<'static>>> {
        let limit = Arc::clone(&self.limiter);
        Acquire::new(self.part_owned(KeyPermits::of_key(limit, key)))
    }
}

/// A keyed gate as one: what its limits decide is not counted again.
impl<A: KeyedAlgorithm, N: KeyNames> Observed<KeyedGate<A, N>> {
    /// Takes one token of `key` and one of each shared limit, or nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] as from [`KeyedGate::try_acquire`].
    pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<OwnedPermit<Gate>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// Takes `n` tokens of `key` and of each shared limit, or nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] as from [`KeyedGate::try_acquire_n`].
    pub fn try_acquire_n(
        &self,
        key: &(impl AsKey<N> + ?Sized),
        n: u64,
    ) -> Result<OwnedPermit<Gate>, Denied> {
        self.count(n, self.limiter.try_acquire_n(key, n))
    }

    /// Waits for `key` and the shared limits: a future that is also a builder.
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
    /// When awaited: [`Denied`] as from [`KeyedGate::acquire`].
    pub fn acquire(
        &self,
        key: &(impl AsKey<N> + ?Sized),
    ) -> Acquire<Observed<KeyedTurn<A, N>, SharedCounters<'_>>> {
        Acquire::new(self.part(self.limiter.turn_of(key)))
    }

    /// [`acquire`](Self::acquire) with a future that keeps the gate and its counters alive.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> Acquire<Observed<KeyedTurn<A, N>, SharedCounters<'static>>> {
        Acquire::new(self.part_owned(self.limiter.turn_of(key)))
    }

    /// Returns what has been counted so far, of all keys. Those who wait are those who do so here.
    pub fn counts(&self) -> ObservedCounts {
        self.counters.counts(self.counters.waiting())
    }
}
