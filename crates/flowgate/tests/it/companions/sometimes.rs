//! Which calls speak, and that no silent one is lost.

use flowgate::{ManualClock, Sometimes, SometimesBuilder, Timestamp, sometimes};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const S: Duration = Duration::from_secs(1);

/// The numbers, from 1, of those of `calls` calls that speak.
fn speaking(sometimes: &Sometimes, calls: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    calls.filter(|_| sometimes.check().is_some()).collect()
}

/// `golang.org/x/time/rate`, `sometimes_test.go`, 2026: the calls, a pause after the third where there is one, and
/// which of them run.
#[test]
fn the_table_of_x_time_rate() {
    let builder = Sometimes::builder;
    let longest = Duration::from_nanos(i64::MAX as u64);
    type Row = (
        &'static str,
        SometimesBuilder,
        u64,
        Option<Duration>,
        &'static [u64],
    );
    let table: [Row; 9] = [
        ("zero", builder(), 10, None, &[1]),
        ("first 2", builder().first(2), 10, None, &[1, 2]),
        ("every 2", builder().every(2), 10, None, &[1, 3, 5, 7, 9]),
        ("interval", builder().interval(S), 3, None, &[1]),
        (
            "interval, paused",
            builder().interval(S),
            5,
            Some(S),
            &[1, 4],
        ),
        (
            "longest interval",
            builder().interval(longest),
            5,
            Some(S),
            &[1],
        ),
        (
            "longer still",
            builder().interval(Duration::MAX),
            5,
            Some(S),
            &[1],
        ),
        (
            "first and every",
            builder().first(3).every(2),
            9,
            None,
            &[1, 2, 3, 5, 7, 9],
        ),
        (
            "all",
            builder().first(2).every(2).interval(2 * S),
            6,
            Some(2 * S),
            &[1, 2, 3, 4, 5],
        ),
    ];
    for (name, settings, calls, pause, expected) in table {
        let time = ManualClock::new();
        let sometimes = settings.clock(&time).build();
        let mut spoke = speaking(&sometimes, 1..=3.min(calls));
        time.advance(pause.unwrap_or_default());
        spoke.extend(speaking(&sometimes, 4..=calls));
        assert_eq!(spoke, expected, "{name}");
    }
}

/// The rule as it is documented, one call at a time.
struct Model {
    first: u64,
    every: u64,
    interval_ns: u64,
    calls: u64,
    /// When it may speak again because of the time; nothing before the first.
    due_ns: Option<u128>,
    silent: u64,
}

impl Model {
    fn check(&mut self, now_ns: u64) -> Option<u64> {
        let number = self.calls;
        self.calls += 1;
        let by_number = number == 0
            || number < self.first
            || (self.every > 0 && number.is_multiple_of(self.every));
        // A time at the very end of all time never comes.
        let by_time = self.interval_ns > 0
            && self
                .due_ns
                .is_some_and(|due| u128::from(now_ns) >= due && due < u128::from(u64::MAX));
        if !by_number && !by_time {
            self.silent += 1;
            return None;
        }
        let next = u128::from(now_ns) + u128::from(self.interval_ns);
        self.due_ns = Some(self.due_ns.unwrap_or(0).max(next));
        Some(std::mem::take(&mut self.silent))
    }
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

#[test]
fn c1_c4_agrees_with_the_rule_by_any_clock() {
    let mut draw = Draw(1);
    for _ in 0..2_000 {
        let (first, every) = (draw.below(4), draw.below(4));
        let interval_ns = [0, 1, 5, 1000, u64::MAX - 1][draw.below(5) as usize];
        let sometimes = Sometimes::builder()
            .first(first)
            .every(every)
            .interval(Duration::from_nanos(interval_ns))
            .build();
        let mut model = Model {
            first,
            every,
            interval_ns,
            calls: 0,
            due_ns: None,
            silent: 0,
        };
        let mut now_ns: u64 = draw.below(3);
        for call in 0..100 {
            now_ns = match draw.below(8) {
                0 => now_ns.saturating_sub(draw.below(2_000)),
                1 => now_ns.saturating_add(draw.below(2_000)),
                2 | 3 => now_ns.saturating_add(draw.below(4)),
                4 if draw.below(50) == 0 => u64::MAX - 1,
                _ => now_ns,
            };
            let told = sometimes.at(Timestamp::from_nanos(now_ns)).check();
            let expected = model.check(now_ns);
            assert_eq!(
                told, expected,
                "call {call} at {now_ns}: first {first}, every {every}, interval {interval_ns}"
            );
            assert_eq!(sometimes.suppressed(), model.silent);
        }
    }
}

#[test]
fn c4_an_interval_that_ends_after_all_time_never_ends() {
    let sometimes = Sometimes::builder().interval(2 * S).build();
    let last = sometimes.at(Timestamp::MAX);
    assert_eq!(last.check(), Some(0));
    assert_eq!(last.check(), None);
    assert_eq!(sometimes.at(Timestamp::ORIGIN).check(), None);
}

#[test]
fn c4_a_clock_that_runs_backward_lets_nothing_speak() {
    let time = ManualClock::new();
    let sometimes = Sometimes::builder().interval(S).clock(&time).build();
    time.advance(10 * S);
    assert!(sometimes.check().is_some());
    for _ in 0..10 {
        time.set(Timestamp::from_nanos(time.now().as_nanos() - 1_000_000_000));
        assert!(sometimes.check().is_none(), "at {:?}", time.now());
    }
    time.set(Timestamp::from_nanos(11_000_000_000));
    assert_eq!(sometimes.check(), Some(10));
}

#[test]
fn run_may_call_itself_and_returns_what_was_said() {
    let sometimes = Sometimes::builder().first(2).build();
    let said = sometimes.run(|outer| (outer, sometimes.run(|inner| inner)));
    assert_eq!(said, Some((0, Some(0))));
    assert_eq!(sometimes.run(|_| ()), None);
    assert_eq!(sometimes.suppressed(), 1);
    assert_eq!(
        Sometimes::default().at(Timestamp::ORIGIN).run(|n| n),
        Some(0)
    );
}

#[test]
fn silent_calls_are_neither_lost_nor_told_twice_by_threads() {
    const THREADS: u64 = 4;
    const CALLS: u64 = 20_000;
    for settings in [
        Sometimes::builder().first(5).every(7),
        Sometimes::builder().interval(Duration::from_nanos(2_000)),
        Sometimes::builder()
            .first(5)
            .every(100)
            .interval(Duration::from_micros(5)),
    ] {
        let sometimes = settings.build();
        let (spoke, told) = (AtomicU64::new(0), AtomicU64::new(0));
        let start = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..CALLS {
                        if let Some(silent) = sometimes.check() {
                            spoke.fetch_add(1, Ordering::Relaxed);
                            told.fetch_add(silent, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let (spoke, told) = (spoke.into_inner(), told.into_inner());
        assert_eq!(spoke + told + sometimes.suppressed(), THREADS * CALLS);
        assert!(spoke > 0 && told > 0, "{spoke} spoke, {told} told");
    }
}

#[test]
fn the_macro_keeps_a_count_for_each_place() {
    let mut spoke = [0; 3];
    for _ in 0..10 {
        spoke[0] += u32::from(sometimes!(every(5)).check().is_some());
        spoke[1] += u32::from(sometimes!(first(3).every(0)).check().is_some());
        spoke[2] += u32::from(sometimes!().check().is_some());
    }
    assert_eq!(spoke, [2, 3, 1]);
}

#[test]
fn the_macro_leaves_the_names_around_it_alone() {
    const HERE: u64 = 5;
    let spoke = (0..10)
        .filter(|_| sometimes!(every(HERE)).check().is_some())
        .count();
    assert_eq!(spoke, 2);
}

#[test]
fn values_are_counted_apart_and_sharing_a_slot_shares_the_budget() {
    let by_value = Sometimes::builder()
        .first(1)
        .by_value(65_536)
        .expect("slots");
    let spoke = (0..100)
        .filter(|n: &u64| by_value.check(n).is_some())
        .count();
    assert!(
        spoke >= 98,
        "{spoke} of 100 values in 65,536 slots were heard"
    );
    assert!((0..100).all(|n: u64| by_value.check(&n).is_none()));

    let one_slot = Sometimes::builder().first(1).by_value(1).expect("a slot");
    assert_eq!(one_slot.check("a"), Some(0));
    assert_eq!(one_slot.check("b"), None);
    assert_eq!(one_slot.suppressed("c"), 1);
    assert_eq!(one_slot.run("b", |silent| silent), None);
    assert_eq!(one_slot.at(Timestamp::MAX).run("b", |silent| silent), None);
}

#[test]
fn a_number_of_slots_out_of_range_names_value_and_range() {
    for slots in [0, 65_537, usize::MAX] {
        let error = Sometimes::builder().by_value(slots).expect_err("a range");
        assert_eq!(
            error.to_string(),
            format!("a number of slots of {slots} is out of range: 1 to 65536")
        );
    }
}
