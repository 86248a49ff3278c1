//! A limit for each key: what is promised beyond what one limiter promises, on a clock that only moves when told to.

use crate::effort::rounds;
use flowgate::{
    Keyed, KeyedAlgorithm, KeyedBuilder, ManualClock, Quota, Timestamp, TokenBucket, WhenFull,
};
use flowgate_testkit::task::Task;
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Token buckets whose hashes are the same each time.
fn buckets(text: &str, time: &ManualClock) -> KeyedBuilder<TokenBucket> {
    seeded(Keyed::token_bucket(quota(text)), time)
}

fn seeded<A: KeyedAlgorithm<Quota = Quota>>(
    builder: KeyedBuilder<A>,
    time: &ManualClock,
) -> KeyedBuilder<A> {
    builder.clock(time).seed([1, 2])
}

// Keys beside each other.

#[test]
fn c7_what_a_key_does_changes_nothing_for_another() {
    let time = ManualClock::new();
    let limits = buckets("10/s", &time).capacity(1000).unwrap();
    for key in 0..500_u64 {
        limits.try_acquire_n(&key, key % 11).unwrap();
    }
    for key in (0..500_u64).step_by(2) {
        assert_eq!(limits.refund(&(key + 10_000), 5), 0);
        limits.reset(&key);
        assert_eq!(limits.available(&key), 10);
    }
    for key in (1..500_u64).step_by(2) {
        assert_eq!(limits.available(&key), 10 - key % 11);
    }
    assert_eq!(limits.counts(), Default::default());
}

#[test]
fn any_key_that_can_be_hashed_and_none_has_to_be_cloned() {
    #[derive(Hash)]
    struct NotClone(Vec<u8>);
    let time = ManualClock::new();
    let limits = buckets("1/s", &time).capacity(100).unwrap();
    limits.try_acquire("name").unwrap();
    assert!(
        limits.try_acquire(&String::from("name")).is_err(),
        "a str is a String"
    );
    limits.try_acquire(&NotClone(vec![1])).unwrap();
    limits.try_acquire(&NotClone(vec![2])).unwrap();
    assert!(limits.try_acquire(&NotClone(vec![2])).is_err());
    limits.try_acquire([9_u8].as_slice()).unwrap();
    limits.try_acquire(&("name", 7_u32)).unwrap();
    assert_eq!(limits.len(), 5);
}

#[test]
fn c7_a_key_that_is_whole_again_gives_its_slot_away() {
    let time = ManualClock::new();
    let limits = buckets("1000/s burst 1", &time).capacity(16).unwrap();
    for key in 0..100_000_u64 {
        limits.try_acquire(&key).unwrap();
        assert!(limits.try_acquire(&key).is_err());
        time.advance(ms(1));
    }
    assert!(limits.is_empty());
    assert_eq!(limits.counts(), Default::default());
}

// More keys than there is room for.

/// Tries, once each, far more keys than there is room for.
fn flood<A: KeyedAlgorithm<Quota = Quota>>(limits: &Keyed<A>, keys: u64) -> u64 {
    let keys = (1 << 40)..(1 << 40) + keys;
    keys.filter(|key| limits.try_acquire(key).is_ok()).count() as u64
}

#[test]
fn c7_a_limited_key_stays_limited_whatever_flood_comes() {
    let time = ManualClock::new();
    let flood_keys = rounds(100_000, 1_000_000);
    let limits = buckets("100/h burst 100", &time).capacity(1000).unwrap();
    for key in 0..50_u64 {
        limits.try_acquire_n(&key, 100).unwrap();
    }
    let bytes = limits.bytes();
    for _ in 0..5 {
        flood(&limits, flood_keys);
        for key in 0..50_u64 {
            assert!(limits.try_acquire(&key).is_err(), "{key}");
            let wait = limits.snapshot(&key).reset_after;
            assert!(
                wait >= Duration::from_secs(3600)
                    - time.now().saturating_duration_since(Timestamp::ORIGIN)
            );
        }
        time.advance(Duration::from_secs(5));
    }
    assert_eq!(limits.bytes(), bytes);
    assert!(limits.counts().evicted > 0);
}

/// The same for keys that are pushed out, because others are farther from being whole.
#[test]
fn c7_what_a_key_has_taken_is_remembered_when_it_makes_way() {
    let time = ManualClock::new();
    let limits = buckets("100/h burst 100", &time).capacity(100).unwrap();
    for key in 0..1000_u64 {
        let _ = limits.try_acquire_n(&key, 50);
    }
    let taken: Vec<_> = (0..1000_u64).map(|key| limits.available(&key)).collect();
    for key in 1000..1500_u64 {
        let _ = limits.try_acquire_n(&key, 100);
    }
    for (key, before) in (0_u64..).zip(taken) {
        assert!(limits.available(&key) <= before, "{key}");
    }
}

#[test]
fn c7_deny_refuses_new_keys_and_says_until_when() {
    let time = ManualClock::new();
    let limits = buckets("10/s", &time)
        .when_full(WhenFull::Deny)
        .capacity(1)
        .unwrap();
    let mut admitted = Vec::new();
    let mut denied = None;
    for key in 0..10_000_u64 {
        match limits.try_acquire(&key) {
            Ok(()) => admitted.push(key),
            Err(refused) => {
                assert!(refused.is_table_full() && !refused.is_never(), "{refused}");
                denied = Some((key, refused));
            }
        }
    }
    let (key, refused) = denied.expect("it is full");
    let counts = limits.counts();
    assert_eq!(counts.refused_for_room, 10_000 - admitted.len() as u64);
    assert_eq!((counts.evicted, counts.shared), (0, 0));
    // Those who are in go on as before.
    for key in &admitted {
        assert_eq!(limits.available(key), 9);
        limits.try_acquire(key).unwrap();
    }
    // By then, the first is whole again but for what it has taken since.
    assert_eq!(refused.retry_after(), Some(ms(100)));
    time.advance(ms(100));
    assert!(limits.try_acquire(&key).unwrap_err().is_table_full());
    let wait = limits.try_acquire(&key).unwrap_err().retry_after().unwrap();
    assert_eq!(wait, ms(100));
    time.advance(wait - Duration::from_nanos(1));
    assert!(limits.try_acquire(&key).unwrap_err().is_table_full());
    time.advance(Duration::from_nanos(1));
    limits.try_acquire(&key).unwrap();
}

#[test]
fn c7_share_lets_new_keys_through_by_one_limit_for_all_of_them() {
    let time = ManualClock::new();
    let share = WhenFull::Share(quota("5/s"));
    let limits = buckets("10/s", &time).when_full(share).capacity(1).unwrap();
    let alone = (0..10_000_u64)
        .filter(|key| limits.try_acquire_n(key, 10).is_ok())
        .count();
    let counts = limits.counts();
    assert!(counts.shared > 0 && counts.evicted == 0, "{counts:?}");
    // Ten at once are more than all share.
    let full = (0..10_000_u64)
        .find(|key| limits.available(key) == 10)
        .expect("one has no room");
    assert!(limits.try_acquire_n(&full, 6).unwrap_err().is_never());
    let through = (20_000..30_000_u64)
        .filter(|key| limits.try_acquire(key).is_ok())
        .count();
    assert_eq!(through, 5, "{alone} have a slot");
    let denied = limits.try_acquire(&full).unwrap_err();
    assert!(!denied.is_table_full());
    assert_eq!(denied.retry_after(), Some(ms(200)));
    time.advance(ms(200));
    limits.try_acquire(&full).unwrap();
    assert!(limits.try_acquire(&(full + 1)).is_err() || limits.available(&(full + 1)) < 10);
}

#[test]
fn nothing_at_all_is_admitted_to_anybody_and_takes_no_slot() {
    let time = ManualClock::new();
    for when_full in [
        WhenFull::Evict,
        WhenFull::Deny,
        WhenFull::Share(quota("1/d")),
    ] {
        let limits = buckets("1/s", &time)
            .when_full(when_full)
            .capacity(1)
            .unwrap();
        flood(&limits, 1000);
        let (len, counts) = (limits.len(), limits.counts());
        for key in 0..1000_u64 {
            limits.try_acquire_n(&key, 0).unwrap();
            limits.peek_n(&key, 0).unwrap();
            assert_eq!((limits.take_up_to(&key, 0), limits.refund(&key, 0)), (0, 0));
        }
        assert_eq!((limits.len(), limits.counts()), (len, counts));
        assert!(limits.try_acquire_n(&7, 2).unwrap_err().is_never());
        assert!(limits.try_acquire_n(&7, u64::MAX).unwrap_err().is_never());
    }
}

// The verbs.

#[test]
fn a_refusal_changes_nothing_and_peek_answers_as_a_try_would() {
    let time = ManualClock::new();
    let limits = buckets("10/s burst 5", &time).capacity(100).unwrap();
    limits.try_acquire_n("key", 3).unwrap();
    for _ in 0..3 {
        assert!(limits.peek_n("key", 2).is_ok());
        let denied = limits.peek_n("key", 3).unwrap_err();
        assert_eq!(limits.try_acquire_n("key", 3).unwrap_err(), denied);
        assert_eq!(denied.retry_after(), Some(ms(100)));
        assert_eq!(limits.available("key"), 2);
    }
    assert!(limits.peek("new").is_ok());
    assert_eq!(limits.len(), 1, "looking takes no slot");
    assert_eq!(limits.take_up_to("key", 9), 2);
    assert_eq!(limits.take_up_to("key", 9), 0);
    assert_eq!(limits.refund("key", 1), 1);
    assert_eq!(limits.refund("key", 99), 4);
    assert_eq!(limits.refund("key", 99), 0);
    assert_eq!(limits.refund("new", 1), 0);
}

#[test]
fn reset_makes_a_key_whole_also_after_it_made_way() {
    let time = ManualClock::new();
    let limits = buckets("10/h", &time).capacity(1000).unwrap();
    limits.try_acquire_n("key", 10).unwrap();
    limits.reset("key");
    assert_eq!((limits.available("key"), limits.len()), (10, 0));
    limits.try_acquire_n("key", 4).unwrap();
    assert_eq!(limits.available("key"), 6);
    limits.reset("new");
    assert_eq!(limits.available("new"), 10);
}

#[test]
fn the_most_used_keys_come_first() {
    let time = ManualClock::new();
    let limits = buckets("100/h", &time).capacity(1000).unwrap();
    for key in 0..100_u64 {
        limits.try_acquire_n(&key, key).unwrap();
    }
    let top = limits.most_used(3);
    let ids: Vec<_> = top.iter().map(|usage| usage.id).collect();
    assert_eq!(ids, [99, 98, 97_u64].map(|key| limits.id_of(&key)));
    assert_eq!(top[2].snapshot, limits.snapshot(&97_u64));
    assert_eq!(
        (
            limits.most_used(0).len(),
            limits.most_used(usize::MAX).len()
        ),
        (0, 99)
    );
    assert_ne!(limits.id_of(&1_u64), limits.id_of(&2_u64));
}

#[test]
fn explicit_times_are_those_of_the_caller() {
    let time = ManualClock::new();
    let limits = buckets("1/s", &time).capacity(100).unwrap();
    let at = |secs: u64| Timestamp::from_nanos(secs * 1_000_000_000);
    limits.at(at(100)).try_acquire("key").unwrap();
    assert!(limits.at(at(0)).try_acquire("key").is_err());
    assert!(limits.try_acquire("key").is_err());
    assert_eq!(limits.at(at(101)).available("key"), 1);
    for now in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        for n in [0, 1, 2, u64::MAX] {
            let view = limits.at(Timestamp::from_nanos(now));
            let _ = (
                view.try_acquire_n(&now, n),
                view.peek_n(&now, n),
                view.refund(&now, n),
            );
            let _ = (view.take_up_to(&now, n), view.snapshot(&now));
            view.reset(&n);
        }
    }
}

// A key's own quota.

#[test]
fn a_key_may_have_a_quota_of_its_own() {
    let time = ManualClock::new();
    let limits = buckets("10/s", &time).capacity(100).unwrap();
    let gold = limits.with(quota("1000/s")).unwrap();
    assert_eq!(gold.available("gold"), 1000);
    gold.try_acquire_n("gold", 600).unwrap();
    assert_eq!(
        (gold.available("gold"), limits.available("iron")),
        (400, 10)
    );
    assert!(limits.try_acquire_n("iron", 11).unwrap_err().is_never());
    time.advance(ms(100));
    assert_eq!(gold.available("gold"), 500);
    assert_eq!(gold.refund("gold", 50), 50);
    assert_eq!(gold.snapshot("gold").remaining, 550);
}

/// What a key has taken by its own quota, and is then remembered of it in the sketch, is no less for the next who asks by it.
fn own_quota_survives_eviction<A: KeyedAlgorithm<Quota = Quota>>(
    limits: &Keyed<A>,
    own: &str,
    take: u64,
    time: &ManualClock,
) {
    let own = limits.with(quota(own)).unwrap();
    let most = own.available(&0_u64);
    for key in 0..20_u64 {
        own.try_acquire_n(&key, take).unwrap();
        assert_eq!(own.available(&key), most - take);
    }
    time.advance(Duration::from_nanos(10));
    // Later than those, so that they make way; and few, so that the sketch is not filled by these.
    for key in 100..400_u64 {
        let _ = limits.try_acquire(&key);
    }
    assert!(limits.counts().evicted >= 5, "{:?}", limits.counts());
    for key in 0..20_u64 {
        let left = own.available(&key);
        assert!(
            left <= most - take,
            "{left} left for {key}, which has taken {take} of {most}"
        );
    }
}

#[test]
fn c7_eviction_never_grants_credit_to_a_key_with_its_own_quota() {
    let time = ManualClock::new();
    let limits = buckets("1000/h", &time).capacity(50).unwrap();
    own_quota_survives_eviction(&limits, "10/h", 10, &time);
    let limits = buckets("10/h", &time).capacity(50).unwrap();
    own_quota_survives_eviction(&limits, "1000/h", 900, &time);
}

#[test]
fn c7_eviction_never_grants_credit_to_a_key_with_its_own_fixed_window() {
    for (table, own, take) in [
        ("1000/h", "5/h", 5),
        ("5/h", "1000/h", 900),
        ("1000/h", "7/h", 3),
    ] {
        let time = ManualClock::new();
        let builder = seeded(Keyed::fixed_window(quota(table)), &time);
        own_quota_survives_eviction(&builder.capacity(50).unwrap(), own, take, &time);
    }
}

#[test]
fn c7_eviction_never_grants_credit_to_a_key_with_its_own_segmented_window() {
    for (table, own, take) in [
        ("1000/h", "5/h", 5),
        ("5/h", "1000/h", 900),
        ("1000/h", "7/h", 3),
    ] {
        let time = ManualClock::new();
        let builder = seeded(Keyed::segmented_window(quota(table)), &time);
        own_quota_survives_eviction(&builder.capacity(50).unwrap(), own, take, &time);
    }
}

#[test]
fn c1_a_change_of_quota_forgets_nothing() {
    let time = ManualClock::new();
    let limits = buckets("10/h", &time).capacity(100).unwrap();
    limits.try_acquire_n("a", 7).unwrap();
    for (text, left) in [("15/d", 8), ("100/s", 93), ("7/w", 0), ("10/h", 3)] {
        limits.set_quota(quota(text)).unwrap();
        assert_eq!(limits.quota(), quota(text));
        assert_eq!(limits.available("a"), left, "{text}");
        assert_eq!(limits.available("b"), limits.quota().max_burst());
    }
}

// Windows on a clock that runs backward.

/// A window that was emptied by a refund was open nevertheless: those before it are not counted anew.
#[test]
fn c4_a_window_that_was_given_back_is_not_opened_again_earlier() {
    let ns = Timestamp::from_nanos;
    let time = ManualClock::new();
    let limits = seeded(Keyed::fixed_window(quota("5/s")), &time)
        .capacity(10)
        .unwrap();
    limits.at(ns(0)).try_acquire_n("key", 5).unwrap();
    limits.at(ns(1_500_000_000)).try_acquire("key").unwrap();
    assert_eq!(limits.at(ns(1_500_000_000)).refund("key", 1), 1);
    // Counted in the window that began at 1.5 s, and so until 2.5 s.
    limits.at(ns(500_000_000)).try_acquire_n("key", 5).unwrap();
    assert_eq!(limits.at(ns(1_600_000_000)).available("key"), 0);

    let limits = seeded(Keyed::segmented_window(quota("5/s")), &time)
        .capacity(10)
        .unwrap();
    limits.at(ns(0)).try_acquire_n("key", 5).unwrap();
    limits.at(ns(2_500_000_000)).try_acquire("key").unwrap();
    assert_eq!(limits.at(ns(2_500_000_000)).refund("key", 1), 1);
    limits.at(ns(500_000_000)).try_acquire_n("key", 5).unwrap();
    assert_eq!(limits.at(ns(2_600_000_000)).available("key"), 0);
}

// What cannot be made.

#[test]
fn bad_capacities_are_refused_with_the_bytes_that_they_would_need() {
    let time = ManualClock::new();
    let error = |keys| {
        buckets("1/s", &time)
            .capacity(keys)
            .unwrap_err()
            .to_string()
    };
    let most = "12884901888";
    assert_eq!(
        error(0),
        format!("a capacity in keys of 0 is out of range: 1 to {most}")
    );
    for (keys, bytes) in [
        (12_884_901_889, 307_090_178_152_u128),
        (1 << 40, 26_205_027_145_088),
        (usize::MAX, 439_647_400_423_410_996_544),
    ] {
        let message = format!(
            "a capacity of {keys} keys would take {bytes} bytes of memory, and at most {most} keys can be told apart"
        );
        assert_eq!(error(keys), message);
    }
}

#[test]
fn quotas_that_do_not_fit_are_refused_and_change_nothing() {
    let time = ManualClock::new();
    let limits = buckets("10/s", &time).capacity(100).unwrap();
    limits.try_acquire_n("key", 4).unwrap();
    // 1 in 292 years, and as many bursts as that take longer than the clock can tell.
    let long = Quota::new(1, Duration::from_nanos((1 << 63) - 1)).unwrap();
    let long = long.try_burst(1 << 20).unwrap();
    for refused in [
        limits.with(long).unwrap_err().to_string(),
        limits.set_quota(long).unwrap_err().to_string(),
        Keyed::token_bucket(long)
            .capacity(10)
            .unwrap_err()
            .to_string(),
    ] {
        assert!(refused.contains("1048576"), "{refused}");
    }
    assert_eq!(
        (limits.quota(), limits.available("key"), limits.len()),
        (quota("10/s"), 6, 1)
    );

    let burst = quota("10/s burst 5");
    let windows = seeded(Keyed::fixed_window(quota("10/s")), &time)
        .capacity(10)
        .unwrap();
    assert!(Keyed::fixed_window(burst).capacity(10).is_err());
    assert!(Keyed::segmented_window(burst).capacity(10).is_err());
    assert!(windows.with(burst).is_err() && windows.set_quota(burst).is_err());
    assert_eq!(windows.available("key"), 10);
    let segments = seeded(Keyed::segmented_window(quota("10/s")), &time)
        .capacity(10)
        .unwrap();
    segments.try_acquire_n("key", 4).unwrap();
    assert!(segments.with(quota("10/min")).is_err(), "another window");
    assert_eq!((segments.available("key"), segments.len()), (6, 1));
}

#[test]
fn memory_is_what_is_said() {
    let mut before = 0;
    for capacity in [
        1, 10, 1000, 16_384, 16_385, 24_576, 24_577, 100_000, 1_000_000,
    ] {
        let limits = Keyed::token_bucket(quota("1/s"))
            .capacity(capacity)
            .unwrap();
        let bytes = limits.bytes();
        let most = 24 * capacity + 11 * capacity.min(16_384) + 20_000;
        assert!((before..=most).contains(&bytes), "{bytes} for {capacity}");
        before = bytes;
        assert_eq!(limits.capacity(), capacity);
    }
}

/// A turn that came in the past and was not seen: what has flowed in since is somebody else's by now.
#[test]
fn c1_who_leaves_with_a_turn_of_the_past_gives_back_nothing_that_others_have_had() {
    let time = ManualClock::new();
    let buckets = Keyed::token_bucket("1/s burst 1".parse().unwrap());
    let buckets = buckets.clock(&time).capacity(10).unwrap();
    let windows = Keyed::fixed_window("1/s".parse().unwrap());
    let windows = windows.clock(&time).capacity(10).unwrap();
    let second = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);

    time.set(second(1));
    assert!(buckets.try_acquire("a").is_ok() && windows.try_acquire("a").is_ok());
    let unseen = (
        Task::start(buckets.acquire("a")),
        Task::start(windows.acquire("a")),
    );
    let mut later = (
        Task::start(buckets.acquire("a")),
        Task::start(windows.acquire("a")),
    );
    time.set(second(3));
    assert!(later.0.poll() && later.1.poll());
    assert_eq!(later.0.granted_ns(), Some(3_000_000_000));
    assert_eq!(later.1.granted_ns(), Some(3_000_000_000));
    drop(unseen);
    assert!(buckets.try_acquire("a").is_err());
    assert!(windows.try_acquire("a").is_err());
}

/// A turn that has just come and was not seen is the next one's.
#[test]
fn c5_who_leaves_with_a_turn_that_was_not_seen_gives_it_back() {
    let time = ManualClock::new();
    let limits = Keyed::token_bucket("1/s burst 1".parse().unwrap());
    let limits = limits.clock(&time).capacity(10).unwrap();
    assert!(limits.try_acquire("a").is_ok());
    let unseen = Task::start(limits.acquire("a"));
    let mut later = Task::start(limits.acquire("a"));
    time.set(Timestamp::from_nanos(1_000_000_000));
    later.poll();
    assert!(later.is_waiting());
    drop(unseen);
    assert!(later.run());
    assert_eq!(later.granted_ns(), Some(1_000_000_000));
}

/// A key for which somebody waits keeps its slot; it does not keep it for ever.
#[test]
fn c7_a_key_for_which_nobody_waits_any_longer_gives_its_slot_away() {
    let time = ManualClock::new();
    let limits = buckets("1/s burst 1", &time)
        .when_full(WhenFull::Deny)
        .capacity(4)
        .unwrap();
    for key in 0..2_000_u64 {
        limits.try_acquire(&key).expect("all others are whole");
        let wait = Task::start(limits.acquire(&key));
        assert!(wait.is_waiting());
        drop(wait);
        time.advance(ms(10_000));
    }
    assert_eq!(limits.counts().refused_for_room, 0);
}

/// Whoever waits for a key that has made way for others gets a slot in place of one of them.
#[test]
fn c6_a_key_that_made_way_can_be_waited_for() {
    let time = ManualClock::new();
    let limits = buckets("1/s burst 10", &time).capacity(12).unwrap();
    let has_slot = |key: u64| {
        let id = limits.id_of(&key);
        let all = limits.most_used(usize::MAX);
        all.iter().any(|usage| usage.id == id)
    };
    for key in 0..50 {
        limits.try_acquire_n(&key, 5).unwrap();
    }
    // They make way for those that owe more.
    for key in 50..1_000_u64 {
        let _ = limits.try_acquire_n(&key, 10);
    }
    let gone = (0..50).find(|key| !has_slot(*key)).expect("few slots");
    let evicted = limits.counts().evicted;
    let mut task = Task::start(limits.acquire(&gone).n(10));
    assert!(task.is_waiting() && has_slot(gone));
    assert_eq!(limits.counts().evicted, evicted + 1);
    // What it owes has not been forgotten, and is at most what any of the others does.
    time.advance(ms(4_999));
    assert!(!task.run());
    // An instant in the sketch is rounded up.
    time.advance(ms(5_001) + Duration::from_micros(9));
    assert!(task.run());
    assert_eq!(task.granted().map(|grant| grant.units()), Some(10));
    assert_eq!(limits.waiting_keys(), 0);
}

/// Nor does one lose its place to it that is only told to forget what is not known.
#[test]
fn c6_a_key_that_made_way_can_be_waited_for_where_there_is_room_again() {
    let time = ManualClock::new();
    let limits = buckets("1/s burst 10", &time).capacity(12).unwrap();
    for key in 0..1_000_u64 {
        let _ = limits.try_acquire_n(&key, 10);
    }
    let usages = limits.most_used(usize::MAX);
    let has_slot = |key: &u64| {
        let id = limits.id_of(key);
        usages.iter().any(|usage| usage.id == id)
    };
    let (there, gone): (Vec<_>, Vec<_>) = (0..1_000_u64).partition(has_slot);
    let counts = limits.counts();
    limits.reset(&gone[0]);
    assert_eq!(limits.counts().evicted, counts.evicted);
    for key in &there {
        limits.reset(key);
    }
    assert!(limits.most_used(1).is_empty());
    let mut task = Task::start(limits.acquire(&gone[1]));
    assert!(task.is_waiting(), "what it owes is not forgotten");
    // An instant in the sketch is rounded up.
    time.advance(ms(1_000) + Duration::from_micros(9));
    assert!(task.run());
    assert_eq!(limits.counts().evicted, counts.evicted);
    assert_eq!(limits.counts().refused_for_room, counts.refused_for_room);
}

#[test]
fn c6_a_newcomer_is_granted_as_of_when_it_came() {
    let time = ManualClock::new();
    let limits = buckets("1/s burst 2", &time).capacity(100).unwrap();
    time.advance(ms(5_000));
    // Before it has an entry, and with one.
    for _ in 0..2 {
        let task = Task::start(limits.acquire("a"));
        assert!(!task.is_waiting());
        assert_eq!(task.granted_ns(), Some(5_000_000_000));
    }
}
