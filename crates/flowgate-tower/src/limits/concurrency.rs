//! A table of concurrency limits: one for each key.

use super::table::sealed::Sealed;
use super::{Answer, Names, Patience, Permit, Standing, Turn};
use flowgate::{Clock, Denied, KeyPermits, KeyedConcurrencyLimit, Quota};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

impl<K> Sealed<K> for KeyedConcurrencyLimit
where
    K: Hash + Send + Sync + 'static,
{
    type Wait = Turn<KeyPermits<Arc<Self>>>;

    fn clock(&self) -> &Clock {
        self.clock()
    }

    fn try_take(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        self.try_acquire_n_owned(key, cost.unwrap_or(1))
            .map(|permit| Some(Permit::key(permit)))
    }

    fn wait(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
        patience: Patience,
    ) -> Self::Wait {
        Turn::new(self.acquire_owned(key), cost, patience)
    }

    fn token(&self, _: Option<&Quota>) -> u64 {
        1
    }

    fn refund(&self, _: &K, _: Option<&Quota>, _: u64) {}

    fn charge(&self, _: &K, _: Option<&Quota>, _: u64) {}

    fn standings(
        &self,
        key: &K,
        _: Option<&Quota>,
        names: &Names,
        _: Answer<'_>,
        mut tell: impl FnMut(&Standing<'_>),
    ) {
        tell(&Standing::of_slots(&names.limit, self.snapshot(key)));
    }

    fn each(&self, _: &K) -> Option<Duration> {
        None
    }
}
