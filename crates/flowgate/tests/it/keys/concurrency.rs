//! At most so many in flight for each key, by hand-polled futures and by real threads.

use crate::effort::rounds;
use flowgate::{
    CancelHandle, Denied, KeyPermit, KeyedConcurrencyLimit, ManualClock, OwnedKeyPermit, Timestamp,
};
use flowgate_testkit::task::Task;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MOST: u32 = (1 << 31) - 1;

/// A limit whose hashes are the same each time.
fn limits_of(limit: u32, capacity: usize) -> KeyedConcurrencyLimit {
    let builder = KeyedConcurrencyLimit::builder(limit).seed([1, 2]);
    builder
        .clock(ManualClock::new())
        .capacity(capacity)
        .unwrap()
}

#[track_caller]
fn assert_idle(limits: &KeyedConcurrencyLimit) {
    assert_eq!((limits.len(), limits.waiting_keys()), (0, 0));
}

// What one key does with one caller.

#[test]
fn c1_as_many_for_each_key_as_the_limit_and_no_more() {
    for limit in [1, 2, 5, 1000] {
        let limits = limits_of(limit, 100);
        let mut permits = Vec::new();
        for key in ["a", "b", ""] {
            permits.extend((0..limit).map(|_| limits.try_acquire(key).unwrap()));
            assert!(limits.try_acquire(key).unwrap_err().is_busy());
            assert_eq!(
                (limits.in_flight(key), limits.available(key)),
                (limit.into(), 0)
            );
        }
        assert_eq!(limits.len(), 3);
        drop(permits);
        assert_idle(&limits);
    }
}

#[test]
fn a_refusal_takes_nothing_and_knows_no_time() {
    let limits = limits_of(5, 100);
    let permit = limits.try_acquire_n(&1, 4).unwrap();
    let denied = limits.try_acquire_n(&1, 2).unwrap_err();
    assert!(denied.is_busy() && !denied.is_never() && !denied.is_table_full());
    assert_eq!(denied.retry_after(), None);
    assert_eq!((limits.in_flight(&1), limits.available(&1)), (4, 1));
    assert!(limits.try_acquire_n(&2, 6).unwrap_err().is_never());
    assert_eq!(limits.len(), 1, "a key that was refused takes no slot");
    drop(permit);
    assert_idle(&limits);
}

#[test]
fn zero_are_admitted_to_anybody_and_take_no_slot() {
    let limits = limits_of(1, 1);
    let _permits: Vec<_> = (0..4)
        .map(|key| limits.try_acquire(&key).unwrap())
        .collect();
    let none = limits.try_acquire_n(&0, 0).unwrap();
    let new = limits.try_acquire_n(&77, 0).unwrap();
    assert_eq!((none.units(), new.units(), limits.len()), (0, 0, 4));
    drop((none, new));
    assert_eq!((limits.in_flight(&0), limits.in_flight(&77)), (1, 0));
}

#[test]
fn more_than_the_limit_is_never_and_a_limit_of_0_a_pause() {
    for limit in [1, 7, MOST] {
        let limits = limits_of(limit, 10);
        let most = u64::from(limit);
        for n in [most + 1, 1 << 31, 1 << 40, u64::MAX] {
            let denied = limits.try_acquire_n("key", n).unwrap_err();
            assert!(denied.is_never(), "{n} of {limit}: {denied}");
        }
        let all = limits.try_acquire_n("key", most).unwrap();
        for n in [1, most] {
            assert!(limits.try_acquire_n("key", n).unwrap_err().is_busy());
        }
        assert!(
            limits
                .try_acquire_n("key", u64::MAX)
                .unwrap_err()
                .is_never()
        );
        drop(all);
    }
    let limits = limits_of(0, 10);
    assert!(
        limits
            .try_acquire_n("key", MOST.into())
            .unwrap_err()
            .is_busy()
    );
    assert!(
        limits
            .try_acquire_n("key", u64::from(MOST) + 1)
            .unwrap_err()
            .is_never()
    );
    assert_eq!(limits.snapshot("key").reset_after, Duration::ZERO);
    assert_idle(&limits);
}

#[test]
fn permits_split_and_merge() {
    let (limits, others) = (limits_of(5, 10), limits_of(5, 10));
    let mut permit = limits.try_acquire_n("a", 5).unwrap();
    let part = permit.split(2).unwrap();
    assert!(permit.split(4).is_none());
    assert_eq!(
        (permit.units(), part.units(), limits.in_flight("a")),
        (3, 2, 5)
    );
    permit.merge(part).unwrap();
    let other_key = limits.try_acquire("b").unwrap();
    let other_key = permit.merge(other_key).unwrap_err();
    let other_limit = permit.merge(others.try_acquire("a").unwrap()).unwrap_err();
    assert_eq!(
        (permit.units(), other_key.units(), other_limit.units()),
        (5, 1, 1)
    );
    drop(permit);
    assert_eq!((limits.in_flight("a"), limits.in_flight("b")), (0, 1));
    drop(other_key);
    assert_idle(&limits);
}

#[test]
fn a_permit_is_given_back_by_any_thread_also_by_one_that_panics() {
    let limits = Arc::new(limits_of(2, 10));
    let permit = limits.try_acquire_n_owned("key", 2).unwrap();
    let panicked = std::thread::spawn(move || {
        let _permit = permit;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_idle(&limits);
    let permit: OwnedKeyPermit = limits.try_acquire_owned("key").unwrap();
    drop(limits);
    assert_eq!(permit.limiter().in_flight("key"), 1);
}

#[test]
fn c5_what_is_given_back_is_what_was_taken_also_after_the_limit_has_changed() {
    let limits = limits_of(5, 10);
    let mut permit = limits.try_acquire_n("key", 5).unwrap();
    limits.set_limit(2).unwrap();
    assert_eq!((limits.in_flight("key"), limits.available("key")), (5, 0));
    for left in [4, 3, 2] {
        assert!(limits.try_acquire("key").unwrap_err().is_busy());
        drop(permit.split(1).unwrap());
        assert_eq!(limits.in_flight("key"), left);
    }
    assert!(limits.try_acquire("key").unwrap_err().is_busy());
    assert!(limits.try_acquire_n("key", 3).unwrap_err().is_never());
    drop(permit.split(1).unwrap());
    let new = limits.try_acquire("key").unwrap();
    limits.set_limit(0).unwrap();
    assert!(limits.try_acquire("other").unwrap_err().is_busy());
    drop((permit, new));
    assert_idle(&limits);
    limits.set_limit(MOST).unwrap();
    assert_eq!(limits.limit(), MOST);
    let message = "a concurrency limit of 2147483648 is out of range: 0 to 2147483647";
    assert_eq!(limits.set_limit(MOST + 1).unwrap_err().to_string(), message);
    assert_eq!(limits.limit(), MOST);
}

#[test]
fn a_key_may_have_a_limit_of_its_own() {
    let limits = Arc::new(limits_of(2, 10));
    let own = limits.with(5).unwrap();
    let first = limits.try_acquire_n("key", 2).unwrap();
    let second = own.try_acquire_n("key", 3).unwrap();
    assert!(own.try_acquire("key").unwrap_err().is_busy());
    assert_eq!(
        (own.limit(), own.available("key"), own.available("other")),
        (5, 0, 5)
    );
    assert_eq!(own.snapshot("key").limit, 5);
    assert!(own.try_acquire_n("key", 6).unwrap_err().is_never());
    drop(first);
    assert!(limits.try_acquire("key").unwrap_err().is_busy(), "3 of 2");
    limits.set_limit(0).unwrap();
    let third = limits
        .with_owned(5)
        .unwrap()
        .try_acquire_n("key", 2)
        .unwrap();
    std::thread::spawn(move || drop(third)).join().unwrap();
    drop(second);
    assert_idle(&limits);
    assert!(limits.with(MOST + 1).is_err());
}

#[test]
fn a_snapshot_knows_a_time_only_when_nothing_is_in_flight() {
    let limits = limits_of(2, 10);
    let seen = limits.snapshot("key");
    assert_eq!(
        (seen.limit, seen.remaining, seen.reset_after),
        (2, 2, Duration::ZERO)
    );
    let _permit = limits.try_acquire("key").unwrap();
    let seen = limits.snapshot("key");
    assert_eq!(
        (seen.limit, seen.remaining, seen.reset_after),
        (2, 1, Duration::MAX)
    );
}

#[test]
fn a_key_that_somebody_waits_for_is_something_to_do() {
    let limits = limits_of(0, 10);
    let wait = Task::start(limits.acquire("key"));
    assert_eq!((limits.in_flight("key"), limits.len()), (0, 1));
    assert!(!limits.is_empty());
    drop(wait);
    assert!(limits.is_empty());
}

// Keys beside each other.

#[test]
fn c7_entries_vanish_at_zero_so_that_any_number_of_keys_come_and_go() {
    let limits = limits_of(1, 8);
    let keys = rounds(500_000, 5_000_000);
    let mut last = None;
    for key in 0..keys {
        // Two at a time, of which the older goes.
        last = Some(limits.try_acquire(&key).unwrap());
    }
    assert_eq!((limits.len(), limits.refused_for_room()), (1, 0));
    drop(last);
    assert_idle(&limits);
}

/// One line, and so four slots, for all.
#[test]
fn c7_a_key_without_a_slot_is_refused_and_takes_nothing_from_the_others() {
    let limits = limits_of(3, 1);
    let mut permits: Vec<_> = (0..4)
        .map(|key| limits.try_acquire(&key).unwrap())
        .collect();
    for key in 4..1000 {
        let denied = limits.try_acquire(&key).unwrap_err();
        assert!(denied.is_table_full() && !denied.is_busy(), "{denied}");
        assert_eq!((denied.retry_after(), limits.in_flight(&key)), (None, 0));
    }
    assert_eq!(limits.refused_for_room(), 996);
    for key in 0..4 {
        assert_eq!(limits.in_flight(&key), 1);
        permits.push(limits.try_acquire_n(&key, 2).unwrap());
        assert!(limits.try_acquire(&key).unwrap_err().is_busy());
    }
    drop(permits.remove(2));
    assert!(
        limits.try_acquire(&9).unwrap_err().is_table_full(),
        "two of key 2 are left"
    );
    permits.retain(|permit| permit.units() == 1);
    assert_eq!((0..4).map(|key| limits.in_flight(&key)).sum::<u64>(), 3);
    let late = limits.try_acquire(&9).unwrap();
    drop((permits, late));
    assert_idle(&limits);
}

/// Every key has the same two lines.
#[test]
fn c7_eight_keys_in_the_same_two_lines_do_not_meddle() {
    let limits = limits_of(100, 2);
    let mut held: Vec<(u64, KeyPermit<_>)> = Vec::new();
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut refused, mut admitted) = (0, 0);
    for _ in 0..20_000 {
        if rng.u32(..100) < 48 && !held.is_empty() {
            drop(held.swap_remove(rng.usize(..held.len())));
        }
        let (key, n) = (rng.u64(..30), rng.u64(1..=40));
        let of_key = |held: &Vec<(u64, KeyPermit<_>)>, key| -> u64 {
            let permits = held.iter().filter(|(of, _)| *of == key);
            permits.map(|(_, permit)| permit.units()).sum()
        };
        let before = of_key(&held, key);
        match limits.try_acquire_n(&key, n) {
            Ok(permit) => {
                admitted += 1;
                assert!(before + n <= 100);
                held.push((key, permit));
            }
            Err(denied) if denied.is_table_full() => {
                refused += 1;
                assert_eq!(before, 0, "a key with a slot has one");
            }
            Err(denied) => assert!(denied.is_busy() && before + n > 100),
        }
        for key in 0..30 {
            assert_eq!(limits.in_flight(&key), of_key(&held, key));
        }
    }
    assert!(
        refused > 100 && admitted > 1000,
        "{refused} refused, {admitted} admitted"
    );
    held.clear();
    assert_idle(&limits);
}

#[test]
fn memory_is_what_it_says_and_capacity_what_fits() {
    let capacity = 10_000;
    let limits = limits_of(1, capacity);
    assert_eq!(limits.capacity(), capacity);
    let table = 64 * capacity;
    assert!(
        (table..table + 17_000).contains(&limits.bytes()),
        "{}",
        limits.bytes()
    );
    let permits: Vec<_> = (0..capacity)
        .map(|key| limits.try_acquire(&key).unwrap())
        .collect();
    assert_eq!((limits.len(), limits.refused_for_room()), (capacity, 0));
    drop(permits);
    assert_idle(&limits);
}

#[test]
fn what_cannot_be_made_is_an_error_that_names_the_value() {
    let error = |limit, keys| {
        let made = KeyedConcurrencyLimit::builder(limit).capacity(keys);
        made.expect_err("out of range").to_string()
    };
    let table = [
        (
            1,
            0,
            "a capacity in keys of 0 is out of range: 1 to 4294967296",
        ),
        (
            1,
            (1 << 32) + 1,
            "a capacity of 4294967297 keys would take 274877923392 bytes of memory, and at most 4294967296 keys can be told apart",
        ),
        (
            1,
            usize::MAX,
            "a capacity of 18446744073709551615 keys would take 1180591620717411319744 bytes of memory, and at most \
             4294967296 keys can be told apart",
        ),
        (
            MOST + 1,
            1,
            "a concurrency limit of 2147483648 is out of range: 0 to 2147483647",
        ),
    ];
    for (limit, keys, message) in table {
        assert_eq!(error(limit, keys), message);
    }
}

#[test]
fn any_key_that_can_be_hashed() {
    let limits = limits_of(1, 100);
    let owned = String::from("name");
    let _by_string = limits.try_acquire(&owned).unwrap();
    assert!(
        limits.try_acquire("name").unwrap_err().is_busy(),
        "as a str"
    );
    let _by_slice = limits.try_acquire([1_u8, 2].as_slice()).unwrap();
    let _by_tuple = limits.try_acquire(&(7_u64, "GET")).unwrap();
    assert!(limits.try_acquire(&(7_u64, "POST")).is_ok());
    assert_eq!(limits.len(), 3);
}

// Threads.

/// Many threads on few keys in few lines, while the limit changes. The ledger beside it is written only under permits.
#[test]
fn c1_a_ledger_over_threads_never_shows_more_than_the_limit() {
    const KEYS: usize = 12;
    let rounds = rounds(30_000, 300_000);
    for capacity in [1, 2, 3, 64] {
        let limits = limits_of(3, capacity);
        let ledger: [AtomicU64; KEYS] = Default::default();
        let table_full = AtomicU64::new(0);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let (limits, ledger, table_full) = (&limits, &ledger, &table_full);
                threads.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(thread);
                    let mut held = Vec::new();
                    for _ in 0..rounds {
                        let (key, n) = (rng.usize(..KEYS), rng.u64(1..=2));
                        match limits.try_acquire_n(&key, n) {
                            Ok(permit) => {
                                let before = ledger[key].fetch_add(n, Ordering::SeqCst);
                                assert!(before + n <= 5, "{before} and {n} of key {key}");
                                held.push((key, permit));
                            }
                            Err(denied) if denied.is_table_full() => {
                                table_full.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(denied) => assert!(denied.is_busy()),
                        }
                        if held.len() > rng.usize(..4) {
                            let (key, permit) = held.swap_remove(rng.usize(..held.len()));
                            ledger[key].fetch_sub(permit.units(), Ordering::SeqCst);
                            drop(permit);
                        }
                    }
                    for (key, permit) in held {
                        ledger[key].fetch_sub(permit.units(), Ordering::SeqCst);
                    }
                });
            }
            let limits = &limits;
            threads.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(99);
                for _ in 0..rounds / 10 {
                    // Never 1, so that two are always to be had.
                    limits.set_limit(rng.u32(2..=5)).unwrap();
                }
            });
        });
        assert_idle(&limits);
        for key in 0..KEYS {
            assert_eq!(limits.in_flight(&key), 0);
        }
        assert!(capacity != 1 || table_full.into_inner() > 0);
    }
}

/// What is admitted once a lower limit is in force is no more than was in flight then.
#[test]
fn c1_after_the_limit_was_lowered_nobody_is_admitted_over_it() {
    let limits = limits_of(4, 4);
    let (ledger, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        for _ in 0..3 {
            let (limits, ledger, over) = (&limits, &ledger, &over);
            threads.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let permits = [(); 2].map(|()| limits.try_acquire("key").ok());
                    let n = permits.iter().flatten().count() as u64;
                    ledger.fetch_add(n, Ordering::SeqCst);
                    ledger.fetch_sub(n, Ordering::SeqCst);
                }
            });
        }
        let rounds = rounds(10_000, 100_000);
        for _ in 0..rounds {
            limits.set_limit(1).unwrap();
            let most = limits.in_flight("key").max(1);
            for _ in 0..20 {
                let seen = ledger.load(Ordering::SeqCst);
                assert!(seen <= most, "{seen}, where {most} were in flight");
            }
            limits.set_limit(4).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_idle(&limits);
}

// Waiting.

/// Why it need not wait.
#[track_caller]
fn refused<T>(wait: impl Future<Output = Result<T, Denied>>) -> Denied {
    Task::start(wait).denied().expect("it is refused at once")
}

#[test]
fn c6_each_key_has_a_line_of_its_own() {
    let limits = limits_of(1, 100);
    let (a, b) = (
        limits.try_acquire("a").unwrap(),
        limits.try_acquire("b").unwrap(),
    );
    let mut a2 = Task::start(limits.acquire("a"));
    let mut a3 = Task::start(limits.acquire("a"));
    let mut b2 = Task::start(limits.acquire("b"));
    assert_eq!((limits.waiting_keys(), limits.len()), (2, 2));
    drop(b);
    assert!(!a2.run() && !a3.run() && b2.run());
    drop(a);
    assert!(!a3.run() && a2.run());
    assert!(
        limits.try_acquire("a").unwrap_err().is_busy(),
        "it does not overtake"
    );
    assert!(
        Task::start(limits.acquire("c")).poll(),
        "and who has nobody before them does not wait"
    );
    drop(a2.into_granted());
    assert!(a3.run());
    drop((a3.into_granted(), b2.into_granted()));
    assert_idle(&limits);
}

#[test]
fn c6_large_requests_are_served_in_their_turn() {
    let limits = limits_of(5, 100);
    let mut permit = limits.try_acquire_n("key", 4).unwrap();
    let mut large = Task::start(limits.acquire("key").n(4));
    let mut small = Task::start(limits.acquire("key"));
    assert!(!small.poll(), "one is free, and spoken for");
    assert!(limits.try_acquire("key").unwrap_err().is_busy());
    assert!(
        limits
            .with(100)
            .unwrap()
            .try_acquire("key")
            .unwrap_err()
            .is_busy()
    );
    drop(permit.split(2));
    assert!(!large.run() && !small.run());
    drop(permit);
    assert!(large.run() && small.run());
    drop((large.into_granted(), small.into_granted()));
    assert_idle(&limits);
}

#[test]
fn c6_what_is_free_is_not_available_to_those_who_may_not_overtake() {
    let limits = limits_of(3, 100);
    let own = limits.with(5).unwrap();
    let seen = |key: &str| {
        let seen = [limits.snapshot(key), own.snapshot(key)];
        let available = [limits.available(key), own.available(key)];
        assert_eq!(seen.map(|seen| seen.remaining), available);
        seen.map(|seen| (seen.remaining, seen.reset_after))
    };
    let permit = limits.try_acquire("a").unwrap();
    assert_eq!(seen("a"), [(2, Duration::MAX), (4, Duration::MAX)]);
    let mut large = Task::start(limits.acquire("a").n(3));
    assert!(limits.try_acquire("a").unwrap_err().is_busy());
    assert!(own.try_acquire("a").unwrap_err().is_busy());
    assert_eq!(seen("a"), [(0, Duration::MAX); 2]);
    let whole = [(3, Duration::ZERO), (5, Duration::ZERO)];
    assert_eq!(seen("b"), whole, "another key has no part in it");
    // It has what it waited for, and has not seen it: nobody is in the queue any longer.
    drop(permit);
    assert_eq!(seen("a"), [(0, Duration::MAX), (2, Duration::MAX)]);
    drop(own.try_acquire_n("a", 2).unwrap());
    assert!(large.run());
    drop(large.into_granted());
    assert_eq!(seen("a"), whole);
    assert_idle(&limits);
}

#[test]
fn c6_who_gives_up_costs_the_others_nothing() {
    let limits = limits_of(2, 100);
    let permit = limits.try_acquire("key").unwrap();
    let large = Task::start(limits.acquire("key").n(2));
    let mut small = Task::start(limits.acquire("key"));
    assert!(!small.poll());
    drop(large);
    assert!(small.run(), "those behind move up");
    assert_eq!((limits.in_flight("key"), limits.waiting_keys()), (2, 0));
    drop((permit, small.into_granted()));
    assert_idle(&limits);
}

#[test]
fn c5_a_grant_that_was_not_seen_goes_to_the_next() {
    let limits = limits_of(1, 100);
    let permit = limits.try_acquire("key").unwrap();
    let first = Task::start(limits.acquire("key"));
    let mut next = Task::start(limits.acquire("key"));
    drop(permit);
    assert!(first.was_woken());
    assert!(!next.run());
    drop(first);
    assert!(next.run());
    drop(next.into_granted());
    assert_idle(&limits);
}

#[test]
fn a_deadline_refuses_as_busy() {
    let time = ManualClock::new();
    let limits = KeyedConcurrencyLimit::builder(1)
        .clock(&time)
        .capacity(10)
        .unwrap();
    let permit = limits.try_acquire("key").unwrap();
    let mut within = Task::start(limits.acquire("key").within(Duration::from_millis(5)));
    let mut by = Task::start(limits.acquire("key").by(Timestamp::from_nanos(7_000_000)));
    time.advance(Duration::from_millis(5));
    assert!(within.run() && !by.run());
    assert!(within.denied().unwrap().is_busy());
    time.advance(Duration::from_millis(2));
    assert!(by.run() && by.denied().unwrap().is_busy());
    assert_eq!(limits.waiting_keys(), 0);
    drop(permit);
    assert_idle(&limits);
}

#[test]
fn who_can_never_be_served_does_not_wait() {
    let limits = limits_of(2, 1);
    assert!(refused(limits.acquire("key").n(3)).is_never());
    assert_eq!(
        Task::start(limits.acquire("key").n(0))
            .into_granted()
            .units(),
        0
    );
    let permits: Vec<_> = (0..4)
        .map(|key| limits.try_acquire(&key).unwrap())
        .collect();
    assert!(refused(limits.acquire(&9)).is_table_full());
    assert_eq!(limits.waiting_keys(), 0);
    drop(permits);
    assert_idle(&limits);
}

#[test]
fn another_limit_serves_those_who_wait_or_refuses_them() {
    let limits = limits_of(1, 100);
    let permit = limits.try_acquire("key").unwrap();
    let mut one = Task::start(limits.acquire("key"));
    limits.set_limit(3).unwrap();
    assert!(one.run());
    let mut two = Task::start(limits.acquire("key").n(2));
    limits.set_limit(4).unwrap();
    assert!(two.run());
    let mut three = Task::start(limits.acquire("key").n(3));
    let mut last = Task::start(limits.acquire("key"));
    limits.set_limit(2).unwrap();
    assert!(three.run() && three.denied().unwrap().is_never());
    assert!(!last.run());
    limits.set_limit(0).unwrap();
    drop((permit, one.into_granted(), two.into_granted()));
    assert!(!last.run(), "a pause");
    assert_eq!((limits.in_flight("key"), limits.len()), (0, 1));
    limits.set_limit(1).unwrap();
    assert!(last.run());
    drop(last.into_granted());
    assert_idle(&limits);
}

/// Somebody who waits for nothing that is in flight keeps the key's slot.
#[test]
fn c7_a_key_that_is_waited_for_keeps_its_slot() {
    let limits = limits_of(0, 1);
    let mut waits: Vec<_> = (0..4)
        .map(|key| Task::start(limits.acquire(&key)))
        .collect();
    assert_eq!((limits.waiting_keys(), limits.len()), (4, 4));
    limits.set_limit(1).unwrap();
    assert!(waits.iter_mut().all(|wait| wait.run()));
    assert_eq!(limits.waiting_keys(), 0);
    let permits: Vec<_> = waits.into_iter().map(Task::into_granted).collect();
    assert!(limits.try_acquire(&9).unwrap_err().is_table_full());
    drop(permits);
    assert_idle(&limits);

    limits.set_limit(0).unwrap();
    let waits: Vec<_> = (0..4)
        .map(|key| Task::start(limits.acquire(&key)))
        .collect();
    assert!(refused(limits.acquire(&9)).is_table_full());
    drop(waits);
    assert_idle(&limits);
}

#[test]
fn c7_lines_are_bounded() {
    let builder = KeyedConcurrencyLimit::builder(1).clock(ManualClock::new());
    let limits = builder
        .max_waiting_keys(2)
        .max_waiters_per_key(3)
        .capacity(100)
        .unwrap();
    let permits: Vec<_> = (0..4)
        .map(|key| limits.try_acquire(&key).unwrap())
        .collect();
    let _first = [(); 3].map(|()| Task::start(limits.acquire(&0)));
    assert!(refused(limits.acquire(&0)).is_queue_full(), "a fourth");
    let second = Task::start(limits.acquire(&1));
    assert!(refused(limits.acquire(&2)).is_queue_full(), "a third key");
    drop(second);
    let mut third = Task::start(limits.acquire(&2));
    drop(permits);
    assert!(third.run());
}

#[test]
fn a_handle_ends_a_wait() {
    let limits = limits_of(1, 100);
    let permit = limits.try_acquire("key").unwrap();
    let handle = CancelHandle::new();
    let mut wait = Task::start(limits.acquire("key").cancelled_by(&handle));
    handle.cancel();
    assert!(wait.run() && wait.denied().unwrap().is_cancelled());
    drop(permit);
    assert_idle(&limits);
}

/// More keys than slots, so that those change hands all the time.
#[test]
fn c1_c7_threads_wait_for_keys_that_share_slots_and_nobody_is_forgotten() {
    let rounds = rounds(2_000, 20_000);
    let limits = KeyedConcurrencyLimit::builder(2).capacity(1).unwrap();
    let ledger: [AtomicU64; 6] = Default::default();
    std::thread::scope(|threads| {
        for thread in 0..6 {
            let (limits, ledger) = (&limits, &ledger);
            threads.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..rounds {
                    let (key, n) = (rng.usize(..ledger.len()), rng.u64(1..=2));
                    let permit = match limits.acquire(&key).n(n).block() {
                        Ok(permit) => permit,
                        Err(denied) if denied.is_table_full() => continue,
                        Err(denied) => panic!("{denied}"),
                    };
                    let before = ledger[key].fetch_add(n, Ordering::SeqCst);
                    assert!(before + n <= 2);
                    ledger[key].fetch_sub(n, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert_idle(&limits);
}

#[test]
fn what_is_shown() {
    let limits = limits_of(3, 100);
    let permit = limits.try_acquire_n("secret", 2).unwrap();
    let shown = format!("{permit:?} {:?}", limits.acquire("secret").n(2));
    assert_eq!(shown, "Permit { n: 2, .. } Acquire { n: Some(2), .. }");
    let shown = format!("{limits:?}");
    assert_eq!(
        shown,
        "KeyedConcurrencyLimit { limit: 3, capacity: 100, .. }"
    );
    assert_eq!(format!("{:?}", limits.with(5).unwrap().limit()), "5");
}
