//! Shortest histories in which a key could get too much: evictions, quotas of its own, changes of quota and stale times
//! together. Each test names the contract that it checks.

use flowgate::{
    FixedWindow, Keyed, KeyedAlgorithm, KeyedBuilder, LeakyBucket, ManualClock, Quota,
    SegmentedWindow, Timestamp, TokenBucket, WhenFull,
};
use flowgate_testkit::task::Task;
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn ns(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn ms(ms: u64) -> Timestamp {
    ns(ms * 1_000_000)
}

fn build<A: KeyedAlgorithm<Quota = Quota>>(
    builder: KeyedBuilder<A>,
    capacity: usize,
    clock: &ManualClock,
) -> Keyed<A> {
    let builder = builder.clock(clock).seed([0, 1]);
    builder.capacity(capacity).expect("a quota of this kind")
}

fn buckets(text: &str, clock: &ManualClock) -> Keyed<TokenBucket> {
    build(Keyed::token_bucket(quota(text)), 4, clock)
}

fn fixed(text: &str, clock: &ManualClock) -> Keyed<FixedWindow> {
    build(Keyed::fixed_window(quota(text)), 4, clock)
}

fn segmented(text: &str, clock: &ManualClock) -> Keyed<SegmentedWindow> {
    build(Keyed::segmented_window(quota(text)), 4, clock)
}

fn has_entry<A: KeyedAlgorithm<Quota = Quota>>(limits: &Keyed<A>, key: &str) -> bool {
    let id = limits.id_of(key);
    let usages = limits.most_used(usize::MAX);
    usages.iter().any(|usage| usage.id == id)
}

/// Lets other keys use up all of `quota` each, so that they owe more, until `key` has no entry.
#[track_caller]
fn crowd_out<A: KeyedAlgorithm<Quota = Quota>>(limits: &Keyed<A>, key: &str, text: &str) {
    assert!(has_entry(limits, key), "the key has taken something");
    let crowd = limits.with(quota(text)).expect("a quota of this kind");
    for other in 0..2_000_u64 {
        crowd.take_up_to(&other, u64::MAX);
        if other % 16 == 0 && !has_entry(limits, key) {
            return;
        }
    }
    panic!("the table is larger than thought");
}

// Exports.

#[test]
fn c9_an_export_ends_after_any_number_of_changes() {
    let clock = ManualClock::new();
    let limits = build(Keyed::token_bucket(quota("10/h")), 100, &clock);
    let own = limits.with(quota("5/h")).unwrap();
    limits.try_acquire_n("a", 3).unwrap();
    own.try_acquire_n("b", 3).unwrap();
    for changes in 1..6 {
        let text = format!("{}/h", 10 + changes);
        limits.set_quota(quota(&text)).unwrap();
        let file = limits.export();
        let builder = Keyed::token_bucket(quota(&text)).clock(&clock);
        let after = builder.import(&file).unwrap();
        assert_eq!(after.available("a"), 7 + changes, "{changes} changes");
        let own = after.with(quota("5/h")).unwrap();
        assert_eq!(own.available("b"), 2, "{changes} changes");
        assert_eq!((limits.len(), limits.most_used(9).len()), (2, 2));
    }
}

/// What is known of times before the change is not in the export.
#[test]
fn c3_c4_an_import_refuses_windows_before_the_last_change_of_the_exporter() {
    fn check<A: KeyedAlgorithm<Quota = Quota>>(builder: impl Fn(Quota) -> KeyedBuilder<A>) {
        let clock = ManualClock::new();
        let limits = build(builder(quota("6/s")), 100, &clock);
        limits.at(ms(3_000)).try_acquire("a").unwrap();
        clock.set(ms(4_000));
        limits.set_quota(quota("9/s")).unwrap();
        let mut limits = limits;
        // The second exporter has it from the first.
        for back in [1_000, 500] {
            clock.set(ms(back));
            let builder = builder(quota("9/s")).clock(&clock);
            limits = builder.import(&limits.export()).unwrap();
            for key in ["a", "b"] {
                let wait = |at| {
                    let denied = limits.at(ms(at)).try_acquire(key).unwrap_err();
                    denied.retry_after().unwrap()
                };
                assert!(ms(50) + wait(50) >= ms(4_000), "{key}");
                assert!(ms(3_999) + wait(3_999) >= ms(4_000), "{key}");
            }
        }
        assert!(limits.at(ms(5_000)).try_acquire_n("a", 8).is_ok());
    }
    check(Keyed::fixed_window);
    check(Keyed::segmented_window);
}

/// A key that nobody knows is whole from the import on, and before the change by the limit of then.
#[test]
fn c3_before_a_change_the_wait_for_an_import_ends_with_the_import() {
    fn check<A: KeyedAlgorithm<Quota = Quota>>(builder: impl Fn(Quota) -> KeyedBuilder<A>) {
        let clock = ManualClock::new();
        clock.set(ms(3_500));
        let file = build(builder(quota("7/s")), 100, &clock).export();
        let limits = builder(quota("7/s")).clock(&clock).import(&file).unwrap();
        clock.set(ms(4_000));
        limits.set_quota(quota("9/s")).unwrap();
        let wait = |n| {
            let denied = limits.at(ns(0)).try_acquire_n("a", n).unwrap_err();
            denied.retry_after()
        };
        assert_eq!(wait(7), Some(Duration::from_millis(3_500)));
        assert_eq!(wait(8), Some(Duration::from_secs(4)));
        assert!(limits.at(ns(3_499_999_999)).try_acquire("a").is_err());
        assert!(limits.at(ms(3_500)).try_acquire_n("a", 7).is_ok());
    }
    check(Keyed::fixed_window);
    check(Keyed::segmented_window);
}

/// A table for keys that are refused when it is full has more lines than one whose keys are evicted.
#[test]
fn c1_an_import_into_a_builder_with_another_when_full_finds_every_key() {
    let when_full = [
        WhenFull::Evict,
        WhenFull::Deny,
        WhenFull::Share(quota("1/s")),
    ];
    for from in when_full {
        for to in when_full {
            let clock = ManualClock::new();
            let builder = |when_full| {
                let builder = Keyed::token_bucket(quota("1/h burst 5"));
                builder.when_full(when_full).clock(&clock)
            };
            let limits = builder(from).capacity(1_000).unwrap();
            let keys = (0..300_u64).filter(|key| limits.try_acquire_n(key, 5).is_ok());
            let keys: Vec<u64> = keys.collect();
            assert_eq!(keys.len(), 300);
            let imported = builder(to).import(&limits.export()).unwrap();
            let again = keys.iter().filter(|key| imported.try_acquire(*key).is_ok());
            assert_eq!(again.count(), 0, "from {from:?} to {to:?}");
        }
    }
}

// Evicted windows, while the limit goes down and up.

#[test]
fn c1_c7_an_evicted_window_gains_nothing_while_the_limit_goes_down_and_up() {
    let clock = ManualClock::new();
    clock.set(ms(5_000));
    let limits = build(Keyed::segmented_window(quota("1000/min")), 100, &clock);
    for key in 0..300_u64 {
        limits.take_up_to(&key, 1_000);
    }
    let mut taken = limits.take_up_to("k", 999);
    for key in 1_000..2_000_u64 {
        limits.take_up_to(&key, 1_000);
    }
    limits.set_quota(quota("200/min")).unwrap();
    taken += limits.take_up_to("k", 1);
    limits.set_quota(quota("1000/min")).unwrap();
    taken += limits.take_up_to("k", 1_000);
    assert!(taken <= 1_000, "{taken} of 1000");
}

fn down_up_with_a_wait<A: KeyedAlgorithm<Quota = Quota>>(
    limits: Keyed<A>,
    most: u64,
    [low, high]: [&str; 2],
) {
    let mut taken = limits.take_up_to("k", most);
    crowd_out(&limits, "k", "20000/h");
    limits.set_quota(quota(low)).unwrap();
    let wait = Task::start(limits.acquire("k"));
    assert!(wait.is_waiting());
    drop(wait);
    limits.set_quota(quota(high)).unwrap();
    taken += limits.take_up_to("k", most);
    assert!(taken <= most, "{taken} of {most}");
}

#[test]
fn c1_c7_an_evicted_fixed_window_gains_nothing_by_a_wait_at_a_smaller_limit() {
    let clock = ManualClock::new();
    down_up_with_a_wait(fixed("3/h", &clock), 3, ["1/h", "3/h"]);
    down_up_with_a_wait(fixed("5000/h", &clock), 5_000, ["1/h", "5000/h"]);
}

#[test]
fn c1_c7_an_evicted_segmented_window_gains_nothing_by_a_wait_at_a_smaller_limit() {
    let clock = ManualClock::new();
    down_up_with_a_wait(segmented("3/h", &clock), 3, ["1/h", "3/h"]);
    down_up_with_a_wait(segmented("5000/h", &clock), 5_000, ["1/h", "5000/h"]);
}

/// The count needs more bits than the smaller limit does.
fn down_up_live<A: KeyedAlgorithm<Quota = Quota>>(
    limits: Keyed<A>,
    most: u64,
    [low, high]: [&str; 2],
) {
    let mut taken = limits.take_up_to("k", most - 2);
    limits.set_quota(quota(low)).unwrap();
    limits.set_quota(quota(high)).unwrap();
    assert_eq!(limits.available("k"), 2, "C2: two are left");
    taken += limits.take_up_to("k", most);
    assert!(taken <= most, "{taken} of {most}");
}

#[test]
fn c1_c2_a_live_window_keeps_its_count_while_the_limit_goes_down_and_up() {
    let clock = ManualClock::new();
    let all = ["1/h", "9000/h"];
    down_up_live(fixed("9000/h", &clock), 9_000, all);
    down_up_live(segmented("9000/h", &clock), 9_000, all);
}

/// Where the shorter window has no room for the count, it counts as used up.
#[test]
fn c1_a_count_that_does_not_fit_into_a_shorter_window_stays_used_up() {
    let clock = ManualClock::new();
    let limits = fixed("1000000/h", &clock);
    limits.take_up_to("k", 999_000);
    limits.set_quota(quota("1/1us")).unwrap();
    limits.set_quota(quota("1000000/h")).unwrap();
    assert!(limits.available("k") <= 1_000);
}

/// A limit of 2^k - 1 needs one digit more, so that a used-up window and a clipped count differ.
#[test]
fn c2_a_window_of_a_limit_of_all_ones_that_was_used_up_grows_with_the_limit() {
    let clock = ManualClock::new();
    for (from, to) in [(4_095, 10_000), (65_535, 70_000)] {
        let limits = fixed(&format!("{from}/h"), &clock);
        limits.try_acquire_n("k", from).unwrap();
        limits.set_quota(quota(&format!("{to}/h"))).unwrap();
        assert_eq!(limits.available("k"), to - from);
        let limits = segmented(&format!("{from}/h"), &clock);
        limits.try_acquire_n("k", from).unwrap();
        limits.set_quota(quota(&format!("{to}/h"))).unwrap();
        assert_eq!(limits.available("k"), to - from);
    }
}

#[test]
fn c1_a_live_window_is_not_forgiven_by_a_key_s_own_smaller_limit() {
    fn there_and_back<A: KeyedAlgorithm<Quota = Quota>>(limits: Keyed<A>, own: &str) {
        let mut taken = limits.take_up_to("k", 8_990);
        let own = limits.with(quota(own)).unwrap();
        let wait = Task::start(limits.acquire("k").n(11));
        // The queue goes by its quota from now on, and so does the key.
        let other = Task::start(own.acquire("k"));
        assert!(wait.is_waiting() && other.is_waiting());
        drop((wait, other));
        taken += limits.take_up_to("k", 9_000);
        assert!(taken <= 9_000, "{taken} of 9000");
    }
    let clock = ManualClock::new();
    there_and_back(fixed("9000/h", &clock), "2/h");
    there_and_back(segmented("9000/h", &clock), "2/h");
}

// Evicted keys with quotas of their own.

#[test]
fn c1_c7_an_evicted_bucket_owes_the_same_by_a_slower_quota_of_its_own() {
    let clock = ManualClock::new();
    let limits = buckets("1000/s burst 10", &clock);
    let own = limits.with(quota("1/h burst 10")).unwrap();
    let mut taken = limits.take_up_to("k", 10);
    crowd_out(&limits, "k", "1/day burst 10");
    taken += own.take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10");
}

#[test]
fn c1_c7_an_evicted_bucket_owes_the_same_by_the_table_s_slower_quota() {
    let clock = ManualClock::new();
    let limits = buckets("1/h burst 10", &clock);
    let own = limits.with(quota("1000/s burst 10")).unwrap();
    let mut taken = own.take_up_to("k", 10);
    crowd_out(&limits, "k", "1/day burst 10");
    taken += limits.take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10");
}

/// The table's change concerns what was left by its quota, and not what was left by others.
#[test]
fn c1_c7_an_evicted_bucket_owes_the_same_after_changes_of_the_table_s_quota() {
    for (first, second) in [
        ("1000/s burst 10", "1/h burst 10"),
        ("1/h burst 10", "1000/s burst 10"),
    ] {
        let clock = ManualClock::new();
        let limits = buckets(first, &clock);
        let own = limits.with(quota("1/min burst 10")).unwrap();
        let mut taken = [limits.take_up_to("k", 10), own.take_up_to("m", 10)];
        crowd_out(&limits, "k", "1/day burst 10");
        limits.set_quota(quota(second)).unwrap();
        taken[0] += limits.take_up_to("k", 10);
        taken[1] += limits.take_up_to("m", 10) + own.take_up_to("m", 10);
        limits.set_quota(quota(first)).unwrap();
        taken[0] += own.take_up_to("k", 10);
        taken[1] += own.take_up_to("m", 10);
        assert!(taken.iter().all(|&taken| taken <= 10), "{taken:?} of 10");
    }
}

/// What a faster quota pays back, it pays back for evicted keys too.
#[test]
fn c2_an_evicted_bucket_pays_at_the_new_rate() {
    let clock = ManualClock::new();
    let limits = buckets("1/h burst 10", &clock);
    limits.try_acquire_n("k", 10).unwrap();
    crowd_out(&limits, "k", "1/day burst 10");
    limits.set_quota(quota("10/s burst 10")).unwrap();
    clock.advance(Duration::from_millis(1_001));
    assert_eq!(limits.available("k"), 10);
}

#[test]
fn c1_c7_an_evicted_segmented_window_owes_the_same_by_a_limit_of_its_own() {
    let clock = ManualClock::new();
    clock.set(ms(5));
    let limits = segmented("5/1000ns", &clock);
    let own = limits.with(quota("3/1000ns")).unwrap();
    let mut taken = limits.take_up_to("k", 3);
    crowd_out(&limits, "k", "15/1000ns");
    taken += own.take_up_to("k", 1) + limits.take_up_to("k", 5);
    assert!(taken <= 5, "{taken} of 5");

    let mut taken = own.take_up_to("m", 3);
    crowd_out(&limits, "m", "15/1000ns");
    taken += limits.take_up_to("m", 5);
    assert!(taken <= 5, "{taken} of 5");
}

// Stale times after a change of quota.

#[test]
fn c1_c4_a_stale_time_after_a_slower_quota_grants_nothing_twice() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock);
    let mut taken = limits.take_up_to("k", 10);
    clock.set(ms(1_000));
    limits.set_quota(quota("1/h burst 10")).unwrap();
    taken += limits.at(ms(0)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10");
    clock.set(ms(0));
    taken += limits.take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10, by the clock");
    // Nothing is lost by having asked: at the change, the bucket is full.
    clock.set(ms(1_000));
    assert_eq!(limits.available("k"), 10);
}

#[test]
fn c1_c4_a_stale_time_after_a_faster_quota_forgets_nothing() {
    let clock = ManualClock::new();
    let limits = buckets("1/h burst 10", &clock);
    clock.set(ms(1_000));
    limits.set_quota(quota("10/s burst 10")).unwrap();
    let mut taken = limits.at(ms(0)).take_up_to("k", 10);
    // In the second until the change there flowed in what the slow quota allows.
    taken += limits.at(ms(1_000)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10");
}

#[test]
fn c4_a_leaky_bucket_grants_nothing_twice_at_a_stale_time() {
    let clock = ManualClock::new();
    let limits = build(Keyed::leaky_bucket(quota("10/s burst 9")), 4, &clock);
    let _: &Keyed<LeakyBucket> = &limits;
    let mut taken = limits.take_up_to("k", 9);
    clock.set(ms(1_000));
    limits.set_quota(quota("1/h burst 9")).unwrap();
    taken += limits.at(ms(0)).take_up_to("k", 9);
    assert!(taken <= 9, "{taken} of 9");
}

/// Until the change, what is missing flows in by the old rate.
#[test]
fn c2_c3_before_a_change_a_refusal_says_when_by_the_old_rate() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock);
    limits.try_acquire_n("k", 10).unwrap();
    clock.set(ms(2_000));
    limits.set_quota(quota("1/h burst 10")).unwrap();
    let before = |ms_: u64| limits.at(ms(ms_));
    let denied = before(0).peek_n("k", 3).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(300)));
    assert!(limits.at(ns(299_999_999)).peek_n("k", 3).is_err());
    assert!(before(300).peek_n("k", 3).is_ok());
    assert_eq!(
        [before(300), before(1_000)].map(|at| at.available("k")),
        [3, 10]
    );
    let full = before(300).snapshot("k").reset_after;
    assert_eq!(full, Duration::from_millis(700));
    // By then full; what is taken at 1.5 s has half flowed in at the change.
    before(1_500).try_acquire_n("k", 10).unwrap();
    assert_eq!(before(2_000).available("k"), 5);
    // 5 are owed at the change, and 5 flowed in since 1.5 s.
    let denied = before(1_500).peek_n("k", 1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    // More than the old rate brings until the change: 6 are there an hour after it.
    let denied = before(1_900).peek_n("k", 6).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(3_600_100)));
}

#[test]
fn c4_before_the_change_before_the_last_nothing_is_granted() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock);
    limits.try_acquire_n("k", 10).unwrap();
    for (at_ms, text) in [(1_000, "1/h burst 10"), (2_000, "10/h burst 10")] {
        clock.set(ms(at_ms));
        limits.set_quota(quota(text)).unwrap();
    }
    let denied = limits.at(ms(500)).try_acquire("k").unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    assert_eq!(limits.at(ms(500)).available("k"), 0);
    limits.at(ms(1_000)).try_acquire("k").unwrap();
}

#[test]
fn c1_c4_a_stale_time_after_a_quota_of_its_own_grants_nothing_twice() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock);
    let own = limits.with(quota("1/h burst 10")).unwrap();
    let mut taken = limits.at(ms(0)).take_up_to("k", 10);
    own.at(ms(1_000)).try_acquire_n("k", 5).unwrap();
    taken += own.at(ms(0)).take_up_to("k", 10) + limits.at(ms(0)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10 at 0 s");

    let limits = buckets("1/h burst 10", &clock);
    let own = limits.with(quota("10/s burst 10")).unwrap();
    let mut taken = own.at(ms(0)).take_up_to("k", 10);
    limits.at(ms(1_000)).try_acquire_n("k", 5).unwrap();
    taken += own.at(ms(0)).take_up_to("k", 10) + limits.at(ms(0)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10 at 0 s");
}

/// Both exchanges are as of the same time.
#[test]
fn c1_c4_a_stale_time_after_two_exchanges_grants_nothing_twice() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 4", &clock);
    let fast = limits.with(quota("50/s burst 5")).unwrap();
    let slow = limits.with(quota("3/s burst 3")).unwrap();
    clock.set(ms(1_000));
    limits.try_acquire("other").unwrap();
    clock.set(ms(0));
    let mut taken = fast.take_up_to("k", 5);
    let waits = [
        Task::start(slow.acquire("k")),
        Task::start(limits.acquire("k")),
    ];
    assert!(waits.iter().all(Task::is_waiting));
    drop(waits);
    taken += limits.take_up_to("k", 4);
    assert!(taken <= 5, "{taken} of 5 at 0 s");
}

/// The key has exchanged its quota by the latest time of the clock, which callers that bring their own need not know.
#[test]
fn c1_c4_a_stale_time_after_an_exchange_by_a_wait_grants_nothing_twice() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 4", &clock);
    let own = limits.with(quota("3/s burst 3")).unwrap();
    clock.set(ms(3_000));
    clock.set(ms(145));
    let mut taken = limits.at(ms(0)).take_up_to("k", 4);
    let wait = Task::start(own.acquire("k").n(3));
    assert!(wait.is_waiting());
    drop(wait);
    taken += limits.at(ms(10)).take_up_to("k", 4);
    assert!(taken <= 4, "{taken} of 4 in 10 ms");
}

/// The entry was used for others since, and nobody knows by which quota the key had taken.
#[test]
fn c1_c4_c7_a_forgotten_key_sees_no_credit_at_a_stale_time_by_another_quota() {
    let clock = ManualClock::new();
    let limits = buckets("1000/s burst 10", &clock);
    let own = limits.with(quota("1/h burst 10")).unwrap();
    let mut taken = limits.at(ms(0)).take_up_to("k", 10);
    for key in 0..2_000_u64 {
        limits.at(ms(1_000)).take_up_to(&key, 10);
    }
    taken += own.at(ms(0)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10 at 0 s");

    let limits = buckets("1/h burst 10", &clock);
    let own = limits.with(quota("1000/s burst 10")).unwrap();
    let mut taken = own.at(ms(0)).take_up_to("k", 10);
    for key in 0..2_000_u64 {
        limits.at(ms(1_000)).take_up_to(&key, 10);
    }
    taken += limits.at(ms(0)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10 at 0 s");
    // Nor after it has an entry again.
    limits.at(ms(2_000)).take_up_to("k", 1);
    taken += limits.at(ms(0)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10 at 0 s");
}

#[test]
fn c1_c4_a_stale_time_after_a_change_counts_in_the_window_that_was_open() {
    let clock = ManualClock::new();
    let limits = fixed("3/s", &clock);
    let mut taken = limits.at(ms(5_000)).take_up_to("k", 3);
    clock.set(ms(9_000));
    limits.set_quota(quota("3/2s")).unwrap();
    taken += limits.at(ms(5_000)).take_up_to("k", 3);
    assert!(taken <= 3, "{taken} of 3 at 5 s");

    let clock = ManualClock::new();
    let limits = segmented("3/s", &clock);
    let mut taken = limits.at(ms(5_000)).take_up_to("k", 3);
    clock.set(ms(9_000));
    limits.set_quota(quota("4/s")).unwrap();
    taken += limits.at(ms(5_000)).take_up_to("k", 4);
    assert!(taken <= 4, "{taken} of 4 at 5 s");
}

#[test]
fn c1_c4_a_segmented_window_keeps_its_count_between_the_table_and_its_own_limit() {
    let clock = ManualClock::new();
    let limits = segmented("10/s", &clock);
    let own = limits.with(quota("10/s")).unwrap();
    let mut taken = own.at(ms(5_000)).take_up_to("k", 9);
    limits.at(ms(9_000)).peek("k").unwrap();
    limits.at(ms(9_000)).take_up_to("other", 1);
    taken += limits.at(ms(5_000)).take_up_to("k", 10);
    assert!(taken <= 10, "{taken} of 10 at 5 s");
}

// In line.

/// The clock is set back, and then there is room in the newest window, where the turn counts.
fn served_before_its_window<A: KeyedAlgorithm<Quota = Quota>>(
    limits: Keyed<A>,
    clock: &ManualClock,
    begins_ms: u64,
) {
    clock.set(ms(7_500));
    limits.try_acquire("k").unwrap();
    clock.set(ms(5_000));
    let mut wait = Task::start(limits.acquire("k").n(3));
    assert!(wait.is_waiting());
    assert_eq!(limits.at(ms(5_000)).refund("k", 1), 1);
    for early_ms in [5_000, begins_ms - 1] {
        clock.set(ms(early_ms));
        let is_granted = wait.run();
        assert!(
            !is_granted,
            "at {early_ms} ms, dated {:?}",
            wait.granted_ns()
        );
    }
    clock.set(ms(begins_ms));
    assert!(wait.run());
    assert_eq!(wait.granted_ns(), Some(begins_ms * 1_000_000));
}

#[test]
fn c1_c6_a_turn_is_not_dated_before_the_segment_that_it_counts_in() {
    let clock = ManualClock::new();
    served_before_its_window(segmented("3/s", &clock), &clock, 7_000);
}

#[test]
fn c1_c6_a_turn_is_not_dated_before_the_fixed_window_that_it_counts_in() {
    let clock = ManualClock::new();
    let limits = fixed("3/s", &clock);
    clock.set(ms(7_500));
    limits.try_acquire_n("k", 2).unwrap();
    clock.set(ms(5_000));
    let mut wait = Task::start(limits.acquire("k").n(2));
    assert!(wait.is_waiting());
    assert_eq!(limits.refund("k", 1), 1);
    assert!(!wait.run(), "dated {:?}", wait.granted_ns());
    clock.set(ms(7_500));
    assert!(wait.run());
    assert_eq!(wait.granted_ns(), Some(7_500_000_000));
}

/// The window of an hour that is open does not hold up those who wait by a faster quota.
#[test]
fn c2_c6_a_longer_window_that_was_open_does_not_hold_up_the_line() {
    let clock = ManualClock::new();
    clock.set(ms(5_000));
    let limits = fixed("1/h", &clock);
    limits.try_acquire("k").unwrap();
    let mut wait = Task::start(limits.acquire("k"));
    assert!(wait.is_waiting());
    clock.set(ms(6_000));
    limits.set_quota(quota("10/s")).unwrap();
    assert!(wait.run());
    assert_eq!(wait.granted_ns(), Some(6_000_000_000));
}

/// On a clock that goes on by itself, the time at which a key changes its quota is not always later than the turn.
#[test]
fn c6_a_line_by_a_quota_of_its_own_is_served_by_a_clock_that_goes_on() {
    let limits = Keyed::token_bucket(quota("200/s burst 1"));
    let limits = limits.seed([0, 1]).capacity(4).unwrap();
    let own = limits.with(quota("100/s burst 1")).unwrap();
    for _ in 0..3 {
        limits.acquire("k").block().unwrap();
        own.acquire("k")
            .within(Duration::from_secs(20))
            .block()
            .unwrap();
    }
}

// Times far ahead.

#[test]
fn c2_c4_a_time_at_which_nothing_was_taken_does_not_delay_a_change() {
    let clock = ManualClock::new();
    let limits = buckets("10/s burst 10", &clock);
    limits.try_acquire_n("k", 10).unwrap();
    let last = limits.at(Timestamp::MAX);
    assert_eq!(last.available("k"), 10);
    last.peek("k").unwrap();
    assert!(last.try_acquire_n("k", 11).is_err());
    assert_eq!(last.refund("k", 1), 0);
    limits.set_quota(quota("20/s burst 10")).unwrap();
    clock.set(ms(500));
    assert_eq!(limits.available("k"), 10);
}

/// A change comes after all that was taken.
#[test]
fn c1_c4_a_change_is_not_before_a_time_at_which_something_was_taken() {
    let clock = ManualClock::new();
    let limits = buckets("10/h burst 10", &clock);
    limits.at(ms(3_600_000)).try_acquire_n("k", 10).unwrap();
    limits.set_quota(quota("10/s burst 10")).unwrap();
    assert_eq!(limits.at(ms(3_600_000)).available("k"), 0);
    assert_eq!(limits.at(ms(3_600_100)).available("k"), 1);
}
