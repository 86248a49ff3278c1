//! Keys without a limit.

use flowgate::{
    ConcurrencyLimit, Gate, Keyed, KeyedAlgorithm, Limiter, ManualClock, Quota, Timestamp,
    Unlimited, WhenFull,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn unlimited() -> Keyed<Unlimited> {
    let keys = Keyed::unlimited().clock(ManualClock::new());
    keys.capacity(10).unwrap()
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn c2_everything_is_admitted_whatever_the_key_the_amount_and_the_time() {
    for when_full in [
        WhenFull::Evict,
        WhenFull::Deny,
        WhenFull::Share(Quota::per_hour(1)),
    ] {
        let keys = Keyed::unlimited().when_full(when_full);
        let keys = keys.capacity(10).unwrap();
        for key in 0..10_000_u64 {
            let n = [0, 1, 1_000, u64::MAX][(key % 4) as usize];
            assert!(keys.try_acquire(&key).is_ok());
            assert!(keys.try_acquire_n(&key, n).is_ok());
            assert!(keys.peek_n(&key, n).is_ok());
            assert_eq!(keys.take_up_to(&key, n), n);
            let at = keys.at(Timestamp::from_nanos(key.reverse_bits()));
            assert!(at.try_acquire_n(&key, n).is_ok() && at.peek(&key).is_ok());
        }
        assert_eq!(keys.counts(), flowgate::KeyedCounts::default());
        assert!(keys.is_empty());
    }
}

#[test]
fn c7_nothing_is_kept_of_a_key() {
    let keys = Keyed::unlimited().capacity(1_000_000).unwrap();
    assert_eq!(keys.capacity(), 1_000_000);
    assert!(keys.bytes() < 100_000, "{}", keys.bytes());
    assert!(keys.try_acquire_n("a", 7).is_ok());
    assert_eq!(keys.refund("a", 7), 0);
    keys.reset("a");
    let seen = keys.snapshot("a");
    assert_eq!((seen.limit, seen.remaining), (u64::MAX, u64::MAX));
    assert_eq!(seen.reset_after, Duration::ZERO);
    assert!(keys.most_used(10).is_empty());
}

#[test]
fn a_quota_changes_nothing() {
    let keys = unlimited();
    keys.set_quota(Quota::per_hour(1)).unwrap();
    keys.set_quota(Quota::per_hour(2)).unwrap();
    assert_eq!(keys.quota(), Quota::per_hour(2));
    let own = keys.with(Quota::per_hour(1)).unwrap();
    let stale = keys.at(Timestamp::ORIGIN);
    for _ in 0..100 {
        assert!(keys.try_acquire("a").is_ok() && keys.peek("a").is_ok());
        assert!(own.try_acquire("a").is_ok() && own.peek("a").is_ok());
        assert!(stale.try_acquire("a").is_ok() && stale.peek("a").is_ok());
    }
    assert_eq!(keys.key("a").policy(), None, "no quota describes it");
}

#[test]
fn nobody_waits_for_a_key_without_a_limit() {
    let keys = Arc::new(unlimited());
    for _ in 0..100 {
        let Poll::Ready(granted) = poll(&mut keys.acquire("a").n(1_000)) else {
            panic!("it waits");
        };
        assert_eq!(granted.unwrap().waited(), Duration::ZERO);
    }
    assert_eq!(keys.waiting_keys(), 0);
}

#[test]
fn it_stands_wherever_a_limit_for_each_key_does() {
    fn admitted<A: KeyedAlgorithm>(keys: &Keyed<A>) -> usize {
        (0..10).filter(|_| keys.try_acquire("a").is_ok()).count()
    }
    let limited = Keyed::token_bucket(Quota::per_hour(3)).capacity(10);
    assert_eq!(admitted(&limited.unwrap()), 3);
    let time = ManualClock::new();
    let keys = Keyed::unlimited().clock(&time).capacity(10).unwrap();
    assert_eq!(admitted(&keys), 10);

    let key: Arc<dyn Limiter> = Arc::new(Arc::new(keys).key_owned("a"));
    assert!(key.try_acquire_n(1_000_000).is_ok());
    let slots = ConcurrencyLimit::builder(2).clock(&time).build().unwrap();
    let keys = Keyed::unlimited().clock(&time).capacity(10).unwrap();
    let gate = Gate::builder().limit("slots", slots).keyed("tenant", keys);
    let gate = gate.build().unwrap();
    let permits: Vec<_> = (0..5).filter_map(|_| gate.try_acquire("a").ok()).collect();
    assert_eq!(permits.len(), 2, "as many as there are slots");
}

#[test]
fn it_goes_on_after_an_export() {
    let keys = unlimited();
    keys.try_acquire_n("a", 7).unwrap();
    let after = Keyed::unlimited().import(&keys.export()).unwrap();
    assert!(after.try_acquire_n("a", u64::MAX).is_ok());
    // Of another kind it is not.
    let other = Keyed::token_bucket(Quota::per_hour(1)).import(&keys.export());
    assert!(other.is_err());
}
