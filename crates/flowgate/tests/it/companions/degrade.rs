//! When the level moves and when it does not, on a clock that is moved by hand, and against the definition.

use flowgate::{Degrade, DegradeBuilder, DegradeCall, ManualClock, SlowCalls, Timestamp};
use std::sync::Barrier;
use std::time::Duration;

const SLOW: Duration = Duration::from_millis(250);
const BUCKET: Duration = Duration::from_millis(100);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Buckets of 100 ms, of which 10 are the window and 3 the threshold.
fn builder(time: &ManualClock) -> DegradeBuilder {
    Degrade::builder(SLOW)
        .window(Duration::from_secs(1))
        .buckets(10)
        .min_calls(10)
        .enter_permille(500)
        .exit_permille(200)
        .dwell(Duration::ZERO)
        .recovery(Duration::ZERO)
        .clock(time)
}

/// A clock that has been running for a minute.
fn running_clock() -> ManualClock {
    let time = ManualClock::new();
    time.advance(Duration::from_secs(60));
    time
}

/// `slow` calls that fail, and `fast` that end well, now.
fn calls(degrade: &Degrade, slow: u32, fast: u32) {
    (0..slow).for_each(|_| degrade.start().fail());
    (0..fast).for_each(|_| degrade.start().finish());
}

fn seen(degrade: &Degrade) -> (u64, u64) {
    let SlowCalls { calls, slow, .. } = degrade.slow_calls();
    (slow, calls)
}

#[test]
fn entering_and_leaving_have_thresholds_of_their_own() {
    // Slow and fast calls now, the level before, the level after.
    let table = [
        (4, 6, 0, 0),
        (5, 5, 0, 1), // at least half
        (5, 6, 0, 0),
        (10, 0, 0, 1),
        (499, 501, 0, 0),
        (500, 500, 0, 1),
        (0, 10, 1, 0),
        (2, 8, 1, 0), // at most a fifth
        (3, 7, 1, 1),
        (4, 6, 1, 1),
        (201, 799, 1, 1),
        (200, 800, 1, 0),
        (5, 5, 1, 2),
        (0, 10, 0, 0),
        (10, 0, 2, 2), // there is no higher one
    ];
    for (slow, fast, before, after) in table {
        let time = running_clock();
        let degrade = builder(&time).levels(2).build().expect("settings");
        for level in 1..=before {
            calls(&degrade, 10, 0);
            time.advance(4 * BUCKET);
            assert_eq!(degrade.level(), level);
        }
        calls(&degrade, slow, fast);
        time.advance(4 * BUCKET);
        assert_eq!(
            degrade.level(),
            after,
            "{slow} slow and {fast} fast ones at level {before}"
        );
    }
}

#[test]
fn few_calls_are_no_reason_to_step_up() {
    let time = running_clock();
    let degrade = builder(&time).build().expect("settings");
    calls(&degrade, 9, 0);
    for _ in 0..30 {
        time.advance(BUCKET);
        assert_eq!(degrade.level(), 0);
    }
    // Nine again, and one more: the earlier nine have left the window.
    calls(&degrade, 9, 0);
    time.advance(4 * BUCKET);
    assert_eq!((degrade.level(), seen(&degrade)), (0, (9, 9)));
    calls(&degrade, 1, 0);
    time.advance(4 * BUCKET);
    assert_eq!((degrade.level(), seen(&degrade)), (1, (10, 10)));
}

#[test]
fn a_hang_is_seen_before_it_ends_and_not_before_it_is_one() {
    for offset in [0, 1, 49_999_999, 50_000_000, 50_000_001, 99_999_999] {
        let time = running_clock();
        time.advance(ns(offset));
        let degrade = builder(&time).build().expect("settings");
        let hanging: Vec<_> = (0..10).map(|_| degrade.start()).collect();
        let start = time.now();
        let mut seen_at = None;
        while seen_at.is_none() && time.now() < start + ms(1000) {
            time.advance(ns(12_500_000));
            seen_at = (degrade.level() == 1).then(|| time.now());
        }
        let after = seen_at
            .expect("it is seen")
            .saturating_duration_since(start);
        assert!(after > SLOW, "seen after {after:?}: nothing was slow yet");
        assert!(after <= SLOW + 2 * BUCKET, "seen after {after:?}");
        assert_eq!(seen(&degrade), (10, 10));
        // That they end at last makes none of them fast.
        drop(hanging);
        assert_eq!(seen(&degrade), (10, 10));
    }
}

/// A window that tumbles sees half of the burst in each of two windows, and in neither of them enough.
#[test]
fn a_burst_that_falls_on_an_edge_is_seen() {
    for start_ms in (0..1000).step_by(50) {
        let time = running_clock();
        time.advance(ms(start_ms));
        let degrade = builder(&time)
            .min_calls(20)
            .enter_permille(1000)
            .build()
            .expect("settings");
        calls(&degrade, 10, 0);
        time.advance(ms(99));
        calls(&degrade, 10, 0);
        let mut highest = 0;
        for _ in 0..10 {
            time.advance(BUCKET);
            highest = highest.max(degrade.level());
        }
        assert_eq!(highest, 1, "a burst at {start_ms} ms was missed");
    }
}

/// Beside calls that hang, others of the same moment end at once; what is known first must not decide.
#[test]
fn quick_calls_of_the_last_moments_do_not_hide_slow_ones_beside_them() {
    let time = running_clock();
    let degrade = builder(&time).levels(9).build().expect("settings");
    let mut hanging = Vec::new();
    let mut levels = Vec::new();
    for _ in 0..40 {
        // Six of ten hang.
        hanging.extend((0..6).map(|_| degrade.start()));
        calls(&degrade, 0, 4);
        time.advance(BUCKET);
        levels.push(degrade.level());
        let SlowCalls { calls, slow, .. } = degrade.slow_calls();
        assert_eq!(slow * 10, calls * 6);
    }
    assert!(levels.is_sorted(), "{levels:?}");
    assert_eq!(levels.last(), Some(&9));
}

#[test]
fn steps_up_are_a_dwell_apart_and_each_by_calls_after_the_last() {
    // The dwell, and how many buckets apart the steps are: for a call to be known takes four.
    for (dwell, apart) in [(ms(0), 4), (ms(400), 4), (ms(401), 5), (ms(900), 9)] {
        let time = running_clock();
        let degrade = builder(&time)
            .levels(5)
            .dwell(dwell)
            .recovery(dwell)
            .build()
            .expect("settings");
        let mut changes = Vec::new();
        for bucket in 0..60_u64 {
            let before = degrade.level();
            calls(&degrade, 10, 0);
            time.advance(BUCKET);
            if degrade.level() != before {
                assert_eq!(degrade.level(), before + 1, "never more than a step");
                changes.push(bucket);
            }
        }
        assert_eq!(changes.len(), 5, "{dwell:?}");
        for pair in changes.windows(2) {
            assert_eq!(pair[1] - pair[0], apart, "{dwell:?}: {changes:?}");
        }
    }
}

#[test]
fn recovery_is_a_ramp_and_no_single_call_decides_it() {
    let time = running_clock();
    let degrade = builder(&time)
        .levels(3)
        .recovery(ms(700))
        .build()
        .expect("settings");
    while degrade.level() < 3 {
        calls(&degrade, 10, 0);
        time.advance(BUCKET);
    }
    // One fast call after the other, but fewer than it takes to judge: the level stays until a window has passed.
    for _ in 0..9 {
        assert_eq!(degrade.level(), 3);
        calls(&degrade, 0, 1);
        time.advance(BUCKET);
    }
    let mut changes = Vec::new();
    for bucket in 0..40_u64 {
        let before = degrade.level();
        calls(&degrade, 0, 10);
        time.advance(BUCKET);
        if degrade.level() != before {
            assert_eq!(degrade.level(), before - 1, "never more than a step");
            changes.push(bucket);
        }
    }
    assert_eq!(changes.len(), 3);
    for pair in changes.windows(2) {
        assert_eq!(pair[1] - pair[0], 7, "{changes:?}");
    }
}

#[test]
fn a_relapse_during_recovery_steps_up_again() {
    let time = running_clock();
    let degrade = builder(&time).levels(3).build().expect("settings");
    for (slow, fast, level) in [(10, 0, 1), (10, 0, 2), (0, 10, 1), (9, 1, 2), (0, 10, 1)] {
        calls(&degrade, slow, fast);
        time.advance(4 * BUCKET);
        assert_eq!(degrade.level(), level);
    }
}

#[test]
fn without_calls_the_level_goes_down_a_step_per_window() {
    // Looked at in each bucket, or only at the end. 13 buckets are the threshold and the window.
    for (is_watched, recovery, buckets) in [
        (true, ms(0), 13),
        (false, ms(0), 13),
        (true, ms(2000), 20),
        (false, ms(2000), 20),
    ] {
        let time = running_clock();
        let degrade = builder(&time)
            .levels(3)
            .recovery(recovery)
            .build()
            .expect("settings");
        for _ in 0..3 {
            calls(&degrade, 10, 0);
            time.advance(4 * BUCKET);
        }
        assert_eq!(degrade.level(), 3);
        for level in [3, 2, 1, 0, 0] {
            if is_watched || level == 1 {
                assert_eq!(degrade.level(), level);
            }
            for _ in 0..buckets {
                time.advance(BUCKET);
                if is_watched {
                    degrade.level();
                }
            }
        }
        assert_eq!(degrade.level(), 0);
    }
}

#[test]
fn outcomes_count_as_they_say() {
    let time = running_clock();
    let degrade = builder(&time).build().expect("settings");
    let exactly = degrade.start();
    let longer = degrade.start();
    let ignored = degrade.start();
    degrade.start().ignore();
    degrade.start().fail();
    drop(degrade.start());
    degrade.start().finish();
    assert_eq!(
        seen(&degrade),
        (0, 0),
        "nothing is known before the threshold"
    );
    time.advance(SLOW);
    exactly.finish();
    time.advance(ns(1));
    longer.finish();
    time.advance(2 * BUCKET);
    assert_eq!(seen(&degrade), (3, 6), "failed, longer, and still running");
    ignored.ignore();
    assert_eq!(seen(&degrade), (2, 5));
    time.advance(ms(900));
    assert_eq!(seen(&degrade), (2, 5));
    time.advance(BUCKET);
    assert_eq!(seen(&degrade), (0, 0), "the window has slid past them");
}

#[test]
fn forgotten_calls_count_for_one_window() {
    let time = running_clock();
    let degrade = builder(&time).build().expect("settings");
    let bytes = degrade.bytes();
    for _ in 0..1000 {
        std::mem::forget(degrade.start());
    }
    time.advance(4 * BUCKET);
    assert_eq!((degrade.level(), seen(&degrade)), (1, (1000, 1000)));
    time.advance(13 * BUCKET);
    assert_eq!((degrade.level(), seen(&degrade)), (0, (0, 0)));
    // And they have no part in what comes later.
    calls(&degrade, 0, 10);
    time.advance(4 * BUCKET);
    assert_eq!((degrade.level(), seen(&degrade)), (0, (0, 10)));
    assert_eq!(degrade.bytes(), bytes);
}

#[test]
fn a_call_that_ends_after_its_place_was_given_away_changes_nothing() {
    let time = running_clock();
    let degrade = builder(&time).build().expect("settings");
    let (late, ignored) = (degrade.start(), degrade.start());
    let start = time.now();
    time.advance(16 * BUCKET); // as many as there are places
    let _now: Vec<_> = (0..10).map(|_| degrade.start()).collect();
    late.finish_at(start); // by a clock that has been set back, so that it looks fast
    ignored.ignore();
    time.advance(4 * BUCKET);
    assert_eq!((degrade.level(), seen(&degrade)), (1, (10, 10)));
}

#[test]
fn c4_a_clock_that_runs_backward_moves_nothing() {
    let time = running_clock();
    let degrade = builder(&time).levels(3).build().expect("settings");
    calls(&degrade, 10, 0);
    time.advance(4 * BUCKET);
    assert_eq!(degrade.level(), 1);
    let latest = time.now();

    // Further calls are counted as of the latest time, and the level stays until the clock is back there.
    for back_s in [1, 30, 60] {
        time.set(Timestamp::from_nanos(
            latest.as_nanos() - back_s * 1_000_000_000,
        ));
        calls(&degrade, 4, 0);
        assert_eq!(degrade.level(), 1);
    }
    time.set(Timestamp::from_nanos(latest.as_nanos() - 1));
    assert_eq!(degrade.level(), 1);
    time.set(latest + 4 * BUCKET);
    assert_eq!(degrade.level(), 2);

    // A call that ends before it began took no time.
    let call = degrade.start();
    time.set(latest);
    call.finish();
    time.set(latest + 8 * BUCKET);
    let SlowCalls { calls, slow, .. } = degrade.slow_calls();
    assert_eq!(
        (slow, calls),
        (22, 23),
        "ten at first, twelve behind the time, and this one, which is fast"
    );
}

#[test]
fn c4_the_ends_of_time_are_no_trouble() {
    let nanos = [0, 1, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
    for window in [ms(1), Duration::from_secs(10), Duration::MAX] {
        for slow in [ns(1), ms(1)] {
            let degrade = Degrade::builder(slow)
                .window(window)
                .min_calls(1)
                .levels(100)
                .dwell(Duration::MAX)
                .recovery(Duration::MAX)
                .build()
                .expect("settings");
            for start in nanos {
                for end in nanos {
                    let call = degrade.at(Timestamp::from_nanos(start)).start();
                    assert!(degrade.at(Timestamp::from_nanos(end)).level() <= 1);
                    call.finish_at(Timestamp::from_nanos(end));
                    degrade.at(Timestamp::from_nanos(end)).slow_calls();
                }
            }
        }
    }
    // From the highest level, and a jump over all of time.
    let degrade = Degrade::builder(ns(1))
        .window(ms(1))
        .min_calls(1)
        .levels(100)
        .dwell(Duration::ZERO)
        .build()
        .expect("settings");
    let mut now = Timestamp::ORIGIN + Duration::from_secs(1);
    while degrade.at(now).level() < 100 {
        degrade.at(now).start().fail();
        now = now + degrade.bucket();
    }
    assert_eq!(degrade.at(Timestamp::MAX).level(), 0);
}

#[test]
fn priorities_are_left_out_from_the_least_important_on() {
    let time = running_clock();
    let degrade = builder(&time).levels(2).build().expect("settings");
    for level in 0..=2 {
        assert_eq!((degrade.level(), degrade.levels()), (level, 2));
        let allowed = [0, 1, 2, 3, u32::MAX].map(|priority| degrade.allows(priority));
        assert_eq!(allowed, [level == 0, level <= 1, true, true, true]);
        calls(&degrade, 10, 0);
        time.advance(4 * BUCKET);
    }
}

#[test]
fn the_share_that_is_admitted_is_exact_at_each_level() {
    for levels in [1_u32, 2, 3, 4, 7, 10, 100] {
        let time = running_clock();
        let degrade = builder(&time).levels(levels).build().expect("settings");
        for level in 0..=levels {
            assert_eq!(degrade.level(), level);
            let share = levels - level;
            assert_eq!(degrade.share_permille(), share * 1000 / levels);
            // In every span of calls: the share, rounded down or up.
            let admitted: Vec<u32> = (0..250).map(|_| u32::from(degrade.admit())).collect();
            for from in 0..admitted.len() {
                let mut sum = 0;
                for (count, one) in (1_u32..).zip(&admitted[from..]) {
                    sum += one;
                    let least = count * share / levels;
                    let most = (count * share).div_ceil(levels);
                    assert!(
                        (least..=most).contains(&sum),
                        "{sum} of {count} from {from} at level {level} of {levels}"
                    );
                }
            }
            calls(&degrade, 10, 0);
            time.advance(4 * BUCKET);
        }
    }
}

#[test]
fn settings_out_of_range_name_value_and_range() {
    let slow = Degrade::builder;
    let table = [
        (
            slow(SLOW).levels(0),
            "a number of levels of 0 is out of range: 1 to 100",
        ),
        (
            slow(SLOW).levels(101),
            "a number of levels of 101 is out of range: 1 to 100",
        ),
        (
            slow(SLOW).window(ns(999_999)),
            "a window in nanoseconds of 999999 is out of range: 1000000 to 18446744073709551615",
        ),
        (
            slow(SLOW).buckets(0),
            "a number of buckets of 0 is out of range: 1 to 128",
        ),
        (
            slow(SLOW).buckets(129),
            "a number of buckets of 129 is out of range: 1 to 128",
        ),
        (
            slow(Duration::ZERO),
            "a slow threshold in nanoseconds of 0 is out of range: 1 to 194600000000",
        ),
        (
            slow(ns(194_600_000_001)),
            "a slow threshold in nanoseconds of 194600000001 is out of range: 1 to 194600000000",
        ),
        (
            slow(SLOW).min_calls(0),
            "a minimum of calls of 0 is out of range: 1 to 1000000000",
        ),
        (
            slow(SLOW).enter_permille(0),
            "an enter threshold in per mille of 0 is out of range: 1 to 1000",
        ),
        (
            slow(SLOW).enter_permille(1001),
            "an enter threshold in per mille of 1001 is out of range: 1 to 1000",
        ),
        (
            slow(SLOW).exit_permille(500),
            "an exit threshold in per mille of 500 is out of range: 0 to 499",
        ),
    ];
    for (builder, expected) in table {
        assert_eq!(builder.build().unwrap_err().to_string(), expected);
    }
    for builder in [
        slow(ns(194_600_000_000)),
        slow(ns(1)).window(ms(1)).buckets(128),
        slow(ns(1)).window(Duration::MAX).buckets(1),
        slow(SLOW).enter_permille(1),
        slow(SLOW).enter_permille(1000).exit_permille(999),
    ] {
        assert!(builder.build().is_ok());
    }
}

#[test]
fn threads_lose_no_call() {
    const THREADS: u64 = 4;
    const CALLS: u64 = 20_000;
    let time = running_clock();
    let degrade = builder(&time).build().expect("settings");
    let start = Barrier::new(THREADS as usize + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for call in 0..CALLS {
                    let begun = degrade.start();
                    match call % 4 {
                        0 => begun.fail(),
                        1 => begun.ignore(),
                        2 => begun.finish(),
                        _ => drop(begun),
                    }
                }
            });
        }
        start.wait();
        // Meanwhile the clock goes over a few buckets, and back, but not so far that a call becomes slow.
        for step in [1, 2, 1, 0, 2] {
            time.set(Timestamp::ORIGIN + Duration::from_secs(60) + step * BUCKET);
            std::thread::yield_now();
        }
    });
    time.set(Timestamp::ORIGIN + Duration::from_secs(60) + 9 * BUCKET);
    let calls = THREADS * CALLS;
    assert_eq!(seen(&degrade), (calls / 4, calls * 3 / 4));
}

/// SplitMix64: enough to draw histories, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The definition: all that has happened, judged bucket by bucket from the origin on.
#[derive(Default)]
struct Definition {
    slow_ns: u64,
    bucket_ns: u64,
    window: u64,
    min_calls: u64,
    enter: u64,
    exit: u64,
    dwell: u64,
    recovery: u64,
    levels: u32,
    /// The bucket that it began in, and whether it was fast, in the end.
    calls: Vec<(u64, bool)>,
}

impl Definition {
    fn level_at(&self, now: u64) -> u32 {
        let (mut level, mut since) = (0, 0);
        let slow = self.slow_ns.div_ceil(self.bucket_ns);
        for at in 1..=now {
            // From `from` on, before `to`.
            let to = at.saturating_sub(slow);
            let from = to.saturating_sub(self.window);
            let known = self
                .calls
                .iter()
                .filter(|(begun, _)| (from.max(since)..to).contains(begun));
            let (mut begun, mut slow) = (0, 0);
            for (_, is_fast) in known {
                begun += 1;
                slow += u64::from(!is_fast);
            }
            let stayed = at - since;
            if stayed < self.dwell {
                continue;
            }
            let is_quiet = begun < self.min_calls;
            let is_bad = !is_quiet && slow * 1000 >= begun * self.enter;
            let is_good = match is_quiet {
                true => from >= since,
                false => slow * 1000 <= begun * self.exit,
            };
            if is_bad && level < self.levels {
                (level, since) = (level + 1, at);
            } else if is_good && level > 0 && stayed >= self.recovery {
                (level, since) = (level - 1, at);
            }
        }
        level
    }
}

#[test]
fn agrees_with_the_definition_however_often_it_is_looked_at() {
    let mut draw = Draw(1);
    let mut reached = [0_u32; 5];
    for history in 0..150 {
        let mut definition = Definition {
            slow_ns: 1 + draw.below(50_000),
            bucket_ns: 10_000,
            window: 100,
            min_calls: 1 + draw.below(6),
            enter: 1 + draw.below(1000),
            dwell: draw.below(20),
            recovery: draw.below(40),
            levels: 1 + draw.below(4) as u32,
            ..Definition::default()
        };
        definition.exit = draw.below(definition.enter);
        definition.recovery = definition.recovery.max(definition.dwell);
        let build = || {
            Degrade::builder(ns(definition.slow_ns))
                .window(ms(1))
                .buckets(definition.window)
                .min_calls(definition.min_calls)
                .enter_permille(definition.enter as u32)
                .exit_permille(definition.exit as u32)
                .dwell(ns(definition.dwell * definition.bucket_ns))
                .recovery(ns(definition.recovery * definition.bucket_ns))
                .levels(definition.levels)
                .build()
                .expect("settings")
        };
        // One that is looked at all the time, and one only when it is compared.
        let (watched, unwatched) = (build(), build());
        let mut running: Vec<([DegradeCall<'_>; 2], usize)> = Vec::new();
        // As of the latest time that there was.
        let (mut now_ns, mut latest_ns) = (draw.below(3_000_000), 0_u64);
        let mut is_bad_weather = false;
        for step in 0..150 {
            now_ns = match draw.below(60) {
                0 => {
                    // What it has not seen has not been.
                    unwatched.at(Timestamp::from_nanos(latest_ns)).level();
                    now_ns.saturating_sub(draw.below(30_000))
                }
                1 => now_ns + draw.below(3_000_000),
                2..20 => now_ns + draw.below(30_000),
                _ => now_ns + draw.below(3_000),
            };
            is_bad_weather ^= draw.below(30) == 0;
            latest_ns = latest_ns.max(now_ns);
            let now = Timestamp::from_nanos(now_ns);
            watched.at(now).level();
            match draw.below(4) {
                0 | 1 => {
                    let bucket = latest_ns / definition.bucket_ns;
                    running.push((
                        [watched.at(now).start(), unwatched.at(now).start()],
                        definition.calls.len(),
                    ));
                    definition.calls.push((bucket, false));
                }
                _ if running.is_empty() => {}
                // In bad weather few calls end.
                _ if is_bad_weather && draw.below(4) > 0 => {}
                _ => {
                    let (calls, index) =
                        running.swap_remove(draw.below(running.len() as u64) as usize);
                    let began_ns = calls[0].began().as_nanos();
                    let is_fast = now_ns.saturating_sub(began_ns) <= definition.slow_ns;
                    match draw.below(8) {
                        0 => calls.into_iter().for_each(DegradeCall::fail),
                        // One that is not yet known to be slow: it never was.
                        1 if latest_ns.saturating_sub(began_ns) <= definition.slow_ns => {
                            calls.into_iter().for_each(DegradeCall::ignore);
                            definition.calls[index].0 = u64::MAX;
                        }
                        _ => {
                            calls.into_iter().for_each(|call| call.finish_at(now));
                            definition.calls[index].1 = is_fast;
                        }
                    }
                }
            }
            if step % 25 == 24 {
                let at = latest_ns / definition.bucket_ns;
                let expected = definition.level_at(at);
                let latest = Timestamp::from_nanos(latest_ns);
                let found = [&watched, &unwatched].map(|degrade| degrade.at(latest).level());
                assert_eq!(found, [expected; 2], "history {history}, step {step}");
                reached[expected as usize] += 1;
            }
        }
        running
            .into_iter()
            .flat_map(|(calls, _)| calls)
            .for_each(DegradeCall::fail);
    }
    // The histories come by every level.
    assert!(reached.iter().all(|&times| times > 5), "{reached:?}");
}
