//! A key as a limiter of its own: behind `dyn`, in a gate, observed, paying for bytes, and in the queue with those at the table.

use flowgate::{
    ConcurrencyLimit, Denied, FixedWindow, Gate, KeyLimiter, Keyed, KeyedBuilder, Limiter,
    ManualClock, Observed, Quota, Throttled, Timestamp, TokenBucket,
};
use flowgate_testkit::task::Task;
use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// What it comes to, if somebody has woken it.
fn done<T, F: Future<Output = Result<T, Denied>>>(wait: &mut Task<F>) -> Result<T, Denied> {
    assert!(wait.run(), "it still waits");
    wait.output.take().expect("it is ready")
}

const SECOND: Duration = Duration::from_secs(1);

fn bucket(quota: &str, time: &ManualClock) -> KeyedBuilder<TokenBucket> {
    Keyed::token_bucket(quota.parse().unwrap())
        .clock(time)
        .seed([1, 2])
}

fn table(quota: &str) -> (Arc<Keyed<TokenBucket>>, ManualClock) {
    let time = ManualClock::new();
    let limits = bucket(quota, &time).capacity(100).unwrap();
    (Arc::new(limits), time)
}

#[test]
fn c7_a_key_behind_dyn_takes_what_the_table_has_for_it() {
    let (limits, time) = table("2/s burst 5");
    let alice = limits.key("alice");
    let limiter: &dyn Limiter = &alice;
    limiter.try_acquire().unwrap();
    limiter.try_acquire_n(2).unwrap();
    assert_eq!((limiter.available(), limits.available("alice")), (2, 2));
    assert_eq!(limits.available("bob"), 5);
    limiter.peek().unwrap();
    let denied = limiter.try_acquire_n(3).unwrap_err();
    assert_eq!(denied.retry_after(), Some(SECOND / 2));
    assert_eq!(limiter.snapshot(), limits.snapshot("alice"));
    assert_eq!(limiter.refund(1), 1);
    limiter.charge(7);
    assert_eq!((limits.available("alice"), limiter.available()), (0, 0));
    assert!(limiter.try_reserve_n(1).is_none());
    assert_eq!(
        limiter.policy().map(|policy| policy.quota),
        Some(limits.quota())
    );
    let later = time.now() + SECOND;
    assert!(limiter.peek_n_at(later, 2).is_ok() && limiter.peek_n_at(later, 3).is_err());
    limiter.try_acquire_n_at(later, 2).unwrap();
    assert!(limiter.queue().is_empty());
    assert_eq!(limits.waiting_keys(), 0, "nobody has waited");
}

#[test]
fn a_key_has_the_methods_of_its_table() {
    let (limits, time) = table("2/s burst 5");
    let alice = limits.key_owned("alice");
    assert_eq!((alice.take_up_to(9), alice.available()), (5, 0));
    assert_eq!(alice.at(time.now() + SECOND).available(), 2);
    assert_eq!(alice.refund(2), 2);
    alice.peek_n(2).unwrap();
    assert!(alice.peek_n(3).is_err());
    alice.reset();
    assert_eq!(alice.snapshot().remaining, 5);
    assert!(std::ptr::eq(alice.keyed(), &*limits));
    assert!(format!("{alice:?}").starts_with("KeyLimiter"));
}

#[test]
fn a_key_of_each_algorithm_and_of_kept_names() {
    let time = ManualClock::new();
    let quota: Quota = "3/s".parse().unwrap();
    let windows: Keyed<FixedWindow> = Keyed::fixed_window(quota)
        .clock(&time)
        .capacity(10)
        .unwrap();
    let segments = Keyed::segmented_window(quota)
        .clock(&time)
        .capacity(10)
        .unwrap();
    let names = bucket("3/s", &time).exact::<str>().capacity(10).unwrap();
    let (window, segment, name) = (windows.key(&1), segments.key(&1), names.key("alice"));
    for limiter in [&window as &dyn Limiter, &segment, &name] {
        limiter.try_acquire_n(2).unwrap();
        assert!(limiter.try_acquire_n(2).is_err());
        assert_eq!(limiter.available(), 1);
    }
    assert_eq!(names.available("alice"), 1);
}

#[test]
fn a_key_by_a_quota_of_its_own() {
    let (limits, time) = table("2/s burst 5");
    let gold = limits
        .key_owned("gold")
        .with(Quota::per_second(100))
        .unwrap();
    assert_eq!(gold.snapshot().limit, 100);
    assert_eq!(
        gold.policy().map(|policy| policy.quota),
        Some(Quota::per_second(100))
    );
    gold.try_acquire_n(100).unwrap();
    let wait = gold.acquire().n(50);
    let mut wait = Task::start(wait);
    assert!(wait.is_waiting());
    time.advance(SECOND / 2);
    assert_eq!(
        done(&mut wait).unwrap().at(),
        Timestamp::ORIGIN + SECOND / 2
    );
}

#[test]
fn c6_waits_at_a_key_and_at_the_table_are_one_queue() {
    let (limits, time) = table("1/s burst 1");
    let alice = limits.key_owned("alice");
    let shared: Arc<dyn Limiter> = Arc::new(limits.key_owned("alice"));
    alice.try_acquire().unwrap();
    let mut first = Task::start(alice.acquire());
    let mut second = Task::start(limits.acquire("alice"));
    let mut third = Task::start(shared.acquire_owned());
    assert_eq!((alice.queue().len(), shared.queue().len()), (3, 3));
    assert_eq!(limits.waiting_keys(), 1);
    time.advance(SECOND);
    // A newcomer overtakes nobody, wherever it asks.
    assert!(alice.try_acquire().is_err() && limits.try_acquire("alice").is_err());
    assert!(done(&mut first).is_ok() && second.is_waiting() && third.is_waiting());
    time.advance(SECOND);
    assert!(done(&mut second).is_ok() && third.is_waiting());
    time.advance(SECOND);
    assert_eq!(
        done(&mut third).unwrap().at(),
        Timestamp::ORIGIN + 3 * SECOND
    );
    // The queue is kept by those that have waited, until they are dropped.
    drop((first, third, shared));
    assert_eq!(limits.waiting_keys(), 1);
    drop(alice);
    assert_eq!(limits.waiting_keys(), 0);
}

#[test]
fn c5_c6_a_refund_serves_those_who_wait_at_a_key() {
    let (limits, _time) = table("1/h burst 3");
    let alice = limits.key("alice");
    alice.try_acquire_n(3).unwrap();
    let mut wait = Task::start(alice.acquire());
    assert!(wait.is_waiting());
    assert_eq!(limits.refund("alice", 1), 1);
    assert!(done(&mut wait).is_ok());
    let mut wait = Task::start(limits.acquire("alice"));
    assert_eq!(alice.refund(1), 1);
    assert!(done(&mut wait).is_ok());
}

#[test]
fn c5_a_wait_at_a_key_that_is_dropped_gives_back() {
    let (limits, time) = table("1/s burst 2");
    let alice = limits.key("alice");
    alice.try_acquire_n(2).unwrap();
    let wait = Task::start(alice.acquire().n(2));
    time.advance(2 * SECOND);
    // It is served by whoever looks, and dropped before it knows.
    assert!(limits.try_acquire("alice").is_err());
    drop(wait);
    assert_eq!(alice.available(), 2);
}

#[test]
fn c6_a_queue_that_there_is_no_space_for_refuses() {
    let time = ManualClock::new();
    let limits = bucket("1/h", &time)
        .max_waiting_keys(1)
        .capacity(10)
        .unwrap();
    let (alice, bob) = (limits.key("alice"), limits.key("bob"));
    alice.try_acquire().unwrap();
    bob.try_acquire().unwrap();
    let wait = Task::start(alice.acquire());
    let refused = Task::start(bob.acquire()).denied();
    assert!(refused.unwrap().is_queue_full());
    drop(wait);
    drop(alice);
    assert!(Task::start(bob.acquire()).is_waiting());
}

#[test]
fn c1_c2_a_gate_takes_from_a_key_and_from_a_limit_or_from_neither() {
    let (limits, time) = table("1/s burst 3");
    let gate = |key: &str| {
        let slots = ConcurrencyLimit::builder(2).clock(&time).build().unwrap();
        let gate = Gate::builder().limit("key", limits.key_owned(key));
        gate.limit("slots", slots).build().unwrap()
    };
    let (alice, bob) = (gate("alice"), gate("bob"));
    let permits = [(); 2].map(|()| alice.try_acquire().unwrap());
    assert!(alice.try_acquire().unwrap_err().is_busy());
    assert_eq!(
        (limits.available("alice"), limits.available("bob")),
        (1, 3),
        "nothing was taken"
    );
    drop(permits);
    let permit = alice.try_acquire().unwrap();
    let denied = alice.try_acquire().unwrap_err();
    assert_eq!(
        (alice.name_of(&denied), denied.retry_after()),
        (Some("key"), Some(SECOND))
    );
    let _others = bob.try_acquire_n(2).unwrap();

    // In turn, and given back if it is dropped.
    let mut first = Task::start(alice.acquire());
    let second = Task::start(alice.acquire());
    time.advance(SECOND);
    assert!(done(&mut first).is_ok());
    time.advance(SECOND);
    drop(second);
    assert_eq!(limits.available("alice"), 1);
    drop(permit);
    let rate = alice.inspect_limiter("key", |key| key.snapshot().limit);
    assert_eq!(rate, Some(3));
    let is_it = alice.inspect("key", |key: &KeyLimiter<'static, TokenBucket>| {
        key.available()
    });
    assert_eq!(is_it, Some(1));
}

#[test]
fn c6_a_gate_does_not_overtake_those_who_wait_for_its_key() {
    let (limits, time) = table("1/s burst 1");
    let gate = Gate::builder().limit("key", limits.key_owned("alice"));
    let gate = gate.build().unwrap();
    limits.try_acquire("alice").unwrap();
    let mut wait = Task::start(limits.acquire("alice").n(1));
    time.advance(SECOND);
    let denied = gate.try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(SECOND));
    assert_eq!(done(&mut wait).unwrap().at(), Timestamp::ORIGIN + SECOND);
    time.advance(SECOND);
    assert!(gate.try_acquire().is_ok());
}

#[test]
fn an_observed_key_counts_what_is_asked_of_it() {
    let (limits, time) = table("1/s burst 2");
    let alice = Observed::new(limits.key_owned("alice"));
    alice.try_acquire_n(2).unwrap();
    assert!(alice.try_acquire().is_err());
    assert!(Limiter::peek(&alice).is_err());
    limits.try_acquire("bob").unwrap();
    let mut wait = Task::start(alice.acquire());
    assert_eq!(alice.counts().waiting, 1);
    time.advance(SECOND);
    done(&mut wait).unwrap();
    let counts = alice.counts();
    assert_eq!(
        (counts.admitted, counts.units, counts.refused.over_limit),
        (2, 3, 1)
    );
    assert_eq!((counts.waiting, alice.waits().count()), (0, 1));
}

#[test]
fn a_key_pays_for_the_bytes_of_a_connection() {
    let limits = Arc::new(
        Keyed::token_bucket("1000000/s burst 1000".parse().unwrap())
            .capacity(10)
            .unwrap(),
    );
    let key = limits.key_owned("tenant");
    let bytes = vec![7; 3000];
    let mut seen = Vec::new();
    let reader = Throttled::new(&bytes[..], &key);
    { reader }.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, bytes);
    assert!(limits.available("tenant") < 1000);
    assert_eq!(limits.available("another"), 1000);
    let owned = Throttled::new(&bytes[..], Arc::new(key));
    let mut seen = Vec::new();
    { owned }.read_to_end(&mut seen).unwrap();
    assert_eq!(seen.len(), 3000);
}
