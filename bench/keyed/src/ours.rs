//! flowgate's keyed limiter, as a user gets it.

use std::marker::PhantomData;

use flowgate::{Denied, Keyed, Quota, Timestamp, TokenBucket, WhenFull};

use crate::subject::{Limit, Limits};

/// The same in every run, so that two runs can be compared call by call. (Users let it be drawn.)
const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// What becomes of a key that finds no slot.
pub trait Policy: Send + Sync + 'static {
    const NAME: &'static str;

    /// May a key get more than its own limit?
    const SHARES: bool = false;

    /// Returns the policy for a table with this capacity.
    fn when_full(capacity: usize) -> WhenFull;
}

/// The key nearest to full goes; its debt is kept in a sketch.
pub struct Evict;

/// It is refused.
pub struct Deny;

/// All such keys share one limit.
pub struct Share;

impl Policy for Evict {
    const NAME: &'static str = "flowgate, Evict";

    fn when_full(_: usize) -> WhenFull {
        WhenFull::Evict
    }
}

impl Policy for Deny {
    const NAME: &'static str = "flowgate, Deny";

    fn when_full(_: usize) -> WhenFull {
        WhenFull::Deny
    }
}

impl Policy for Share {
    const NAME: &'static str = "flowgate, Share";
    const SHARES: bool = true;

    /// A tenth of what all keys in the table have together, at one a second each.
    fn when_full(capacity: usize) -> WhenFull {
        WhenFull::Share(Quota::per_second(capacity.div_ceil(10) as u64))
    }
}

/// A table of token buckets.
pub struct Ours<P> {
    limits: Keyed<TokenBucket>,
    policy: PhantomData<P>,
}

impl<P: Policy> Ours<P> {
    pub fn new(quota: Quota, capacity: usize) -> Self {
        let limits = Keyed::token_bucket(quota)
            .when_full(P::when_full(capacity))
            .seed(SEED)
            .capacity(capacity);
        Ours {
            limits: limits.expect("the quotas and the capacities fit"),
            policy: PhantomData,
        }
    }

    fn of(limit: Limit, capacity: usize) -> Self {
        let quota = Quota::new(u64::from(limit.count), limit.period)
            .and_then(|quota| quota.try_burst(u64::from(limit.burst)))
            .expect("the limits fit");
        Ours::new(quota, capacity)
    }

    pub fn capacity(&self) -> usize {
        self.limits.capacity()
    }

    pub fn try_acquire_at(&self, key: &u64, now: Timestamp) -> Result<(), Denied> {
        self.limits.at(now).try_acquire(key)
    }
}

impl<P: Policy> Limits<u64> for Ours<P> {
    fn build(limit: Limit, capacity: usize) -> Self {
        Ours::of(limit, capacity)
    }

    #[inline]
    fn admit(&self, key: &u64) -> bool {
        self.limits.try_acquire(key).is_ok()
    }

    fn told_bytes(&self) -> Option<usize> {
        Some(self.limits.bytes())
    }
}

impl<P: Policy> Limits<String> for Ours<P> {
    fn build(limit: Limit, capacity: usize) -> Self {
        Ours::of(limit, capacity)
    }

    #[inline]
    fn admit(&self, key: &String) -> bool {
        self.limits.try_acquire(key.as_str()).is_ok()
    }

    fn told_bytes(&self) -> Option<usize> {
        Some(self.limits.bytes())
    }
}

/// The same table with [`Keyed::try_acquire_each`].
pub struct Each(Ours<Evict>);

macro_rules! each {
    ($key:ty, $as_key:expr) => {
        impl Limits<$key> for Each {
            const TOGETHER: usize = 256;

            fn build(limit: Limit, capacity: usize) -> Self {
                Each(Ours::of(limit, capacity))
            }

            fn admit(&self, key: &$key) -> bool {
                self.0.admit(key)
            }

            fn admit_each(&self, keys: &[&$key]) -> u64 {
                let mut named = [$as_key(keys[0]); 256];
                for (name, key) in named.iter_mut().zip(keys) {
                    *name = $as_key(key);
                }
                let answers = self.0.limits.try_acquire_each(&named[..keys.len()]);
                answers.map(|answer| u64::from(answer.is_ok())).sum()
            }
        }
    };
}

each!(u64, u64::clone);
each!(String, String::as_str);

/// The same table in a process that gets no huge pages from here on.
pub struct SmallPages(Ours<Evict>);

impl<K> Limits<K> for SmallPages
where
    Ours<Evict>: Limits<K>,
{
    fn build(limit: Limit, capacity: usize) -> Self {
        nix::sys::prctl::set_thp_disable(true).expect("Linux has had this since 3.15");
        SmallPages(Ours::of(limit, capacity))
    }

    #[inline]
    fn admit(&self, key: &K) -> bool {
        self.0.admit(key)
    }
}
