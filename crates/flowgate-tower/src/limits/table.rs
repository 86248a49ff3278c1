use super::{Answer, Custom, Names, Patience, Permit, Standing, Wait};
use flowgate::{
    AnyKeyed, Clock, Denied, KeyNames, Keyed, KeyedAlgorithm, KeyedConcurrencyLimit, KeyedError,
    KeyedGate, Quota,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A table of limits with keys of type `K`. Sealed.
///
/// | table | each key has |
/// |---|---|
/// | [`Keyed`] | a rate limiter, also one with two quotas |
/// | [`KeyedConcurrencyLimit`] | a concurrency limit |
/// | [`KeyedGate`] | a rate limiter, beside limits that all keys share |
/// | [`AnyKeyed`] | a rate limiter that a configuration chooses |
/// | [`Custom<K>`](Custom) | what a limiter of your own decides |
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of limits for keys of type `{K}`",
    note = "tables are `Keyed`, `KeyedConcurrencyLimit`, `KeyedGate` and `AnyKeyed`",
    note = "a table that keeps its keys (`exact::<T>()`) has to keep what `by` finds",
    note = "a limiter of your own implements `CustomLimit<{K}>`, and is passed as `Custom::new(limiter)`"
)]
pub trait Table<K>: sealed::Sealed<K> {}

impl<K, T: sealed::Sealed<K>> Table<K> for T {}

/// The argument of [`LimitLayer::keyed`](crate::LimitLayer::keyed): a [`Table`], or an [`Arc`] of it.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a table of limits",
    note = "tables are `Keyed`, `KeyedConcurrencyLimit`, `KeyedGate` and `AnyKeyed`, by themselves or in an `Arc`",
    note = "one limiter for all requests goes into `LimitLayer::new`",
    note = "a limiter of your own implements `CustomLimit`, and is passed as `Custom::new(limiter)`"
)]
pub trait IntoTable {
    /// The table.
    type Table;

    /// Itself, shared.
    fn into_table(self) -> Arc<Self::Table>;
}

macro_rules! into_table {
    ($([$($parameters:tt)*] $table:ty),* $(,)?) => {$(
        impl<$($parameters)*> IntoTable for $table {
            type Table = $table;

            fn into_table(self) -> Arc<$table> {
                Arc::new(self)
            }
        }

        impl<$($parameters)*> IntoTable for Arc<$table> {
            type Table = $table;

            fn into_table(self) -> Arc<$table> {
                self
            }
        }
    )*};
}

into_table!(
    [A: KeyedAlgorithm, N: KeyNames] Keyed<A, N>,
    [A: KeyedAlgorithm, N: KeyNames] KeyedGate<A, N>,
    [] KeyedConcurrencyLimit,
    [] AnyKeyed,
    [K] Custom<K>,
);

pub(crate) mod sealed {
    use super::{
        Answer, Arc, Clock, Denied, Duration, KeyedError, Names, Patience, Permit, Quota, Standing,
        Wait, fmt,
    };

    /// The methods of [`Limits`](crate::Limits), for a key, and by its per-key quota if it has one.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a table of limits for keys of type `{K}`",
        note = "tables are `Keyed`, `KeyedConcurrencyLimit`, `KeyedGate` and `AnyKeyed`",
        note = "a table that keeps its keys (`exact::<T>()`) has to keep what `by` finds",
        note = "a limiter of your own implements `CustomLimit<{K}>`, and is passed as `Custom::new(limiter)`"
    )]
    pub trait Sealed<K>: fmt::Debug + Send + Sync + 'static {
        type Wait: Wait;

        /// Whether a key can have this per-key quota.
        fn check(&self, own: Quota) -> Result<(), KeyedError> {
            let _ = own;
            Ok(())
        }

        fn clock(&self) -> &Clock;

        fn try_take(
            self: &Arc<Self>,
            key: &K,
            own: Option<&Quota>,
            cost: Option<u64>,
        ) -> Result<Option<Permit>, Denied>;

        fn takes_time(&self) -> bool {
            false
        }

        fn wait(
            self: &Arc<Self>,
            key: &K,
            own: Option<&Quota>,
            cost: Option<u64>,
            patience: Patience,
        ) -> Self::Wait;

        fn token(&self, own: Option<&Quota>) -> u64;

        fn refund(&self, key: &K, own: Option<&Quota>, n: u64);

        fn charge(&self, key: &K, own: Option<&Quota>, n: u64);

        fn standings(
            &self,
            key: &K,
            own: Option<&Quota>,
            names: &Names,
            answer: Answer<'_>,
            tell: impl FnMut(&Standing<'_>),
        );

        fn name_of<'a>(&'a self, denied: &Denied, names: &'a Names) -> &'a str {
            let _ = denied;
            &names.limit
        }

        fn is_the_clients(&self, denied: &Denied) -> bool {
            let _ = denied;
            true
        }

        /// The time for each request at the rate of the key's limit. `None` if it has no quota.
        fn each(&self, key: &K) -> Option<Duration>;
    }
}
