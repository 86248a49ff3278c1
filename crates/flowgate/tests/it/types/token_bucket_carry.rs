//! What a change of the quota, or of the way of refilling, carries over: tokens, debts, reservations, instants.

use flowgate::{Carry, LeakyBucket, ManualClock, Quota, Refill, Striped, Timestamp, TokenBucket};
use flowgate_testkit::promise::check_trace;
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step, Trace, write_trace};
use flowgate_testkit::subject::BucketSubject;
use flowgate_testkit::task::Task;
use proptest::prelude::*;
use std::fmt;
use std::time::Duration;

const S: u64 = 1_000_000_000;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn on(text: &str, time: &ManualClock) -> TokenBucket {
    let builder = TokenBucket::builder(quota(text)).clock(time);
    builder.build().expect("in range")
}

fn in_intervals(text: &str, time: &ManualClock, ends: Timestamp) -> TokenBucket {
    let builder = TokenBucket::builder(quota(text)).clock(time);
    let builder = builder.refill(Refill::Interval).align(ends);
    builder.build().expect("in range")
}

// Carries.

#[test]
fn c1_a_reset_pays_a_debt_before_it_adds_tokens() {
    let builder = TokenBucket::builder(quota("1/h burst 5")).max_debt(5);
    let bucket = builder.clock(ManualClock::new()).build().expect("in range");
    let mut admitted = 0;
    for _ in 0..4 {
        if bucket.overdraw(10).is_ok() {
            admitted += 10;
        }
        bucket.set_quota_with(quota("1/h burst 5"), Carry::Reset);
    }
    admitted += bucket.take_up_to(u64::MAX);
    // A burst, the largest overdraft, and a burst for each reset: 5 + 10 + 4 · 5.
    assert!(admitted <= 35, "{admitted} admitted");
}

/// Burst, taken of it (more than all is an overdraft), carry, new burst: what is there, or owed.
#[rustfmt::skip]
const CARRIED: &[(u64, u64, Carry, u64, i64)] = &[
    (10,  4, Carry::Kept,         20,   6),
    (10,  4, Carry::Kept,          5,   5),
    (10, 14, Carry::Kept,         20,  -4),
    (10,  4, Carry::Additive,     20,  16),
    (10,  0, Carry::Additive,     20,  20),
    (10, 10, Carry::Additive,     20,  10),
    (10, 14, Carry::Additive,     20,   6),
    (10, 14, Carry::Additive,     12,  -2),
    (10, 14, Carry::Additive,      5,  -4),
    (10,  4, Carry::Additive,     10,   6),
    (10,  4, Carry::Additive,      5,   5),
    (10,  8, Carry::Additive,      5,   2),
    (10,  4, Carry::Proportional, 20,  12),
    (10, 14, Carry::Proportional, 20,  -4),
    (10,  4, Carry::Reset,        20,  20),
    (10, 10, Carry::Reset,         5,   5),
    (10, 13, Carry::Reset,         5,   2),
    (10, 18, Carry::Reset,         5,  -3),
    (10, 18, Carry::Reset,        20,  12),
];

/// What `bucket` holds or owes, in tokens, at one per second.
fn balance(bucket: &TokenBucket) -> i64 {
    let owed = match bucket.try_acquire() {
        Ok(()) => return bucket.available() as i64 + 1,
        Err(denied) => denied.retry_after().expect("it is known").as_secs(),
    };
    1 - owed as i64
}

#[test]
fn c1_each_carry_moves_tokens_and_debts_as_its_table_says() {
    for &(burst, taken, carry, new_burst, left) in CARRIED {
        let bucket = on(&format!("1/s burst {burst}"), &ManualClock::new());
        bucket.overdraw(taken).expect("within the debt");
        bucket.set_quota_with(quota(&format!("1/s burst {new_burst}")), carry);
        let got = balance(&bucket);
        let case = format!("{taken} of {burst}, {carry:?} to {new_burst}");
        assert_eq!(got, left, "{case}");
    }
}

#[test]
fn c1_carried_amounts_are_tokens_at_any_rate_and_any_unit() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 10", &time);
    bucket.try_acquire_n(7).expect("10 are there");
    bucket.set_quota_with(quota("999/min burst 12 units 1000"), Carry::Additive);
    assert_eq!(bucket.available(), 5_000);
    bucket.overdraw(9_000).expect("out of debt");
    bucket.set_quota_with(quota("7/h burst 10"), Carry::Reset);
    assert_eq!(bucket.available(), 6);
}

#[test]
fn c1_leaky_bucket_and_next_caller_pays_carry_alike() {
    let time = ManualClock::new();
    let builder = LeakyBucket::builder(quota("1/s")).slack(4).max_debt(5);
    let leaky = builder.clock(&time).build().expect("in range");
    leaky.overdraw(8).expect("out of debt");
    leaky.set_quota_with(quota("1/s"), Carry::Reset); // keeps the slack
    assert_eq!(leaky.available(), 2);

    let pays_after = on("1/s burst 5", &time).pay_after();
    pays_after.try_acquire_n(10).expect("5, and a debt of 5");
    pays_after.set_quota_with(quota("1/s burst 3"), Carry::Reset);
    let denied = pays_after.try_acquire().expect_err("a debt of 2");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(2)));
    let explicit = pays_after.at(at(0));
    explicit.set_quota_with(quota("1/s burst 5"), Carry::Additive);
    assert!(pays_after.try_acquire().is_ok(), "the growth paid it");
}

#[test]
fn c1_a_reset_adds_one_burst_behind_a_reservation_that_goes_into_debt() {
    let time = ManualClock::new();
    let builder = TokenBucket::builder(quota("1/s burst 2")).max_debt(10);
    let limiter = builder.clock(&time).build().expect("in range").pay_after();
    limiter.try_acquire_n(4).expect("2, and a debt of 2");
    let told = limiter.reserve_n(5).expect("in 2 s").at();
    assert_eq!(told, at(2 * S));
    limiter.set_quota_with(quota("1/s burst 2"), Carry::Reset);
    time.set(told);
    // It leaves a debt of 5, of which the reset pays 2.
    let denied = limiter.try_acquire().expect_err("still in debt");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(3)));
}

#[test]
fn c5_what_comes_back_leaves_room_for_the_growth_of_the_burst() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 2", &time);
    bucket.try_acquire_n(2).expect("2 are there");
    let [first, second] = [2, 1].map(|n| bucket.reserve_n(n).expect("it fits"));
    assert_eq!([first.at(), second.at()], [at(2 * S), at(3 * S)]);
    bucket.set_quota_with(quota("1/s burst 4"), Carry::Additive);
    // At 3 s: the second, the growth of 2, and what comes back of the first; together at most the burst.
    assert_eq!(first.cancel(), 1);
    time.set(second.at());
    assert_eq!(bucket.take_up_to(9), 3);
}

/// Small histories of one rate, with reservations: every instant that was told counts.
#[derive(Clone, Copy, Debug)]
enum Act {
    Try(u64),
    Overdraw(u64),
    Reserve(u64),
    Cancel(usize),
    Change(u64, Carry),
}

fn act(most_burst: u64) -> impl Strategy<Value = Act> {
    let carry = prop_oneof![
        Just(Carry::Kept),
        Just(Carry::Additive),
        Just(Carry::Proportional),
        Just(Carry::Reset),
    ];
    prop_oneof![
        3 => (1..=most_burst).prop_map(Act::Try),
        2 => (1..=2 * most_burst).prop_map(Act::Overdraw),
        3 => (1..=most_burst).prop_map(Act::Reserve),
        2 => (0..4_usize).prop_map(Act::Cancel),
        2 => (1..=most_burst, carry).prop_map(|(burst, carry)| Act::Change(burst, carry)),
    ]
}

struct Shown<'a>(&'a Trace);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_trace(f, self.0)
    }
}

proptest! {
    /// Largest burst + largest overdraft + what every change may add + one per second, from the first grant to the last.
    #[test]
    fn c1_c5_changes_add_no_more_than_they_say_however_many_reservations_stand(
        burst in 1_u64..4,
        script in prop::collection::vec((0_u64..3, act(4)), 1..16),
    ) {
        let setup = Setup::new(Quota::per_second(1).burst(burst));
        let bucket = setup.token_bucket().expect("in range");
        let mut subject = BucketSubject::new(&bucket);
        let mut trace = Trace::new();
        let (mut now_ns, mut current, mut largest) = (0, burst, burst);
        let (mut gifts, mut overdrawn) = (0, 0);
        for (seconds, act) in script {
            now_ns += seconds * S;
            let op = match act {
                Act::Try(n) => Op::Try { n },
                Act::Overdraw(n) => Op::Overdraw { n },
                Act::Reserve(n) => Op::Reserve { n, within_ns: None },
                Act::Cancel(pick) => Op::Cancel { pick },
                Act::Change(burst, carry) => {
                    gifts += match carry {
                        Carry::Reset => burst,
                        Carry::Kept => 0,
                        _ => burst.saturating_sub(current),
                    };
                    current = burst;
                    largest = largest.max(burst);
                    Op::SetQuota { quota: Quota::per_second(1).burst(burst), carry }
                }
            };
            let step = Step { at_ns: now_ns, op };
            let outcome = subject.step(&step);
            if let (Op::Overdraw { n }, OperationOutcome::Admitted) = (op, outcome) {
                overdrawn = overdrawn.max(n);
            }
            trace.push((step, outcome));
        }
        let end_ns = trace.iter().map(|(step, outcome)| match outcome {
            OperationOutcome::Promised { at_ns } => *at_ns,
            _ => step.at_ns,
        });
        // Then a newcomer takes everything that comes.
        let end_ns = end_ns.max().unwrap_or(0) + S;
        for at_ns in (now_ns..=end_ns).step_by(S as usize) {
            let step = Step { at_ns, op: Op::TakeUpTo { n: u64::MAX } };
            trace.push((step, subject.step(&step)));
        }
        let mut grants = flowgate_testkit::promise::grants(&trace);
        grants.sort_by_key(|grant| grant.at_ns);
        for from in 0..grants.len() {
            let mut admitted = 0;
            for to in from..grants.len() {
                admitted += grants[to].n;
                let flowed = (grants[to].at_ns - grants[from].at_ns) / S;
                let allowed = largest + overdrawn + gifts + flowed;
                prop_assert!(
                    admitted <= allowed,
                    "{} of {} from {} ns to {} ns\n{}",
                    admitted, allowed, grants[from].at_ns, grants[to].at_ns, Shown(&trace)
                );
            }
        }
    }

    /// What was taken before and the growth are together at most the new burst.
    #[test]
    fn c1_additive_with_a_growing_burst_never_exceeds_the_largest_burst_and_the_rate(
        count in 1_u64..5,
        first in 1_u64..5,
        script in prop::collection::vec((0_u64..2 * S, 1_u64..9, 0_u64..3), 1..40),
    ) {
        let mut burst = first;
        let setup = Setup::new(Quota::per_second(count).burst(burst));
        let bucket = setup.token_bucket().expect("in range");
        let mut subject = BucketSubject::new(&bucket);
        let (mut now_ns, mut admitted) = (0_u64, 0);
        for (step_ns, n, grows) in script {
            now_ns += step_ns;
            let op = match grows {
                0 => {
                    burst += n;
                    let quota = Quota::per_second(count).burst(burst);
                    Op::SetQuota { quota, carry: Carry::Additive }
                }
                _ => Op::TakeUpTo { n },
            };
            if let OperationOutcome::Took(n) = subject.step(&Step { at_ns: now_ns, op }) {
                admitted += n;
            }
            let flowed = now_ns * count / S;
            prop_assert!(admitted <= burst + flowed, "{admitted} of {burst} + {flowed}");
        }
    }

    /// The bound of a history in which the burst shrinks too, in every interval, and under both ways of refilling.
    #[test]
    fn c1_additive_never_exceeds_the_largest_burst_the_growths_and_the_rate(
        script in prop::collection::vec((0_u64..2 * S, 0_u64..12, 1_u64..9, 1_u64..5), 1..40),
    ) {
        let setup = Setup::new(Quota::per_second(2).burst(4));
        let bucket = setup.token_bucket().expect("in range");
        let mut subject = BucketSubject::new(&bucket);
        let (mut now_ns, mut trace) = (0, Trace::new());
        for (step_ns, kind, n, count) in script {
            now_ns += step_ns;
            let op = match kind {
                0 => Op::SetRefill { refill: Refill::Interval },
                1 => Op::SetRefill { refill: Refill::Continuous },
                2..5 => Op::SetQuota {
                    quota: Quota::per_second(count).burst(n),
                    carry: Carry::Additive,
                },
                5 => Op::Overdraw { n },
                _ => Op::TakeUpTo { n },
            };
            let step = Step { at_ns: now_ns, op };
            trace.push((step, subject.step(&step)));
        }
        let checked = check_trace(&setup, &trace);
        prop_assert!(checked.is_ok(), "{:?}\n{}", checked, Shown(&trace));
    }
}

// The way of refilling, changed live.

#[test]
fn c1_c2_a_change_to_intervals_keeps_what_flowed_in_and_begins_a_period() {
    let time = ManualClock::new();
    let bucket = on("60/min burst 100", &time);
    assert_eq!(bucket.take_up_to(100), 100);
    time.advance(Duration::from_millis(10_500));
    bucket.set_refill(Refill::Interval);
    // Seconds after the change, what is there.
    for (seconds, tokens) in [(0, 10), (29, 10), (59, 10), (60, 70), (70, 70)] {
        time.set(at(10_500_000_000 + seconds * S));
        assert_eq!(bucket.available(), tokens, "after {seconds} s");
    }
    assert_eq!(bucket.take_up_to(100), 70);
    bucket.set_refill(Refill::Continuous);
    // Half a token was there as well, and is still.
    time.advance(Duration::from_millis(499));
    assert_eq!(bucket.available(), 0);
    time.advance(Duration::from_millis(1));
    assert_eq!(bucket.available(), 1);
}

#[test]
fn c1_a_change_to_continuous_adds_nothing_for_the_period_that_has_begun() {
    let time = ManualClock::new();
    let bucket = on("60/min burst 100", &time);
    bucket.set_refill(Refill::Interval);
    assert_eq!(bucket.take_up_to(100), 100);
    time.advance(Duration::from_secs(59));
    bucket.set_refill(Refill::Continuous);
    assert_eq!(bucket.available(), 0);
    time.advance(Duration::from_secs(2));
    assert_eq!(bucket.available(), 2);
}

#[test]
fn c1_there_and_back_again_mints_nothing_also_where_intervals_are_aligned() {
    for aligned in [false, true] {
        let time = ManualClock::new();
        time.set(at(30 * S));
        let bucket = match aligned {
            true => in_intervals("60/min burst 60", &time, at(0)),
            false => on("60/min burst 60", &time),
        };
        bucket.set_refill(Refill::Continuous);
        assert_eq!(bucket.take_up_to(100), 60);
        let mut admitted = 0;
        for minute in 1..=10 {
            // Continuous but for the second in which a minute ends.
            time.set(at(minute * 60 * S - S / 2));
            bucket.set_refill(Refill::Interval);
            admitted += bucket.take_up_to(100);
            time.set(at(minute * 60 * S + S / 2));
            admitted += bucket.take_up_to(100);
            bucket.set_refill(Refill::Continuous);
        }
        let elapsed_s = 10 * 60 + 1 - 30;
        assert!(admitted <= elapsed_s, "{admitted} in {elapsed_s} s");
        assert!(
            admitted >= elapsed_s - 11,
            "{admitted}: a second of each minute"
        );
    }
}

#[test]
fn c5_a_debt_and_told_times_outlive_a_change_of_refilling() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 2", &time);
    let reservations = [(); 4].map(|()| bucket.reserve().expect("one fits"));
    let told = reservations.each_ref().map(|reservation| reservation.at());
    assert_eq!(told, [0, 0, S, 2 * S].map(at));
    bucket.set_refill(Refill::Interval);
    time.set(at(2 * S));
    assert_eq!(
        bucket.available(),
        0,
        "nobody comes before the last of them"
    );
    time.advance(Duration::from_secs(1));
    assert_eq!(bucket.available(), 1);

    let bucket = on("1/s burst 2", &ManualClock::new());
    bucket.overdraw(4).expect("out of debt");
    bucket.at(at(0)).set_refill(Refill::Interval);
    assert_eq!(balance(&bucket), -2);
}

#[test]
fn c3_c6_a_change_of_refilling_retimes_those_who_wait() {
    let time = ManualClock::new();
    let bucket = on("60/min burst 1", &time);
    bucket.try_acquire().expect("1 is there");
    let mut waits = Task::start(bucket.acquire());
    bucket.set_refill(Refill::Interval);
    time.advance(Duration::from_secs(30));
    assert!(!waits.run(), "continuously, it would have been due at 1 s");
    bucket.set_refill(Refill::Continuous);
    time.advance(Duration::from_secs(1));
    assert!(waits.run());
    assert_eq!(waits.granted_ns(), Some(31 * S));
}

#[test]
fn c1_what_stripes_hold_is_carried_too() {
    let time = ManualClock::new();
    time.set(at(S));
    let hot = Striped::with_stripes(on("100000000/s burst 2560", &time), 4);
    assert!((0..30).all(|_| hot.try_acquire().is_ok()));
    hot.get_ref().set_refill(Refill::Interval);
    assert_eq!(hot.get_ref().available(), 2_530);
    assert!((0..30).all(|_| hot.try_acquire().is_ok()));
    hot.get_ref()
        .set_quota_with(quota("100000000/s burst 5120"), Carry::Additive);
    assert_eq!(hot.get_ref().available(), 5_060);
    hot.get_ref().overdraw(6_060).expect("out of debt");
    hot.get_ref()
        .set_quota_with(quota("100000000/s burst 2560"), Carry::Reset);
    assert_eq!(hot.get_ref().available(), 1_560);
}

#[test]
fn setting_the_same_way_of_refilling_changes_nothing() {
    let time = ManualClock::new();
    let bucket = on("60/min", &time);
    bucket.set_refill(Refill::Interval);
    assert_eq!(bucket.take_up_to(100), 60);
    time.advance(Duration::from_secs(40));
    bucket.set_refill(Refill::Interval);
    time.advance(Duration::from_secs(20));
    assert_eq!(bucket.available(), 60);
    time.advance(Duration::from_secs(20));
    bucket.set_quota(quota("120/min")).unwrap();
    time.advance(Duration::from_secs(40));
    assert_eq!(bucket.available(), 120, "the period is the same");
}

#[test]
fn c4_the_end_of_time_and_a_stale_time_are_harmless_to_a_change_of_refilling() {
    let bucket = on("1/s burst 2", &ManualClock::new());
    bucket.at(at(u64::MAX)).set_refill(Refill::Interval);
    assert_eq!(bucket.at(at(u64::MAX)).take_up_to(9), 2);
    bucket.at(at(5)).set_refill(Refill::Continuous);
    bucket.at(at(0)).set_refill(Refill::Interval);
    assert_eq!(bucket.at(at(0)).take_up_to(9), 0);
    assert_eq!(bucket.at(at(u64::MAX)).take_up_to(9), 0);
}

// Alignment.

#[test]
fn an_aligned_interval_ends_at_its_instants_whenever_the_limiter_was_built() {
    // Built, aligned to, the first instants after that at which a period of a minute ends, in seconds.
    let cases = [
        (50, 0, [60, 120, 180]),
        (50, 10, [70, 130, 190]),
        (50, 50, [110, 170, 230]),
        (50, 6_010, [70, 130, 190]),
        (0, 59, [59, 119, 179]),
        (3_600, 0, [3_660, 3_720, 3_780]),
    ];
    for (built, aligned, ends) in cases {
        let time = ManualClock::new();
        time.set(at(built * S));
        let bucket = in_intervals("60/min", &time, at(aligned * S));
        assert_eq!(bucket.take_up_to(100), 60, "it starts full");
        for end in ends {
            time.set(at(end * S - 1));
            let denied = bucket.try_acquire().expect_err("just before");
            assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
            time.set(at(end * S));
            assert_eq!(bucket.take_up_to(100), 60, "built at {built}, at {end}");
        }
    }
}

#[test]
fn c1_c3_a_change_of_the_period_stays_on_the_grid_of_the_alignment() {
    // The new quota; the seconds at which a period ends after the change at 70 s, and what each adds.
    let cases = [
        ("20/20s burst 99", [(80, 10), (100, 20), (120, 20)]),
        ("25/25s burst 99", [(75, 5), (100, 25), (125, 25)]),
        ("120/2min burst 120", [(120, 50), (240, 120), (360, 120)]),
        ("60/min burst 99", [(120, 60), (180, 60), (240, 60)]),
    ];
    for (text, ends) in cases {
        let time = ManualClock::new();
        let bucket = in_intervals("60/min burst 99", &time, at(0));
        time.set(at(70 * S));
        assert_eq!(bucket.take_up_to(200), 99);
        bucket.set_quota(quota(text)).unwrap();
        for (end, added) in ends {
            time.set(at(end * S - 1));
            let denied = bucket.try_acquire().expect_err("just before");
            assert_eq!(denied.retry_after(), Some(Duration::from_nanos(1)));
            time.set(at(end * S));
            assert_eq!(bucket.take_up_to(200), added, "{text} at {end} s");
        }
    }
}

#[test]
fn without_an_alignment_another_period_begins_at_the_change() {
    let time = ManualClock::new();
    let bucket = on("60/min burst 99", &time);
    bucket.set_refill(Refill::Interval);
    time.set(at(70 * S));
    assert_eq!(bucket.take_up_to(200), 99);
    bucket.set_quota(quota("20/20s burst 99")).unwrap();
    time.set(at(90 * S - 1));
    assert_eq!(bucket.available(), 0);
    time.set(at(90 * S));
    assert_eq!(bucket.available(), 20);
}

#[test]
fn intervals_by_the_wall_clock_end_with_its_days() {
    let bucket = TokenBucket::builder(quota("5/day"))
        .refill(Refill::Interval)
        .align_to_wall(3600)
        .build()
        .expect("in range");
    assert_eq!(bucket.take_up_to(9), 5);
    let left = bucket.snapshot().reset_after;
    let utc = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    let local_s = (utc.as_secs() + 3600) % 86_400;
    let sum = local_s + left.as_secs();
    assert!(
        (86_398..=86_402).contains(&sum),
        "{left:?} after {local_s} s of the day"
    );
}

#[test]
fn an_alignment_without_intervals_is_refused_with_the_reason() {
    let continuous = || TokenBucket::builder(quota("5/day")).clock(ManualClock::new());
    for builder in [continuous().align(at(0)), continuous().align_to_wall(0)] {
        assert_eq!(
            builder
                .clone()
                .build()
                .expect_err("no interval")
                .to_string(),
            "an alignment has no effect on `Refill::Continuous`; set `Refill::Interval`, or leave it out",
        );
        assert!(builder.refill(Refill::Interval).build().is_ok());
    }
}
