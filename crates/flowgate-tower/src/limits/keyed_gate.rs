//! The limit of a key together with limits that all keys share.

use super::keyed::Allowance;
use super::table::sealed::Sealed;
use super::{Answer, Names, Patience, Permit, Standing, Turn, gate, standing};
use flowgate::{AsKey, Clock, Denied, KeyNames, Keyed, KeyedGate, KeyedTurn, Limiter, Quota};
use std::sync::Arc;
use std::time::Duration;

impl<A, N, K> Sealed<K> for KeyedGate<A, N>
where
    A: Allowance + 'static,
    N: KeyNames + 'static,
    K: AsKey<N> + Send + Sync + 'static,
    Keyed<A, N>: Send + Sync,
{
    type Wait = Turn<KeyedTurn<A, N>>;

    fn clock(&self) -> &Clock {
        self.keys().clock()
    }

    fn try_take(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        self.try_acquire_n(key, cost.unwrap_or(1))
            .map(|permit| Some(Permit::gate(permit)))
    }

    fn wait(
        self: &Arc<Self>,
        key: &K,
        _: Option<&Quota>,
        cost: Option<u64>,
        patience: Patience,
    ) -> Self::Wait {
        Turn::new(self.acquire(key), cost, patience)
    }

    /// As in a gate, one operation.
    fn token(&self, _: Option<&Quota>) -> u64 {
        1
    }

    fn refund(&self, key: &K, _: Option<&Quota>, n: u64) {
        gate::refund(self.shared(), n);
        let units = n.saturating_mul(A::token(self.keys()));
        self.keys().refund(key, units);
    }

    fn charge(&self, key: &K, _: Option<&Quota>, n: u64) {
        gate::charge(self.shared(), n);
        let units = n.saturating_mul(A::token(self.keys()));
        self.keys().take_up_to(key, units);
    }

    fn standings(
        &self,
        key: &K,
        _: Option<&Quota>,
        names: &Names,
        _: Answer<'_>,
        mut tell: impl FnMut(&Standing<'_>),
    ) {
        gate::standings(self.shared(), &mut tell);
        let names = self.names().last().map(Names::new).unwrap_or(names.clone());
        standing::of_limiter(&names, &self.keys().key(key), tell);
    }

    fn name_of<'a>(&'a self, denied: &Denied, names: &'a Names) -> &'a str {
        KeyedGate::name_of(self, denied).unwrap_or(&names.limit)
    }

    fn is_the_clients(&self, denied: &Denied) -> bool {
        // The limit of the key is the last one.
        denied.limit() == Some(self.shared().names().count())
    }

    /// By the fastest of them, as at a gate: the others are budgets of longer periods.
    fn each(&self, key: &K) -> Option<Duration> {
        let limiter: &dyn Limiter = &self.keys().key(key);
        let times = [standing::each(limiter), gate::each(self.shared())];
        times.into_iter().flatten().min()
    }
}
