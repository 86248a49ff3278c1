//! A table of rate limiters of a kind that a configuration chooses.

use super::table::sealed::Sealed;
use super::{Answer, Names, Patience, Permit, Standing, Turn, gate, standing};
use flowgate::{Acquire, AnyKeyed, Clock, Denied, Limiter, Quota};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

impl<K: Hash + Send + Sync + 'static> Sealed<K> for AnyKeyed {
    type Wait = Turn<Arc<dyn Limiter>>;

    fn clock(&self) -> &Clock {
        self.clock()
    }

    fn try_take(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        match cost {
            None => self.try_acquire(key),
            Some(n) => self.key(key).try_acquire_n(n),
        }
        .map(|()| None)
    }

    fn wait(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
        patience: Patience,
    ) -> Self::Wait {
        Turn::new(Acquire::new(self.key(key)), cost, patience)
    }

    fn token(&self, _: Option<&Quota>) -> u64 {
        // All keys have the same quotas.
        gate::token_of(&*self.key(&()))
    }

    fn refund(&self, key: &K, _: Option<&Quota>, n: u64) {
        self.key(key).refund(n);
    }

    fn charge(&self, key: &K, _: Option<&Quota>, n: u64) {
        self.key(key).charge(n);
    }

    fn standings(
        &self,
        key: &K,
        _: Option<&Quota>,
        names: &Names,
        _: Answer<'_>,
        tell: impl FnMut(&Standing<'_>),
    ) {
        standing::of_limiter(names, &*self.key(key), tell);
    }

    fn name_of<'a>(&'a self, denied: &Denied, names: &'a Names) -> &'a str {
        names.of_quota(denied, || matches!(self, Self::DualTokenBucket(_)))
    }

    fn each(&self, key: &K) -> Option<Duration> {
        standing::each(&*self.key(key))
    }
}
