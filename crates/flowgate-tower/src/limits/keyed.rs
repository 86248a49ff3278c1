//! A table of rate limiters: one for each key.

use super::table::sealed::Sealed;
use super::{Answer, Names, Patience, Permit, Standing, Turn, standing};
use flowgate::{
    Acquire, AsKey, Clock, Denied, DualTokenBucket, FixedWindow, KeyLimiter, KeyNames, Keyed,
    KeyedAlgorithm, KeyedError, KeyedView, LeakyBucket, Limiter, Policy, Quota, SegmentedWindow,
    TokenBucket,
};
use std::sync::Arc;
use std::time::Duration;

/// The operations that differ between keys with one quota and keys with two. They are implemented for each type: two
/// implementations cannot differ only in `KeyedAlgorithm::Quota`.
pub trait Allowance: KeyedAlgorithm {
    /// Whether a key can have `own` instead of the table's quota.
    fn check<N: KeyNames>(keyed: &Keyed<Self, N>, own: Quota) -> Result<(), KeyedError>;

    /// `keyed` by the key's own quota. That it can be kept has been checked, so it is.
    fn view<'a, N: KeyNames>(
        keyed: &'a Keyed<Self, N>,
        own: Option<&Quota>,
    ) -> Option<KeyedView<'a, Self, N>>;

    /// `limiter` by the key's own quota.
    fn by_own<'a, N: KeyNames>(
        limiter: KeyLimiter<'a, Self, N>,
        own: Quota,
    ) -> Option<KeyLimiter<'a, Self, N>>;

    /// The policy of keys without a per-key quota; `None`: two quotas.
    fn policy<N: KeyNames>(keyed: &Keyed<Self, N>) -> Option<Policy>;

    /// The number of units of a token, for keys without a per-key quota.
    fn token<N: KeyNames>(keyed: &Keyed<Self, N>) -> u64;
}

macro_rules! with_one_quota {
    ($($limiter:ty)*) => {$(
        impl Allowance for $limiter {
            fn check<N: KeyNames>(keyed: &Keyed<Self, N>, own: Quota) -> Result<(), KeyedError> {
                keyed.with(own).map(drop)
            }

            fn view<'a, N: KeyNames>(
                keyed: &'a Keyed<Self, N>,
                own: Option<&Quota>,
            ) -> Option<KeyedView<'a, Self, N>> {
                keyed.with(*own?).ok()
            }

            fn by_own<'a, N: KeyNames>(
                limiter: KeyLimiter<'a, Self, N>,
                own: Quota,
            ) -> Option<KeyLimiter<'a, Self, N>> {
                limiter.with(own).ok()
            }

            fn policy<N: KeyNames>(keyed: &Keyed<Self, N>) -> Option<Policy> {
                Some(keyed.policy())
            }

            fn token<N: KeyNames>(keyed: &Keyed<Self, N>) -> u64 {
                keyed.quota().scale()
            }
        }
    )*};
}

with_one_quota!(TokenBucket LeakyBucket FixedWindow SegmentedWindow);

/// No key has per-key quotas.
impl Allowance for DualTokenBucket {
    fn check<N: KeyNames>(_: &Keyed<Self, N>, _: Quota) -> Result<(), KeyedError> {
        Ok(())
    }

    fn view<'a, N: KeyNames>(
        _: &'a Keyed<Self, N>,
        _: Option<&Quota>,
    ) -> Option<KeyedView<'a, Self, N>> {
        None
    }

    fn by_own<'a, N: KeyNames>(
        _: KeyLimiter<'a, Self, N>,
        _: Quota,
    ) -> Option<KeyLimiter<'a, Self, N>> {
        None
    }

    fn policy<N: KeyNames>(_: &Keyed<Self, N>) -> Option<Policy> {
        None
    }

    fn token<N: KeyNames>(keyed: &Keyed<Self, N>) -> u64 {
        let quotas = keyed.quotas();
        quotas.as_slice().first().map_or(1, Quota::scale)
    }
}

impl<A, N, K> Sealed<K> for Keyed<A, N>
where
    A: Allowance + 'static,
    N: KeyNames + 'static,
    K: AsKey<N> + Send + Sync + 'static,
    Keyed<A, N>: Send + Sync,
{
    type Wait = Turn<KeyLimiter<'static, A, N>>;

    fn check(&self, own: Quota) -> Result<(), KeyedError> {
        A::check(self, own)
    }

    fn clock(&self) -> &Clock {
        self.clock()
    }

    fn try_take(
        self: &Arc<Self>,
        key: &K,
        own: Option<&Quota>,
        cost: Option<u64>,
    ) -> Result<Option<Permit>, Denied> {
        match (A::view(self, own), cost) {
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
        patience: Patience,
    ) -> Self::Wait {
        let limiter = || self.key_owned(key);
        let by_own = own.and_then(|own| A::by_own(limiter(), *own));
        let limiter = by_own.unwrap_or_else(limiter);
        Turn::new(Acquire::new(limiter), cost, patience)
    }

    fn token(&self, own: Option<&Quota>) -> u64 {
        own.map_or_else(|| A::token(self), Quota::scale)
    }

    fn refund(&self, key: &K, own: Option<&Quota>, n: u64) {
        match A::view(self, own) {
            Some(own) => own.refund(key, n),
            None => Keyed::refund(self, key, n),
        };
    }

    fn charge(&self, key: &K, own: Option<&Quota>, n: u64) {
        match A::view(self, own) {
            Some(own) => own.take_up_to(key, n),
            None => self.take_up_to(key, n),
        };
    }

    fn standings(
        &self,
        key: &K,
        own: Option<&Quota>,
        names: &Names,
        _: Answer<'_>,
        mut tell: impl FnMut(&Standing<'_>),
    ) {
        let name = &names.limit;
        let Some(policy) = A::policy(self) else {
            standing::of_limiter(names, &self.key(key), tell);
            return;
        };
        let is_steady = policy.is_steady;
        match A::view(self, own) {
            Some(view) => {
                let more = |n| view.peek_n(key, n);
                let seen = view.snapshot(key);
                tell(&Standing::of_rate(
                    name,
                    seen,
                    own.copied(),
                    is_steady,
                    more,
                ));
            }
            None => {
                let (quota, more) = (Some(policy.quota), |n| self.peek_n(key, n));
                let seen = self.snapshot(key);
                tell(&Standing::of_rate(name, seen, quota, is_steady, more));
            }
        }
    }

    fn name_of<'a>(&'a self, denied: &Denied, names: &'a Names) -> &'a str {
        names.of_quota(denied, || A::policy(self).is_none())
    }

    fn each(&self, key: &K) -> Option<Duration> {
        let limiter: &dyn Limiter = &self.key(key);
        standing::each(limiter)
    }
}
