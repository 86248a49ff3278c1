//! The other libraries' limiters by key, each as its users get it.

use std::fmt::Display;
use std::hash::Hash;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use throttlecrab::{AdaptiveStore, PeriodicStore, Store};

use crate::keys::Key;
use crate::ours::{self, Ours};
use crate::subject::{
    FLOWGATE, FLOWGATE_EACH, FLOWGATE_SMALL_PAGES, GOVERNOR, Limit, Limits, NOBODY, Subject,
};

/// With `u64` keys. (throttlecrab takes only strings.)
pub fn with_u64() -> Vec<Subject<u64>> {
    let mut subjects = with_any();
    subjects.push(Subject::of::<RateNet>(RATE_NET));
    subjects
}

/// With `String` keys.
pub fn with_strings() -> Vec<Subject<String>> {
    let mut subjects = with_any();
    subjects.extend([
        Subject::of::<Throttlecrab<PeriodicStore>>("throttlecrab 0.4.40 Periodic"),
        Subject::of::<Throttlecrab<AdaptiveStore>>("throttlecrab 0.4.40 Adaptive"),
        Subject::of::<RateNet>(RATE_NET),
    ]);
    subjects
}

const RATE_NET: &str = "rate-net 2.1.0";

fn with_any<K: Key + Hash + Eq + Clone + Display>() -> Vec<Subject<K>>
where
    Ours<ours::Evict>: Limits<K>,
    ours::Each: Limits<K>,
{
    vec![
        Subject::of::<Nobody>(NOBODY),
        Subject::of::<GovernorDashMap<K>>(GOVERNOR),
        Subject::of::<GovernorHashMap<K>>("governor 0.10.4 hashmap"),
        Subject::of::<Ours<ours::Evict>>(FLOWGATE),
        Subject::of::<ours::Each>(FLOWGATE_EACH),
        Subject::of::<ours::SmallPages>(FLOWGATE_SMALL_PAGES),
        Subject::of::<Gcra<K>>("gcra 0.6.0"),
    ]
}

/// The baseline without a limiter: a part of every other number.
struct Nobody;

impl<K: Key> Limits<K> for Nobody {
    fn build(_: Limit, _: usize) -> Nobody {
        Nobody
    }

    #[inline(always)]
    fn admit(&self, key: &K) -> bool {
        black_box(key.read());
        true
    }
}

/// GCRA in one `AtomicU64` of whole nanoseconds for each key, over quanta's clock. The baseline.
struct GovernorDashMap<K: Hash + Eq + Clone>(governor::DefaultKeyedRateLimiter<K>);

impl<K: Key + Hash + Eq + Clone> Limits<K> for GovernorDashMap<K> {
    fn build(limit: Limit, _: usize) -> Self {
        GovernorDashMap(governor::RateLimiter::dashmap(governor_quota(limit)))
    }

    #[inline]
    fn admit(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}

type InOneMutex<K> = governor::RateLimiter<
    K,
    governor::state::keyed::HashMapStateStore<K>,
    governor::clock::DefaultClock,
>;

/// The same in a `HashMap` behind a mutex.
struct GovernorHashMap<K: Hash + Eq + Clone>(InOneMutex<K>);

impl<K: Key + Hash + Eq + Clone> Limits<K> for GovernorHashMap<K> {
    fn build(limit: Limit, _: usize) -> Self {
        GovernorHashMap(governor::RateLimiter::hashmap(governor_quota(limit)))
    }

    #[inline]
    fn admit(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}

fn governor_quota(limit: Limit) -> governor::Quota {
    let burst = NonZeroU32::new(limit.burst).expect("bursts are at least 1");
    governor::Quota::with_period(limit.period / limit.count)
        .expect("spacings are at least 1 ns")
        .allow_burst(burst)
}

/// GCRA in `Option<Instant>` behind DashMap's locks.
struct Gcra<K: Key + Hash + Eq + Clone + Display> {
    limiter: gcra::RateLimiter<K>,
    limit: gcra::RateLimit,
}

impl<K: Key + Hash + Eq + Clone + Display> Limits<K> for Gcra<K> {
    fn build(limit: Limit, capacity: usize) -> Self {
        let spacing = limit.period / limit.count;
        Gcra {
            limiter: gcra::RateLimiter::new(capacity),
            // Its burst is all of a period's.
            limit: gcra::RateLimit::new(limit.burst, spacing * limit.burst),
        }
    }

    #[inline]
    fn admit(&self, key: &K) -> bool {
        // It takes the key, and is asynchronous though it never waits.
        let check = pin!(self.limiter.check(key.clone(), &self.limit, 1));
        let answer = check.poll(&mut Context::from_waker(Waker::noop()));
        matches!(answer, Poll::Ready(Ok(_)))
    }
}

/// GCRA by the system's time; needs `&mut`, so a mutex.
struct Throttlecrab<S: Store> {
    limiter: Mutex<throttlecrab::RateLimiter<S>>,
    count: i64,
    period_s: i64,
    burst: i64,
}

/// A store that can be created with a capacity.
trait WithCapacity: Store + Send + 'static {
    fn of(capacity: usize) -> Self;
}

impl WithCapacity for PeriodicStore {
    fn of(capacity: usize) -> Self {
        PeriodicStore::with_capacity(capacity)
    }
}

impl WithCapacity for AdaptiveStore {
    fn of(capacity: usize) -> Self {
        AdaptiveStore::with_capacity(capacity)
    }
}

impl<S: WithCapacity> Limits<String> for Throttlecrab<S> {
    fn build(limit: Limit, capacity: usize) -> Self {
        Throttlecrab {
            limiter: Mutex::new(throttlecrab::RateLimiter::new(S::of(capacity))),
            count: i64::from(limit.count),
            period_s: limit.period.as_secs() as i64,
            burst: i64::from(limit.burst),
        }
    }

    #[inline]
    fn admit(&self, key: &String) -> bool {
        let &Throttlecrab {
            count,
            period_s,
            burst,
            ..
        } = self;
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = limiter.rate_limit(key, burst, count, period_s, 1, SystemTime::now());
        answer.is_ok_and(|(is_allowed, _)| is_allowed)
    }
}

/// A token bucket in one `AtomicU64` per key, in shards behind locks, with a maximum number of keys.
struct RateNet(rate_net::RateLimiter);

impl RateNet {
    fn new(limit: Limit, capacity: usize) -> RateNet {
        let builder = rate_net::RateLimiter::builder()
            .quota(limit.count, limit.period)
            .burst(limit.burst)
            .eviction(rate_net::Eviction::capacity(capacity));
        RateNet(builder.build())
    }
}

impl Limits<u64> for RateNet {
    fn build(limit: Limit, capacity: usize) -> Self {
        RateNet::new(limit, capacity)
    }

    #[inline]
    fn admit(&self, key: &u64) -> bool {
        self.0.check(rate_net::Key::id(*key)).is_allow()
    }
}

impl Limits<String> for RateNet {
    fn build(limit: Limit, capacity: usize) -> Self {
        RateNet::new(limit, capacity)
    }

    #[inline]
    fn admit(&self, key: &String) -> bool {
        self.0.check_bytes(key).is_allow()
    }
}
