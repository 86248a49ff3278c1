//! What a user of `FixedWindow` is promised.

use crate::effort::number;
use flowgate::{FixedWindow, FixedWindowBuilder, Limiter, ManualClock, Quota, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn builder(text: &str) -> FixedWindowBuilder {
    FixedWindow::builder(text.parse().expect("a quota")).clock(ManualClock::new())
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

const S: u64 = 1_000_000_000;

#[test]
fn a_window_begins_with_the_first_that_is_admitted() {
    let limiter = builder("2/s").build().unwrap();
    assert!(limiter.at(at(5)).try_acquire_n(3).unwrap_err().is_never()); // opens none
    assert!(limiter.at(at(700)).try_acquire().is_ok());
    assert!(limiter.at(at(S + 699)).try_acquire().is_ok());
    assert!(limiter.at(at(S + 699)).try_acquire().is_err());
    assert!(limiter.at(at(S + 700)).try_acquire().is_ok());
    assert_eq!(limiter.at(at(S + 700)).available(), 1);
}

#[test]
fn c3_a_refusal_says_when_the_window_ends() {
    let limiter = builder("2/s").build().unwrap();
    limiter.at(at(300)).try_acquire_n(2).unwrap();
    let denied = limiter.at(at(400)).try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_nanos(S - 100)));
    assert!(limiter.at(at(S + 299)).try_acquire().is_err());
    assert!(limiter.at(at(S + 300)).try_acquire().is_ok());
    let snapshot = limiter.at(at(S + 301)).snapshot();
    assert_eq!((snapshot.limit, snapshot.remaining), (2, 1));
    assert_eq!(snapshot.reset_after, Duration::from_nanos(S - 1));
}

#[test]
fn c4_a_time_before_the_window_is_counted_in_it() {
    let limiter = builder("2/s").build().unwrap();
    limiter.at(at(10 * S)).try_acquire().unwrap();
    assert!(limiter.at(at(0)).try_acquire().is_ok());
    let denied = limiter.at(at(0)).try_acquire().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(11)));
    assert!(limiter.at(at(10 * S)).try_acquire().is_err());
}

#[test]
fn c4_the_end_of_time_is_a_time() {
    for text in [
        "2/s",
        "2/ns",
        "281474976710655/281474976710655ns",
        "3/18446744073709551615ns",
    ] {
        let limiter = builder(text).build().unwrap();
        let limit = limiter.at(at(0)).available();
        for ns in [0, u64::MAX, u64::MAX - 1, 1 << 63, u64::MAX] {
            let before = limiter.at(at(ns)).available();
            assert_eq!(
                limiter.at(at(ns)).take_up_to(u64::MAX),
                before,
                "{text} at {ns}"
            );
            assert!(limiter.at(at(ns)).try_acquire().is_err(), "{text} at {ns}");
            assert_eq!(limiter.at(at(ns)).available(), 0);
        }
        assert_eq!(limiter.at(at(u64::MAX)).refund(u64::MAX), limit);
    }
}

#[test]
fn c5_what_was_counted_in_an_earlier_window_does_not_come_back() {
    let limiter = builder("5/s").build().unwrap();
    limiter.at(at(0)).try_acquire_n(5).unwrap();
    assert_eq!(limiter.at(at(S)).refund(5), 0);
    limiter.at(at(S)).try_acquire_n(2).unwrap();
    assert_eq!(limiter.at(at(S + 1)).refund(5), 2);
    assert_eq!(limiter.at(at(S + 1)).available(), 5);
    // An operation that was given back has not opened a window.
    limiter.at(at(S + 9)).try_acquire_n(5).unwrap();
    assert!(limiter.at(at(2 * S + 8)).try_acquire().is_err());
}

#[test]
fn what_a_window_cannot_have_is_refused() {
    let error = |text: &str| builder(text).build().unwrap_err().to_string();
    assert_eq!(
        error("100/s burst 20"),
        "invalid quota: a window has no burst, and one of 20 was set; its whole count can be taken in one burst",
    );
    assert_eq!(
        error("281474976710656/281474976710656ns"),
        "the limit of a fixed window of 281474976710656 is out of range: 1 to 281474976710655",
    );
    assert!("0/s".parse::<Quota>().is_err() && "5/0s".parse::<Quota>().is_err());

    let limiter = builder("100/s").build().unwrap();
    assert!(limiter.set_quota("100/s burst 1".parse().unwrap()).is_err());
    assert_eq!(limiter.quota().to_string(), "100/s");
}

#[test]
fn units_are_counted_where_a_token_is_divided() {
    let limiter = builder("2/s units 1000").build().unwrap();
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire_n(1).is_ok());
    assert_eq!(limiter.available(), 999);
    assert!(limiter.try_acquire().is_err());
}

#[test]
fn c1_a_higher_limit_adds_to_the_open_window_and_a_lower_one_takes_from_it() {
    let limiter = builder("5/s").build().unwrap();
    let set = |ns, text: &str| limiter.at(at(ns)).set_quota(text.parse().unwrap()).unwrap();
    limiter.at(at(0)).try_acquire_n(4).unwrap();
    set(1, "2/s");
    assert_eq!(limiter.at(at(1)).available(), 0);
    set(2, "6/s"); // what was counted has not been forgotten
    assert_eq!(limiter.at(at(2)).available(), 2);
    assert_eq!(limiter.at(at(S)).available(), 6);
    limiter.at(at(S)).try_acquire_n(6).unwrap();
    set(S + 1, "1000000/2s");
    assert_eq!(limiter.at(at(S + 1)).available(), 1_000_000 - 6);
    assert_eq!(limiter.at(at(3 * S - 1)).available(), 1_000_000 - 6);
    set(3 * S - 1, "7/100ns");
    assert_eq!(limiter.at(at(3 * S - 1)).available(), 7);
}

#[test]
fn aligned_windows_follow_each_other() {
    let limiter = builder("2/min").align(at(7 * S)).build().unwrap();
    for (second, admitted) in [
        (0, 2),
        (6, 0),
        (7, 2),
        (66, 0),
        (67, 2),
        (67, 0),
        (200, 2),
        (246, 0),
        (247, 2),
    ] {
        assert_eq!(
            limiter.at(at(second * S)).take_up_to(9),
            admitted,
            "at {second} s"
        );
    }
    let wait = limiter
        .at(at(250 * S))
        .try_acquire()
        .unwrap_err()
        .retry_after();
    assert_eq!(wait, Some(Duration::from_secs(57)));
}

#[test]
fn c1_a_step_of_the_wall_clock_does_not_open_a_window_twice() {
    let time = ManualClock::new();
    let limiter = FixedWindow::builder("3/h".parse().unwrap())
        .clock(&time)
        .align(at(0))
        .build()
        .unwrap();
    let hour = Duration::from_secs(3600);
    time.advance(2 * hour);
    assert_eq!(limiter.take_up_to(9), 3); // in [2 h, 3 h)
    // Ten minutes later the wall clock is set back by half an hour: full hours are now at 30 past.
    time.advance(hour / 6);
    limiter.align(at(1800 * S));
    for minutes in [20, 40, 60, 80] {
        time.set(at((2 * 3600 + minutes * 60) * S));
        assert_eq!(
            limiter.available(),
            0,
            "{minutes} min after the window was opened"
        );
    }
    time.set(at((3 * 3600 + 1800) * S));
    assert_eq!(limiter.available(), 3);
    // A step forward is the same: the window is not cut short.
    assert_eq!(limiter.take_up_to(9), 3);
    limiter.align(at(1801 * S));
    time.advance(Duration::from_secs(2));
    assert_eq!(limiter.available(), 0);
}

#[test]
fn a_change_of_period_keeps_aligned_windows_aligned() {
    let limiter = builder("10/h").align(at(0)).build().unwrap();
    limiter.at(at(3600 * S)).try_acquire_n(4).unwrap();
    limiter
        .at(at(3700 * S))
        .set_quota("100/day".parse().unwrap())
        .unwrap();
    assert_eq!(limiter.at(at(3700 * S)).available(), 96);
    assert_eq!(limiter.at(at(86_400 * S - 1)).available(), 96);
    assert_eq!(limiter.at(at(86_400 * S)).available(), 100);
}

#[test]
fn windows_by_the_wall_clock_end_with_its_days() {
    let limiter = FixedWindow::builder("5/day".parse().unwrap())
        .align_to_wall(3600)
        .build()
        .unwrap();
    limiter.try_acquire().unwrap();
    let left = limiter.snapshot().reset_after;
    let utc = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let local_s = (utc.as_secs() + 3600) % 86_400;
    let sum = local_s + left.as_secs();
    assert!(
        (86_398..=86_402).contains(&sum),
        "{left:?} after {local_s} s of the day"
    );
    limiter.align_to_wall(3600);
    assert_eq!(limiter.available(), 4);
}

#[test]
fn c1_without_a_clock_each_window_still_has_its_limit() {
    let time = ManualClock::new();
    let limiter = FixedWindow::builder("5/s".parse().unwrap())
        .clock(&time)
        .clock_free()
        .build()
        .unwrap();
    limiter.try_acquire_n(2).unwrap(); // opens a window at 0
    time.advance(Duration::from_secs(10));
    // What is left of it goes first, then a window opens now, and lasts.
    assert_eq!(
        (0..20).filter(|_| limiter.try_acquire().is_ok()).count(),
        3 + 5
    );
    time.advance(Duration::from_nanos(S - 1));
    let wait = limiter.try_acquire().unwrap_err().retry_after();
    assert_eq!(wait, Some(Duration::from_nanos(1)));
    time.advance(Duration::from_nanos(1));
    assert_eq!((0..20).filter(|_| limiter.try_acquire().is_ok()).count(), 5);
}

#[test]
fn without_a_clock_a_128_bit_window_works_too() {
    let limiter = FixedWindow::builder("1000000/day".parse().unwrap())
        .clock(ManualClock::new())
        .clock_free()
        .build()
        .unwrap();
    assert!((0..1_000_000).all(|_| limiter.try_acquire().is_ok()));
    assert!(limiter.try_acquire().is_err());
}

#[test]
fn any_limiter_may_be_one() {
    let limiter: Arc<dyn Limiter> = Arc::new(builder("2/s").build().unwrap());
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire_n_at(at(9), 2).is_err());
    assert!(limiter.try_reserve_n(1).is_none());
    assert_eq!(limiter.snapshot().remaining, 1);
}

/// The window as its definition says: where it began, and what was counted.
struct Model {
    limit: u64,
    window_ns: u128,
    grid_ns: Option<u128>,
    open: Option<(u128, u64)>,
}

impl Model {
    /// The window that an operation at `now` is counted in, and what has been counted there.
    fn window(&self, now: u128) -> (u128, u64) {
        let into = self.grid_ns.map_or(0, |grid| (now - grid) % self.window_ns);
        match self.open {
            Some((began, used)) if used > 0 && now < began + self.window_ns => (began, used),
            Some((began, _)) => (began.max(now - into), 0),
            None => (now - into, 0),
        }
    }
}

#[test]
fn c1_c2_c3_c4_agrees_with_a_list_of_windows() {
    let operations: u64 = number("FLOWGATE_OPS", 200_000);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut done = 0;
    while done < operations {
        let limit = 1 + rng.u64(..) % [3, 20, 1 << 20, (1 << 48) - 1][rng.usize(..4)];
        let window_ns = 1 + rng.u64(..) % [5, 1000, 1 << 30, 1 << 50][rng.usize(..4)];
        let Ok(quota) = Quota::new(limit, Duration::from_nanos(window_ns)) else {
            continue;
        };
        let grid = rng.bool().then(|| rng.u64(..window_ns));
        let mut builder = FixedWindow::builder(quota).clock(ManualClock::new());
        if let Some(grid) = grid {
            builder = builder.align(at(grid));
        }
        let limiter = builder.build().unwrap();
        let mut model = Model {
            limit,
            window_ns: window_ns.into(),
            grid_ns: grid.map(u128::from),
            open: None,
        };
        let mut now = window_ns.saturating_add(rng.u64(..) >> rng.u32(1..64));
        let mut admitted = BTreeMap::<u128, u64>::new();
        for _ in 0..100 {
            now = match rng.u32(..12) {
                0 => now
                    .saturating_sub(rng.u64(..) % window_ns.saturating_mul(2))
                    .max(window_ns),
                1 => now.saturating_add(rng.u64(..) >> rng.u32(1..64)),
                2 if done % 97 == 0 => u64::MAX,
                3..6 => now,
                _ => now.saturating_add(rng.u64(..) % (window_ns / 2 + 1)),
            };
            let n = match rng.u32(..4) {
                0 => 1,
                1 => limit,
                _ => 1 + rng.u64(..) % limit,
            };
            let limiter = limiter.at(at(now));
            let window = model.window_ns;
            let (began, used) = model.window(now.into());
            match rng.u32(..8) {
                0 => {
                    let back = n.min(used);
                    assert_eq!(limiter.refund(n), back);
                    if back > 0 {
                        model.open = Some((began, used - back));
                        *admitted.entry(began).or_default() -= back;
                    }
                }
                1 => assert_eq!(limiter.available(), limit - used),
                _ => {
                    let fits = n <= limit - used;
                    match limiter.try_acquire_n(n) {
                        Ok(()) => {
                            assert!(fits, "{quota} grid {grid:?}: {n} at {now}");
                            model.open = Some((began, used + n));
                            *admitted.entry(began).or_default() += n;
                        }
                        Err(denied) => {
                            assert!(
                                !fits,
                                "{quota} grid {grid:?}: {n} refused at {now}, {used} used"
                            );
                            let wait = denied.retry_after().expect("a time").as_nanos();
                            assert_eq!(
                                wait,
                                began + window - u128::from(now),
                                "{quota} grid {grid:?} at {now}"
                            );
                        }
                    }
                }
            }
            done += 1;
        }
        assert!(admitted.values().all(|&used| used <= model.limit));
    }
}

#[test]
fn c1_threads_that_race_at_the_end_of_a_window_open_one() {
    use std::sync::atomic::{AtomicU64, Ordering};
    for clock_free in [false, true] {
        for limit in [10_u64, 1 << 40] {
            let n = limit / 10;
            let time = ManualClock::new();
            let quota = Quota::new(limit, Duration::from_nanos(1024)).unwrap();
            let builder = FixedWindow::builder(quota).clock(&time);
            let limiter = if clock_free {
                builder.clock_free()
            } else {
                builder
            }
            .build()
            .unwrap();
            let admitted = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            admitted.fetch_add(
                                limiter.try_acquire_n(n).is_ok().into(),
                                Ordering::Relaxed,
                            );
                            time.advance(Duration::from_nanos(7));
                        }
                    });
                }
            });
            let windows = 3 * 20_000 * 7 / 1024 + 1;
            let admitted = admitted.load(Ordering::Relaxed);
            // Each window sees some 140 attempts, so that none is left half empty but the last.
            assert!(
                admitted <= windows * 10,
                "{admitted} in {windows} windows of 10"
            );
            assert!(
                admitted > windows * 9,
                "{admitted} in {windows} windows of 10"
            );
        }
    }
}

#[test]
fn c2_aligning_again_and_again_does_not_push_the_window_on() {
    let limiter = FixedWindow::builder("5/s".parse().unwrap())
        .align_to_wall(0)
        .build()
        .unwrap();
    limiter.try_acquire().unwrap();
    for _ in 0..1000 {
        limiter.align_to_wall(0);
    }
    let left = limiter.snapshot().reset_after;
    assert!(left <= Duration::from_millis(1100), "{left:?}");

    let limiter = builder("2/1000ns").align(at(0)).build().unwrap();
    limiter.at(at(100)).try_acquire_n(2).unwrap();
    for _ in 0..10 {
        limiter.align(at(500));
        limiter.align(at(501));
    }
    assert!(limiter.at(at(1499)).try_acquire().is_err());
    assert!(limiter.at(at(1501)).try_acquire().is_ok());

    // However it got there, it began at 0, and has to last until 1000.
    let limiter = builder("2/1000ns").align(at(0)).build().unwrap();
    limiter.at(at(100)).try_acquire_n(2).unwrap();
    limiter.align(at(500));
    limiter.align(at(400));
    assert!(limiter.at(at(1399)).try_acquire().is_err());
    assert!(limiter.at(at(1400)).try_acquire().is_ok());

    // A thousandth less is as good.
    let limiter = builder("2/1000ns").align(at(500)).build().unwrap();
    limiter.at(at(600)).try_acquire_n(2).unwrap();
    limiter.align(at(499));
    assert!(limiter.at(at(1498)).try_acquire().is_err());
    assert!(limiter.at(at(1499)).try_acquire().is_ok());

    // The same quota once more changes nothing, not even of a window that began before the clock.
    let limiter = builder("2/1000ns").align(at(500)).build().unwrap();
    limiter.at(at(0)).try_acquire().unwrap();
    limiter
        .at(at(0))
        .set_quota("2/1000ns".parse().unwrap())
        .unwrap();
    assert_eq!(
        limiter.at(at(0)).snapshot().reset_after,
        Duration::from_nanos(500)
    );
}

#[test]
fn c1_c4_a_change_does_not_open_earlier_windows_again() {
    for aligned in [false, true] {
        let builder = builder("2/10ns");
        let limiter = if aligned {
            builder.align(at(0))
        } else {
            builder
        }
        .build()
        .unwrap();
        limiter.at(at(100)).try_acquire_n(2).unwrap();
        limiter
            .at(at(110))
            .set_quota("2/10ns".parse().unwrap())
            .unwrap();
        // Counted in the window of 100, which is full, as if the quota had not been changed.
        let denied = limiter.at(at(105)).try_acquire().unwrap_err();
        assert_eq!(denied.retry_after(), Some(Duration::from_nanos(5)));
        limiter.at(at(111)).try_acquire_n(2).unwrap();
        // Counted in the window of 110, of which there is one.
        assert!(
            limiter.at(at(105)).try_acquire().is_err(),
            "aligned: {aligned}"
        );
    }
}

#[test]
fn c1_a_moved_grid_does_not_open_a_window_that_is_just_over_once_more() {
    let time = ManualClock::new();
    let limiter = FixedWindow::builder("2/1000ns".parse().unwrap())
        .clock(&time)
        .align(at(0))
        .build()
        .unwrap();
    time.set(at(990));
    limiter.try_acquire_n(2).unwrap();
    time.set(at(1005));
    limiter.align(at(10)); // now in [10, 1010), in which there have been 2
    assert!(limiter.try_acquire().is_err());
    time.set(at(1010));
    assert!(limiter.try_acquire_n(2).is_ok());
}

#[test]
fn c1_other_units_do_not_make_less_of_what_was_counted() {
    let limiter = builder("2/h").build().unwrap();
    limiter.try_acquire_n(2).unwrap();
    limiter
        .set_quota("2/h units 1000".parse().unwrap())
        .unwrap();
    assert_eq!(limiter.available(), 0);
    limiter
        .set_quota("3/h units 1000".parse().unwrap())
        .unwrap();
    assert_eq!(limiter.available(), 1000);
    limiter.try_acquire_n(1).unwrap();
    limiter.set_quota("4/h".parse().unwrap()).unwrap();
    assert_eq!(limiter.available(), 1);
}

#[test]
fn c1_c4_a_change_by_a_clock_that_runs_backward_adds_no_credit() {
    for other in ["5/us", "5/2us", "5/500ns"] {
        let time = ManualClock::new();
        time.set(at(100_000));
        let limiter = FixedWindow::builder("5/us".parse().unwrap())
            .clock(&time)
            .build()
            .unwrap();
        time.set(at(0));
        limiter.try_acquire_n(5).unwrap();
        limiter.set_quota(other.parse().unwrap()).unwrap();
        assert_eq!(limiter.available(), 0, "{other}");
    }
}
