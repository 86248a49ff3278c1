//! Keyed fixed windows that are aligned: exact at each boundary whatever the limit, as the limiter of one is.

use flowgate::{FixedWindow, Keyed, KeyedBuilder, ManualClock, Quota, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

fn ns(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn windows(quota: Quota, begins_ns: u64) -> KeyedBuilder<FixedWindow> {
    let builder = Keyed::fixed_window(quota).clock(ManualClock::new());
    builder.seed([1, 2]).align(ns(begins_ns))
}

#[test]
fn c1_c3_every_boundary_is_exact_whatever_the_limit() {
    for limit in [1, 3, 4_094, 4_095, 4_096, 65_535, 1_000_000, 999_999_937] {
        for period_ns in [SECOND_NS, 60 * SECOND_NS, 86_400 * SECOND_NS, 1_000_003] {
            for begins_ns in [0, 17, 1_234_567_891] {
                let quota = Quota::new(limit, Duration::from_nanos(period_ns)).unwrap();
                let limits = windows(quota, begins_ns).capacity(10).unwrap();
                let first_ns = begins_ns % period_ns + 5 * period_ns;
                for ends_ns in [first_ns, first_ns + 2 * period_ns, first_ns + 7 * period_ns] {
                    let case = format!("{quota} from {begins_ns}, until {ends_ns}");
                    let last = limits.at(ns(ends_ns - 1));
                    last.try_acquire_n("a", limit).expect(&case);
                    let denied = last.try_acquire("a").expect_err(&case);
                    assert_eq!(
                        denied.retry_after(),
                        Some(Duration::from_nanos(1)),
                        "{case}"
                    );
                    assert_eq!(last.snapshot("a").reset_after.as_nanos(), 1, "{case}");
                    let first = limits.at(ns(ends_ns));
                    assert_eq!(first.available("a"), limit, "{case}");
                    first.try_acquire_n("a", limit).expect(&case);
                    let denied = first.try_acquire("a").expect_err(&case);
                    let wait = Duration::from_nanos(period_ns);
                    assert_eq!(denied.retry_after(), Some(wait), "{case}");
                    assert_eq!(
                        limits.at(ns(ends_ns + period_ns - 1)).available("a"),
                        0,
                        "{case}"
                    );
                }
            }
        }
    }
}

/// Each key as the limiter of one, at every time, early or late.
#[test]
fn c1_c2_c3_c5_each_key_is_as_an_aligned_window_by_itself() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let limit = [3, 10, 5_000, 1_000_000][rng.usize(..4)];
        let period_ns = [1_000, 1_000_003, SECOND_NS][rng.usize(..3)];
        let limit = limit.min(period_ns);
        let quota = Quota::new(limit, Duration::from_nanos(period_ns)).unwrap();
        let begins_ns = rng.u64(..3 * period_ns);
        let limits = windows(quota, begins_ns).capacity(20).unwrap();
        let alone = || {
            let builder = FixedWindow::builder(quota).clock(ManualClock::new());
            builder.align(ns(begins_ns)).build().unwrap()
        };
        let mut windows = HashMap::new();
        let mut now_ns = 0;
        for _ in 0..200 {
            now_ns += match rng.u8(..4) {
                0 => rng.u64(..=period_ns),
                1 => {
                    let left_ns = (begins_ns + 10 * period_ns - now_ns % period_ns) % period_ns;
                    (left_ns + rng.u64(..3)).saturating_sub(1)
                }
                _ => 0,
            };
            let key = rng.u64(..3);
            let (window, at) = (windows.entry(key).or_insert_with(alone), ns(now_ns));
            let n = rng.u64(0..=limit + 1);
            let case = format!("seed {seed}: {n} of {key} at {now_ns}");
            match rng.u8(..5) {
                0 | 1 => assert_eq!(
                    limits
                        .at(at)
                        .try_acquire_n(&key, n)
                        .map_err(|denied| denied.retry_after()),
                    window
                        .at(at)
                        .try_acquire_n(n)
                        .map_err(|denied| denied.retry_after()),
                    "{case}"
                ),
                2 => assert_eq!(
                    limits.at(at).take_up_to(&key, n),
                    window.at(at).take_up_to(n),
                    "{case}"
                ),
                3 => assert_eq!(
                    limits.at(at).refund(&key, n),
                    window.at(at).refund(n),
                    "{case}"
                ),
                _ => assert_eq!(
                    limits.at(at).snapshot(&key),
                    window.at(at).snapshot(),
                    "{case}"
                ),
            }
        }
    }
}

/// What was counted stays counted until a window begins by the new quota.
#[test]
fn c1_a_change_of_quota_keeps_what_was_counted_until_a_new_window_begins() {
    for limit in [10, 10_000] {
        let time = ManualClock::new();
        let per_second = Quota::new(limit, Duration::from_secs(1)).unwrap();
        let per_minute = Quota::new(limit, Duration::from_secs(60)).unwrap();
        let limits = Keyed::fixed_window(per_second).clock(&time).align(ns(0));
        let limits = limits.capacity(10).unwrap();
        time.set(ns(10 * SECOND_NS + 5));
        limits.try_acquire_n("a", limit - 1).unwrap();
        limits.set_quota(per_minute).unwrap();
        limits.try_acquire("a").unwrap();
        let denied = limits.try_acquire("a").unwrap_err();
        assert_eq!(
            denied.retry_after(),
            Some(Duration::from_nanos(50 * SECOND_NS - 5))
        );
        // A key that had taken nothing has the rest of the minute.
        limits.try_acquire_n("b", limit).unwrap();
        time.set(ns(60 * SECOND_NS));
        assert_eq!(["a", "b"].map(|key| limits.available(key)), [limit, limit]);
    }
}

#[test]
fn c1_keys_of_their_own_quotas_have_windows_of_their_own() {
    let limits = windows("5/min".parse().unwrap(), SECOND_NS)
        .capacity(10)
        .unwrap();
    let fast = limits.with("3/10s".parse().unwrap()).unwrap();
    let at = |at_ns| fast.at(ns(at_ns));
    at(10 * SECOND_NS).try_acquire_n("a", 3).unwrap();
    let denied = at(11 * SECOND_NS - 1).try_acquire("a").unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
    at(11 * SECOND_NS).try_acquire_n("a", 3).unwrap();
    assert!(at(21 * SECOND_NS - 1).try_acquire("a").is_err());
    at(21 * SECOND_NS).try_acquire("a").unwrap();
    // By the table's quota from then on, what was taken in the ten seconds counts until the minute is over.
    limits.at(ns(22 * SECOND_NS)).try_acquire("a").unwrap();
    assert_eq!(limits.at(ns(61 * SECOND_NS - 1)).available("a"), 3);
    assert_eq!(limits.at(ns(61 * SECOND_NS)).available("a"), 5);
}

/// Many keys in room for few: never more than the limit in any window, and all of it soon after each has begun.
#[test]
fn c1_c7_keys_that_make_way_keep_the_limit_of_each_window() {
    let mut rng = fastrand::Rng::with_seed(1);
    for (limit, keys) in [(5, 400_u64), (6_000, 300)] {
        let quota = Quota::new(limit, Duration::from_secs(1)).unwrap();
        let limits = windows(quota, 400).capacity(50).unwrap();
        let mut taken = HashMap::new();
        let mut now_ns = 400;
        for _ in 0..20_000 {
            now_ns += rng.u64(..300_000);
            let (key, n) = (rng.u64(..keys), rng.u64(1..=limit));
            if limits.at(ns(now_ns)).try_acquire_n(&key, n).is_ok() {
                let window = (now_ns - 400) / SECOND_NS;
                let taken: &mut u64 = taken.entry((key, window)).or_default();
                *taken += n;
                assert!(*taken <= limit, "{taken} by {key} in {window}");
            }
        }
        assert!(limits.counts().evicted > 100, "{:?}", limits.counts());
        let begins_ns = 400 + (now_ns / SECOND_NS + 1) * SECOND_NS;
        for key in 0..50 {
            let whole = limits.at(ns(begins_ns + 16_400)).try_acquire_n(&key, limit);
            assert!(whole.is_ok(), "{key}");
        }
    }
}

#[test]
fn c1_what_is_imported_stays_taken_as_if_no_time_had_passed() {
    for limit in [10, 10_000] {
        let quota = Quota::new(limit, Duration::from_secs(60)).unwrap();
        let time = ManualClock::new();
        let limits = Keyed::fixed_window(quota).clock(&time).align(ns(0));
        let limits = limits.capacity(10).unwrap();
        time.set(ns(20 * SECOND_NS));
        limits.try_acquire_n("a", limit - 1).unwrap();
        let file = limits.export();

        let time = ManualClock::new();
        time.set(ns(1_000 * SECOND_NS));
        let limits = Keyed::fixed_window(quota)
            .clock(&time)
            .align(ns(30 * SECOND_NS));
        let limits = limits.import(&file).unwrap();
        // 40 seconds are left of its window, which then stays until the next one begins.
        assert_eq!(limits.available("a"), 1);
        limits.try_acquire_n("b", limit).unwrap();
        assert_eq!(limits.snapshot("b").reset_after, Duration::from_secs(50));
        time.set(ns(1_040 * SECOND_NS - 1));
        assert!(limits.try_acquire_n("a", 2).is_err());
        time.set(ns(1_050 * SECOND_NS));
        assert_eq!(["a", "b"].map(|key| limits.available(key)), [limit, limit]);
    }
}

#[test]
fn windows_by_the_wall_clock_begin_together() {
    let limits = Keyed::fixed_window("1000/day".parse().unwrap()).align_to_wall(3600);
    let limits = limits.capacity(10).unwrap();
    let alone = FixedWindow::builder("1000/day".parse().unwrap()).align_to_wall(3600);
    let alone = alone.build().unwrap();
    for key in ["a", "b"] {
        limits.try_acquire(key).unwrap();
    }
    alone.try_acquire().unwrap();
    let left = ["a", "b"].map(|key| limits.snapshot(key).reset_after);
    let day = Duration::from_secs(86_400);
    let near = |one: Duration, other: Duration| {
        let apart = one.abs_diff(other);
        apart.min(day - apart) < Duration::from_secs(600)
    };
    assert!(near(left[0], left[1]) && near(left[0], alone.snapshot().reset_after));
}

#[test]
fn c9_a_limit_that_leaves_no_room_for_the_end_of_a_window_is_refused() {
    let build = |text: &str| windows(text.parse().unwrap(), 0).capacity(10).map(drop);
    assert!(build("1000000000/ms").is_ok());
    let error = build("1000000000/100us").unwrap_err().to_string();
    assert!(
        error.contains("aligned") && error.contains("1000000000"),
        "{error}"
    );
    // Not aligned, it is rounded up.
    let rounded = Keyed::fixed_window("1000000000/100us".parse().unwrap());
    assert!(rounded.capacity(10).is_ok());
    let limits = windows("5/s".parse().unwrap(), 0).capacity(10).unwrap();
    let too_many = "1000000000/100us".parse().unwrap();
    assert!(limits.set_quota(too_many).is_err() && limits.with(too_many).is_err());
    assert_eq!(limits.available("a"), 5);
}
