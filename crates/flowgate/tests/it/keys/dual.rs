//! Two quotas for each key: against the exact oracle, when keys make way for others, and through every operation of a key.

use flowgate::{
    ConcurrencyLimit, Denied, DualTokenBucket, Gate, Keyed, Limiter, ManualClock, Quotas,
    Timestamp, WhenFull,
};
use flowgate_testkit::oracle::DualOracle;
use flowgate_testkit::script::{Op, OperationOutcome, Step};
use flowgate_testkit::task::Task;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn quotas(text: &str) -> Quotas {
    text.parse().expect("quotas")
}

fn table(text: &str, capacity: usize) -> (Keyed<DualTokenBucket>, ManualClock) {
    let time = ManualClock::new();
    let builder = Keyed::dual_token_bucket(quotas(text)).clock(&time);
    let limits = builder.seed([1, 2]).capacity(capacity);
    (limits.expect("the pair fits"), time)
}

fn ns(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn wait(denied: Denied) -> Duration {
    denied.retry_after().expect("it comes back")
}

/// An exact limiter of the same quotas, for each key.
struct Oracles {
    quotas: Quotas,
    by_key: HashMap<u64, DualOracle>,
}

impl Oracles {
    fn step(&mut self, key: u64, at: Timestamp, op: Op) -> OperationOutcome {
        let new = || DualOracle::new(&self.quotas);
        let oracle = self.by_key.entry(key).or_insert_with(new);
        let at_ns = at.as_nanos();
        oracle.step(&Step { at_ns, op })
    }

    /// What the table has admitted, the exact limiter admits.
    #[track_caller]
    fn admit(&mut self, key: u64, at: Timestamp, n: u64) {
        let outcome = self.step(key, at, Op::Try { n });
        assert_eq!(
            outcome,
            OperationOutcome::Admitted,
            "{n} of key {key} at {at:?}"
        );
    }

    fn available(&mut self, key: u64, at: Timestamp) -> u64 {
        match self.step(key, at, Op::Available) {
            OperationOutcome::Holds(n) => n,
            _ => unreachable!("it tells what it holds"),
        }
    }
}

/// With room for all keys, each gets what the exact limiter admits, and what it is refused in vain comes back soon: the rates are
/// lower than the quotas' by less than 1/1000.
#[test]
fn c1_c2_c3_each_key_gets_what_the_exact_limiter_admits() {
    for (round, text) in [
        "10/s burst 5; 100/min",
        "100/h; 20/min burst 3",
        "50/s burst 4; 5000/h burst 60",
    ]
    .into_iter()
    .enumerate()
    {
        let (limits, time) = table(text, 1_000);
        let mut random = fastrand::Rng::with_seed(round as u64);
        let (quotas, by_key) = (quotas(text), HashMap::new());
        let mut oracles = Oracles { quotas, by_key };
        let (mut admitted, mut later) = (0_u64, 0_u64);
        for _ in 0..30_000 {
            time.advance(Duration::from_nanos(random.u64(..20_000_000)));
            let (key, now) = (random.u64(..5), time.now());
            match random.u32(..10) {
                0 => {
                    let held = limits.available(&key);
                    assert!(held <= oracles.available(key, now), "{text}");
                }
                1 => {
                    let n = limits.take_up_to(&key, 3);
                    oracles.admit(key, now, n);
                    admitted += n;
                }
                _ => {
                    let n = random.u64(1..=3);
                    match limits.try_acquire_n(&key, n) {
                        Ok(()) => {
                            oracles.admit(key, now, n);
                            admitted += n;
                        }
                        Err(denied) => {
                            if oracles.available(key, now) >= n {
                                let lag = wait(denied).as_nanos();
                                later += 1;
                                assert!(
                                    lag <= u128::from(now.as_nanos()) / 1_000 + 1_000,
                                    "{text}: {lag}"
                                );
                            }
                            let at = now + wait(denied);
                            assert!(limits.at(at).peek_n(&key, n).is_ok(), "{text}");
                            let before = ns(at.as_nanos() - 1);
                            assert!(limits.at(before).peek_n(&key, n).is_err(), "{text}");
                        }
                    }
                }
            }
        }
        assert!(admitted > 500, "{text}: {admitted}");
        assert!(later < 3_000, "{text}: {later} times");
    }
}

/// A table for four keys, which 2,000 use: their debts are in the sketch most of the time.
#[test]
fn c1_c7_keys_that_make_way_for_each_other_get_no_more_than_the_exact_limiter_admits() {
    for (round, text) in [
        "10/s burst 4; 30/min",
        "3/s burst 2; 100/min",
        "20/min; 4/s burst 3",
    ]
    .into_iter()
    .enumerate()
    {
        let (limits, time) = table(text, 4);
        let mut random = fastrand::Rng::with_seed(round as u64);
        let (quotas, by_key) = (quotas(text), HashMap::new());
        let mut oracles = Oracles { quotas, by_key };
        let mut admitted = 0;
        for _ in 0..30_000 {
            time.advance(Duration::from_nanos(random.u64(..2_000_000)));
            let (key, n) = (random.u64(..2_000), random.u64(1..=2));
            if limits.try_acquire_n(&key, n).is_ok() {
                oracles.admit(key, time.now(), n);
                admitted += n;
            }
        }
        let evicted = limits.counts().evicted;
        assert!(
            evicted > 500 && admitted > 1_000,
            "{text}: {evicted} {admitted}"
        );
    }
}

/// An evicted key owes each quota what it owed: it is not locked out until the slower one is full.
#[test]
fn c7_an_evicted_key_has_nearly_what_it_had_of_either_quota() {
    let (limits, time) = table("10/s burst 5; 1000/day", 4);
    limits.try_acquire_n("a", 5).expect("it is full");
    for other in 0..3_000_u64 {
        time.advance(Duration::from_micros(10));
        limits.take_up_to(&other, 5);
    }
    let id = limits.id_of("a");
    let usages = limits.most_used(usize::MAX);
    assert!(
        usages.iter().all(|usage| usage.id != id),
        "it is still there"
    );
    assert!(limits.try_acquire("a").is_err());
    time.advance(Duration::from_millis(520));
    // Others may have left a part of a unit more in both of its cells.
    assert!(limits.available("a") >= 3);
}

#[test]
fn c1_a_refusal_by_either_quota_costs_the_other_nothing() {
    let (limits, time) = table("2/s; 3/min", 100);
    limits
        .try_acquire_n("a", 2)
        .expect("the burst of the first");
    let denied = limits.try_acquire("a").expect_err("it is used up");
    assert!((500..502).contains(&wait(denied).as_millis()));
    assert_eq!(denied.limit(), Some(0), "the first quota");
    // One is left of the second quota.
    time.advance(SECOND);
    for _ in 0..100 {
        assert!(wait(limits.try_acquire_n("a", 2).expect_err("by the second")) > SECOND);
        assert_eq!(limits.available("a"), 1);
    }
    limits
        .try_acquire("a")
        .expect("refusals have taken nothing");
    let denied = limits.try_acquire("a").expect_err("the minute's");
    assert!((18_990..19_010).contains(&wait(denied).as_millis()));
    assert_eq!(denied.limit(), Some(1), "the second one");
    let peeked = limits.peek("a").expect_err("the minute's");
    assert_eq!(peeked.limit(), Some(1));
    assert!(
        limits
            .try_acquire_n("a", 3)
            .expect_err("above the smaller burst")
            .is_never()
    );
    assert!(limits.try_acquire_n("b", 2).is_ok(), "another key");
}

#[test]
fn c5_a_wait_that_is_dropped_costs_neither_quota_anything() {
    let (limits, time) = table("2/s; 6/min", 100);
    let limits = Arc::new(limits);
    let alice = limits.key_owned("alice");
    alice.try_acquire_n(2).expect("it is full");
    let waits = [
        Task::start(limits.acquire("alice").n(2)),
        Task::start(limits.acquire("alice").n(1)),
    ];
    assert!(limits.try_acquire("alice").is_err(), "others wait");
    drop(waits);
    time.advance(2 * SECOND);
    assert_eq!(limits.available("alice"), 2);
    // Granted by then, and dropped before its task has seen it.
    alice.try_acquire_n(2).expect("four of the minute's six");
    let unseen = Task::start(limits.acquire("alice").n(2));
    time.advance(SECOND + Duration::from_millis(10));
    assert!(
        limits.try_acquire("alice").is_err(),
        "it is granted to the wait"
    );
    drop(unseen);
    // All but a grain of time has come back.
    time.advance(Duration::from_micros(1));
    assert_eq!(limits.available("alice"), 2);
    alice.try_acquire_n(2).expect("six of six, but for 300 ms");
    time.advance(SECOND + Duration::from_millis(10));
    assert!(limits.try_acquire("alice").is_err(), "by the second quota");
}

/// Two limiters side by side would lose a token of the day with each wait for the second one.
#[test]
fn c5_ten_thousand_dropped_waits_cost_no_token_of_the_day() {
    let (limits, time) = table("10/s; 1000/day", 100);
    limits.try_acquire_n("alice", 10).expect("it is full");
    for _ in 0..10_000 {
        let waiting = Task::start(limits.acquire("alice"));
        time.advance(Duration::from_micros(9)); // 90 ms in all
        assert!(limits.try_acquire("alice").is_err(), "another waits");
        drop(waiting);
    }
    let mut granted = 10;
    for _ in 0..100 {
        // A second for ten, and the grain by which they are rounded.
        time.advance(Duration::from_millis(1_010));
        granted += limits.take_up_to("alice", 10);
    }
    // 1.2 have flowed in.
    assert_eq!(granted, 1001);
}

#[test]
fn c3_c6_waiters_are_served_in_order_by_the_slower_quota() {
    let (limits, time) = table("10/s burst 1; 2/min", 100);
    limits.try_acquire("a").expect("it is full");
    let mut first = Task::start(limits.acquire("a"));
    let mut second = Task::start(limits.acquire("a"));
    assert!(first.is_waiting() && second.is_waiting());
    time.advance(Duration::from_millis(101));
    assert!(first.run() && !second.run());
    time.advance(Duration::from_secs(29));
    assert!(!second.run());
    time.advance(SECOND);
    assert!(second.run(), "after half a minute");
}

/// The key is a limiter, behind `dyn` and in a gate, and what it takes the table no longer has.
#[test]
fn c1_c2_a_key_of_two_quotas_is_a_limiter() {
    let (limits, time) = table("10/s burst 5; 7/min", 100);
    let limits = Arc::new(limits);
    let alice = limits.key("alice");
    let limiter: &dyn Limiter = &alice;
    limiter.try_acquire_n(5).expect("it is full");
    assert_eq!((limiter.available(), limits.available("alice")), (0, 0));
    assert_eq!(limiter.snapshot(), limits.snapshot("alice"));
    assert_eq!(limiter.snapshot().limit, 5);
    assert_eq!(limiter.refund(2), 2);
    assert_eq!(limits.available("alice"), 2);
    assert_eq!(limiter.policy(), None);

    let slots = ConcurrencyLimit::builder(2).clock(&time);
    let gate = Gate::builder()
        .limit("key", limits.key_owned("bob"))
        .limit("slots", slots.build().expect("two slots"))
        .build()
        .expect("a gate");
    let held = [gate.try_acquire(), gate.try_acquire()];
    assert!(held.iter().all(Result::is_ok));
    assert!(gate.try_acquire().is_err());
    assert_eq!(
        limits.available("bob"),
        3,
        "the third is refused by the slots"
    );
    time.advance(60 * SECOND);
    assert_eq!(limits.available("bob"), 5);
    limits.reset("alice");
    assert_eq!(limits.available("alice"), 5);
}

#[test]
fn c1_a_change_of_quotas_keeps_what_was_taken_of_each() {
    let (limits, time) = table("10/s; 100/day", 100);
    limits.try_acquire_n("a", 8).expect("it is full");
    time.advance(Duration::from_millis(400));
    // 4 owed of the first quota, and nearly 8 of the second.
    limits.set_quotas(quotas("6/min; 10/day")).expect("it fits");
    assert_eq!(limits.quotas(), quotas("6/min; 10/day"));
    assert_eq!((limits.available("a"), limits.available("b")), (1, 6));
    let before = limits.at(ns(1));
    assert!(before.try_acquire("b").is_err(), "before the change");
    // A day's 10 that come back: the second quota decides.
    time.advance(60 * SECOND);
    assert_eq!(limits.available("a"), 2);
    assert!(limits.set_quotas(quotas("1000/s; 10000000/day")).is_err());
    assert_eq!(limits.quotas(), quotas("6/min; 10/day"));
}

#[test]
fn c1_c4_a_table_that_is_handed_over_owes_as_much_of_each_quota() {
    let (limits, time) = table("10/s burst 5; 100/day", 4);
    limits.try_acquire_n("a", 5).expect("it is full");
    for other in 0..600_u64 {
        limits.take_up_to(&other, 3);
    }
    assert!(limits.counts().evicted > 0);
    let file = limits.export();
    let builder = |text: &str| Keyed::dual_token_bucket(quotas(text)).clock(&time);
    let same = builder("10/s burst 5; 100/day")
        .import(&file)
        .expect("whole");
    let swapped = builder("6/day; 2/s burst 9").import(&file).expect("whole");
    assert_eq!(same.available("a"), 0);
    time.advance(SECOND);
    for key in 0..600_u64 {
        assert!(same.available(&key) <= limits.available(&key) + 1, "{key}");
        assert!(same.available(&key) <= 5);
    }
    assert!(same.available("a") >= 4);
    assert!(
        swapped.available("a") <= 6,
        "five of the first are owed as a day's"
    );
    let other = Keyed::token_bucket("10/s".parse().expect("a quota")).import(&file);
    assert!(other.is_err(), "another kind of limiter");
}

#[test]
fn c1_threads_get_no_more_than_the_smaller_burst_of_each_key() {
    const KEYS: usize = 40;
    let (limits, _time) = table("1/h burst 5; 3/day burst 7", 8);
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|threads| {
        for seed in 0..3 {
            let (limits, admitted) = (&limits, &admitted);
            threads.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..4_000 {
                    let key = random.usize(..KEYS);
                    if limits.try_acquire(&key).is_ok() {
                        admitted[key].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let admitted = admitted.iter().map(|n| n.load(Ordering::Relaxed));
    assert!(admitted.clone().all(|n| n <= 5));
    assert!(admitted.sum::<u64>() > 100);
}

/// 16 bytes for an entry, as of any other kind.
#[test]
fn c7_a_key_takes_as_much_memory_as_one_of_a_single_quota() {
    let one = Keyed::token_bucket("10/s".parse().expect("a quota")).capacity(100_000);
    let (two, _time) = table("10/s burst 5; 1000/day", 100_000);
    assert!(two.bytes() <= one.expect("it fits").bytes() + 64);
    assert!(two.bytes() <= 24 * 100_000 + 50_000);
}

#[test]
fn c1_keys_without_room_share_a_quota() {
    let time = ManualClock::new();
    let limits = Keyed::dual_token_bucket(quotas("10/s; 100/day"))
        .clock(&time)
        .when_full(WhenFull::Share("5/s".parse().expect("a quota")))
        .capacity(10)
        .expect("it fits");
    let admitted = (0..5_000_u64).filter(|key| limits.try_acquire(key).is_ok());
    assert!(admitted.count() <= 512 + 5);
    assert!(limits.counts().shared > 1_000);
    let one = Keyed::dual_token_bucket(Quotas::one("5/s".parse().expect("a quota")));
    let one = one
        .exact::<u64>()
        .clock(&time)
        .capacity(10)
        .expect("it fits");
    assert_eq!(one.take_up_to(&1, 9), 5);
}

/// Whichever way an amount is asked for that never fits.
#[test]
fn c3_a_refusal_for_ever_names_the_quota_with_the_smaller_burst() {
    for (text, most, first) in [
        ("10/s burst 5; 7/min", 5, 0),
        ("7/min; 10/s burst 5", 5, 1),
        ("10/s burst 20; 7/min", 7, 1),
        ("7/min; 10/s burst 20", 7, 0),
        ("7/s; 7/min", 7, 0),
    ] {
        let (limits, _time) = table(text, 10);
        let limits = Arc::new(limits);
        let key = limits.key_owned("a");
        let refusals = [
            limits.try_acquire_n("a", most + 1).unwrap_err(),
            limits.peek_n("a", most + 1).unwrap_err(),
            key.try_acquire_n(most + 1).unwrap_err(),
            limits.acquire("a").n(most + 1).block().unwrap_err(),
        ];
        for denied in refusals {
            assert_eq!(
                (denied.is_never(), denied.limit()),
                (true, Some(first)),
                "{text}"
            );
        }
        limits.try_acquire_n("a", most).unwrap();
    }
}
