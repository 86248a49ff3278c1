use super::{Permit, Standing, Turn, Wait};
use flowgate::{
    Acquire, AsKey, Denied, KeyLimiter, KeyNames, KeyPermits, Keyed, KeyedAlgorithm,
    KeyedConcurrencyLimit, KeyedError, KeyedView, Quota,
};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// A table of limits that knows keys of type `K`: [`Keyed`] or [`KeyedConcurrencyLimit`]. Sealed.
///
/// ```
/// use flowgate::{Keyed, KeyedConcurrencyLimit};
/// use flowgate_tower::by::{self, Path};
/// use flowgate_tower::{IntoTable, LimitLayer, PerKey, Table};
///
/// /// By path, whichever kind of table it is.
/// fn by_path<T: IntoTable<Table: Table<String>>>(table: T) -> LimitLayer<PerKey<T::Table, Path>> {
///     LimitLayer::keyed(table, by::path())
/// }
///
/// let rates = by_path(Keyed::token_bucket("100/s".parse()?).capacity(1000)?);
/// let at_once = by_path(KeyedConcurrencyLimit::new(5, 1000)?);
/// assert_eq!(rates.counts().get(), at_once.counts().get());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Table<K>: sealed::Sealed<K> {}

impl<K, T: sealed::Sealed<K>> Table<K> for T {}

/// What [`LimitLayer::keyed`](crate::LimitLayer::keyed) takes: a [`Table`], or an [`Arc`] of it.
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
/// use flowgate_tower::IntoTable;
/// use std::sync::Arc;
///
/// let table = Arc::new(KeyedConcurrencyLimit::new(5, 1000)?);
/// assert!(Arc::ptr_eq(&Arc::clone(&table).into_table(), &table));
/// // By itself, it is shared from here on.
/// assert_eq!(KeyedConcurrencyLimit::new(5, 1000)?.into_table().limit(), 5);
/// # Ok::<(), flowgate::KeyedError>(())
/// ```
pub trait IntoTable {
    /// The table.
    type Table;

    /// Itself, shared.
    fn into_table(self) -> Arc<Self::Table>;
}

macro_rules! into_table {
    ($($table:ty $(where $algorithm:ident, $names:ident)?),*) => {$(
        impl$(<$algorithm: KeyedAlgorithm, $names: KeyNames>)? IntoTable for $table {
            type Table = $table;

            fn into_table(self) -> Arc<$table> {
                Arc::new(self)
            }
        }

        impl$(<$algorithm: KeyedAlgorithm, $names: KeyNames>)? IntoTable for Arc<$table> {
            type Table = $table;

            fn into_table(self) -> Arc<$table> {
                self
            }
        }
    )*};
}

into_table!(Keyed<A, N> where A, N, KeyedConcurrencyLimit);

pub(crate) mod sealed {
    use super::{Arc, Denied, Duration, KeyedError, Permit, Quota, Standing, Wait};

    /// As the methods of [`Limits`](crate::Limits), for a key, and by a quota of its own if it has one.
    pub trait Sealed<K>: Send + Sync + 'static {
        type Wait: Wait;

        fn check(&self, own: Quota) -> Result<(), KeyedError>;

        fn try_take(
            self: &Arc<Self>,
            key: &K,
            own: Option<&Quota>,
            cost: Option<u64>,
        ) -> Result<Option<Permit>, Denied>;

        fn wait(
            self: &Arc<Self>,
            key: &K,
            own: Option<&Quota>,
            cost: Option<u64>,
            patience: Duration,
        ) -> Self::Wait;

        fn token(&self, own: Option<&Quota>) -> u64;

        fn refund(&self, key: &K, own: Option<&Quota>, n: u64);

        fn charge(&self, key: &K, own: Option<&Quota>, n: u64);

        fn standing<'a>(&self, key: &K, own: Option<&Quota>, name: &'a str) -> Standing<'a>;
    }
}

/// `keyed` by the key's own quota. That it can be kept has been checked, so it is.
fn view<'a, A: KeyedAlgorithm<Quota = Quota>, N: KeyNames>(
    keyed: &'a Keyed<A, N>,
    own: Option<&Quota>,
) -> Option<KeyedView<'a, A, N>> {
    keyed.with(*own?).ok()
}

impl<A, N, K> sealed::Sealed<K> for Keyed<A, N>
where
    A: KeyedAlgorithm<Quota = Quota> + 'static,
    N: KeyNames + 'static,
    K: AsKey<N> + Send + Sync + 'static,
    Keyed<A, N>: Send + Sync,
{
    type Wait = Turn<KeyLimiter<'static, A, N>>;

    fn check(&self, own: Quota) -> Result<(), KeyedError> {
        self.with(own).map(|_| ())
    }

    fn try_take(
        self: &Arc<Self>,
        key: &K,
        own: Option<&Quota>,
        cost: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        match (view(self, own), cost) {
            (None, None) => self.try_acquire(key),
            (None, Some(n)) => self.try_acquire_n(key, n),
            (Some(own), None) => own.try_acquire(key),
            (Some(own), Some(n)) => own.try_acquire_n(key, n),
        }
        .map(|()| None)
    }

    fn wait(
        self: &Arc<Self>,
        key: &K,
        own: Option<&Quota>,
        cost: Option<u64>,
        patience: Duration,
    ) -> Self::Wait {
        let limiter = || self.key_owned(key);
        let by_own = own.and_then(|own| limiter().with(*own).ok());
        let limiter = by_own.unwrap_or_else(limiter);
        Turn::new(Acquire::new(limiter), cost, patience)
    }

    fn token(&self, own: Option<&Quota>) -> u64 {
        own.map_or_else(|| self.quota().scale(), Quota::scale)
    }

    fn refund(&self, key: &K, own: Option<&Quota>, n: u64) {
        match view(self, own) {
            Some(own) => own.refund(key, n),
            None => Keyed::refund(self, key, n),
        };
    }

    fn charge(&self, key: &K, own: Option<&Quota>, n: u64) {
        match view(self, own) {
            Some(own) => own.take_up_to(key, n),
            None => self.take_up_to(key, n),
        };
    }

    fn standing<'a>(&self, key: &K, own: Option<&Quota>, name: &'a str) -> Standing<'a> {
        match view(self, own) {
            Some(view) => {
                let more = |n| view.peek_n(key, n);
                Standing::of_rate(
                    name,
                    view.snapshot(key),
                    own.copied(),
                    self.policy().is_steady,
                    more,
                )
            }
            None => {
                let policy = self.policy();
                let quota = Some(policy.quota);
                let more = |n| self.peek_n(key, n);
                Standing::of_rate(name, self.snapshot(key), quota, policy.is_steady, more)
            }
        }
    }
}

impl<K> sealed::Sealed<K> for KeyedConcurrencyLimit
where
    K: Hash + Send + Sync + 'static,
{
    type Wait = Turn<KeyPermits<Arc<Self>>>;

    fn check(&self, _: Quota) -> Result<(), KeyedError> {
        Ok(())
    }

    fn try_take(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        self.try_acquire_n_owned(key, cost.unwrap_or(1))
            .map(|permit| Some(Permit::Key(permit)))
    }

    fn wait(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
        patience: Duration,
    ) -> Self::Wait {
        Turn::new(self.acquire_owned(key), cost, patience)
    }

    fn token(&self, _: Option<&Quota>) -> u64 {
        1
    }

    fn refund(&self, _: &K, _: Option<&Quota>, _: u64) {}

    fn charge(&self, _: &K, _: Option<&Quota>, _: u64) {}

    fn standing<'a>(&self, key: &K, _: Option<&Quota>, name: &'a str) -> Standing<'a> {
        Standing::of_slots(name, self.snapshot(key))
    }
}
