//! What a user of `TokenBucket` is promised, beyond what the conformance suite asks of every limiter.

use flowgate::{Carry, Clock, Limiter, ManualClock, Quota, Refill, Source, Timestamp, TokenBucket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn on(text: &str, time: &ManualClock) -> TokenBucket {
    TokenBucket::builder(quota(text))
        .clock(time)
        .build()
        .expect("a limiter")
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_static_needs_no_lazy_cell() {
    static LIMIT: TokenBucket = TokenBucket::new(Quota::per_hour(2));
    assert!(LIMIT.try_acquire_n(2).is_ok());
    assert!(LIMIT.try_acquire().is_err());
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn c9_a_limiter_takes_four_cache_lines() {
    use flowgate::{ConcurrencyLimit, FixedWindow, LeakyBucket};
    assert_eq!(size_of::<TokenBucket>(), 256);
    assert_eq!(align_of::<TokenBucket>(), 64);
    assert_eq!(size_of::<LeakyBucket>(), 256);
    assert_eq!(size_of::<FixedWindow>(), 256);
    assert_eq!(size_of::<ConcurrencyLimit>(), 48);
}

#[test]
fn types_are_shared_and_sent() {
    fn shared<T: Send + Sync>() {}
    shared::<TokenBucket>();
    shared::<Clock>();
    shared::<ManualClock>();
    shared::<flowgate::Denied>();
    shared::<flowgate::Reservation<'_>>();
    shared::<Arc<dyn Limiter>>();
}

#[test]
fn c1_any_limiter_decides_like_its_own_type() {
    let time = ManualClock::new();
    let bucket = on("10/s burst 3", &time);
    let any: &dyn Limiter = &bucket;
    assert!(any.try_acquire().is_ok());
    assert!(any.try_acquire_n(2).is_ok());
    assert_eq!(any.available(), 0);
    assert_eq!(any.snapshot().limit, 3);
    assert!(
        any.try_acquire_n_at(Timestamp::from_nanos(100_000_000), 1)
            .is_ok()
    );
    let told = any
        .try_reserve_n(1)
        .expect("a token bucket reserves")
        .expect("within the burst")
        .at();
    assert_eq!(told.as_nanos(), 200_000_000);
    assert_eq!(any.clock().now(), Timestamp::ORIGIN);
}

#[test]
fn n_of_zero_succeeds_and_changes_nothing() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 1", &time);
    bucket.overdraw(2).expect("out of debt");
    assert!(bucket.try_acquire_n(0).is_ok());
    assert!(bucket.overdraw(0).is_ok());
    assert_eq!(bucket.take_up_to(0), 0);
    let nothing = bucket.reserve_n(0).expect("nothing is always there");
    assert_eq!(nothing.at(), Timestamp::ORIGIN);
    assert_eq!(nothing.cancel(), 0);
    assert_eq!(bucket.snapshot().reset_after, Duration::from_secs(2));
}

#[test]
fn c1_set_quota_settles_what_was_earned_at_the_old_rate() {
    let time = ManualClock::new();
    let bucket = on("1/h burst 10000", &time);
    bucket.take_up_to(u64::MAX);
    time.advance(Duration::from_secs(59 * 60));
    bucket.set_quota(quota("1000/s burst 10000")).unwrap();
    assert_eq!(
        bucket.available(),
        0,
        "59 idle minutes at 1/h earned 59/60 of a token"
    );
    time.advance(17 * MS / 1000); // 0.0166… of a token is missing, 16.67 µs at 1000/s
    assert_eq!(bucket.available(), 1);
}

#[test]
fn c4_a_clock_that_ran_backward_before_a_change_mints_nothing() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 10", &time);
    time.advance(Duration::from_secs(10));
    assert_eq!(bucket.take_up_to(10), 10);
    time.set(Timestamp::from_nanos(5_000_000_000));
    bucket.set_quota(quota("1000/s burst 10")).unwrap();
    time.set(Timestamp::from_nanos(10_000_000_000));
    assert_eq!(
        bucket.available(),
        0,
        "5 s of the past were paid again at the new rate"
    );
}

#[test]
fn c4_a_custom_clock_that_ran_backward_before_a_change_mints_nothing() {
    struct Handed(Arc<AtomicU64>);
    impl Source for Handed {
        fn now_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }
    let now_ns = Arc::new(AtomicU64::new(10_000_000_000));
    let bucket = TokenBucket::builder(quota("1/s burst 10"))
        .clock(Clock::custom(Handed(Arc::clone(&now_ns))))
        .build()
        .expect("a limiter");
    assert_eq!(bucket.take_up_to(10), 10);
    now_ns.store(5_000_000_000, Ordering::Relaxed);
    bucket.set_quota(quota("1000/s burst 10")).unwrap();
    now_ns.store(10_000_000_000, Ordering::Relaxed);
    assert_eq!(bucket.available(), 0);
}

#[test]
fn c1_kept_tokens_are_clipped_and_never_added() {
    let time = ManualClock::new();
    let bucket = on("10/s burst 10", &time);
    bucket.try_acquire_n(4).expect("10 are there");
    bucket.set_burst(5).expect("a burst");
    assert_eq!(bucket.available(), 5);
    bucket.set_burst(20).expect("a burst");
    assert_eq!(bucket.available(), 5);
    bucket.set_quota_with(quota("10/s burst 40"), Carry::Proportional);
    assert_eq!(bucket.available(), 10);
    bucket.set_rate(1, Duration::from_secs(60)).expect("a rate");
    assert_eq!(bucket.quota(), quota("1/min burst 40"));
    assert_eq!(bucket.available(), 10);
    bucket.set_quota_with(quota("10/s burst 40"), Carry::Reset);
    assert_eq!(bucket.available(), 40);
}

#[test]
fn c5_a_debt_is_carried_in_tokens() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 5", &time);
    bucket.overdraw(8).expect("out of debt");
    bucket.set_quota(quota("1000/s burst 5")).unwrap();
    let denied = bucket.try_acquire().expect_err("3 below zero");
    assert_eq!(denied.retry_after(), Some(4 * MS));
}

#[test]
fn c5_told_times_do_not_move_when_the_rate_does() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 1", &time);
    let told: Vec<_> = (0..3)
        .map(|_| bucket.reserve().expect("one fits"))
        .collect();
    bucket.set_quota(quota("1000/s burst 1")).unwrap();
    assert_eq!(
        told.iter().map(|r| r.at().as_nanos()).collect::<Vec<_>>(),
        [0, 1_000_000_000, 2_000_000_000]
    );
    let back: u64 = told
        .into_iter()
        .rev()
        .map(flowgate::Reservation::cancel)
        .sum();
    assert_eq!(back, 3, "cancelled from the last, all of a tail comes back");
    // Newcomers were to come after them, and still do.
    assert!(bucket.try_acquire().is_err());
    time.set(Timestamp::from_nanos(2_001_000_000));
    assert!(bucket.try_acquire().is_ok());
}

#[test]
fn c5_after_an_explicit_reset_old_reservations_give_nothing_back() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 2", &time);
    bucket.try_acquire_n(2).expect("2 are there");
    let reservation = bucket.reserve_n(2).expect("2 fit");
    bucket.set_quota_with(quota("1/s burst 2"), Carry::Reset);
    // Full, but for those who are told 2 s.
    assert_eq!(bucket.available(), 0);
    assert_eq!(reservation.cancel(), 0);
    time.advance(2_000 * MS);
    assert_eq!(bucket.take_up_to(9), 2);
    assert_eq!(bucket.available(), 0);
}

#[test]
fn c5_more_changes_than_are_remembered_give_nothing_back() {
    let time = ManualClock::new();
    for (changes, back) in [(16, 1), (17, 0)] {
        let bucket = on("1/s burst 1", &time);
        bucket.try_acquire().expect("1 is there");
        let reservation = bucket.reserve().expect("1 fits");
        for _ in 0..changes {
            bucket.set_quota(quota("1/s burst 1")).unwrap();
        }
        assert_eq!(reservation.cancel(), back, "after {changes} changes");
    }
}

#[test]
fn c5_what_was_changed_and_cancelled_before_a_reservation_does_not_make_it_less() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 10", &time);
    bucket.set_quota(quota("1/s burst 10")).unwrap();
    bucket.try_acquire_n(10).expect("10 are there");
    let first = bucket.reserve_n(3).expect("3 fit");
    let second = bucket.reserve_n(2).expect("2 fit");
    assert_eq!(first.cancel(), 3);
    let third = bucket.reserve_n(4).expect("4 fit");
    bucket.set_quota(quota("1/s burst 10")).unwrap();
    // Full again at 16 s: what is still missing at 12 s is all of these.
    time.set(Timestamp::from_nanos(12_000_000_000));
    assert_eq!(third.cancel(), 4);
    assert_eq!(bucket.available(), 10);
    drop(second);
}

#[test]
fn interval_refills_at_whole_periods_and_keeps_the_remainder() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota("3/s burst 5"))
        .clock(&time)
        .initial_tokens(0)
        .refill(Refill::Interval)
        .build()
        .expect("a limiter");
    let denied = bucket.try_acquire().expect_err("it starts empty");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    time.advance(Duration::from_millis(999));
    assert_eq!(bucket.available(), 0);
    assert_eq!(
        bucket.try_acquire().expect_err("not yet").retry_after(),
        Some(MS)
    );
    time.advance(MS);
    assert_eq!(bucket.take_up_to(9), 3);
    // 0.9 s of the next period are not lost by asking now.
    time.advance(Duration::from_millis(900));
    assert_eq!(bucket.take_up_to(9), 0);
    time.advance(Duration::from_millis(100));
    assert_eq!(bucket.take_up_to(9), 3);
    time.advance(Duration::from_secs(100));
    assert_eq!(bucket.take_up_to(9), 5);
}

#[test]
fn interval_reservations_are_told_the_end_of_a_period() {
    let time = ManualClock::new();
    time.advance(Duration::from_millis(250));
    let bucket = TokenBucket::builder(quota("2/s burst 2"))
        .clock(&time)
        .refill(Refill::Interval)
        .build()
        .expect("a limiter");
    let told: Vec<_> = (0..6)
        .map(|_| bucket.reserve().expect("one fits").at())
        .collect();
    let expected = [250, 250, 1250, 1250, 2250, 2250].map(|ms| ms * 1_000_000);
    assert_eq!(
        told.iter().map(|at| at.as_nanos()).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_setting_out_of_range_names_value_and_range() {
    let too_many = TokenBucket::builder(quota("10/s burst 5"))
        .initial_tokens(6)
        .build();
    assert_eq!(
        too_many.expect_err("6 of 5").to_string(),
        "initial tokens of 6 is out of range: 0 to 5"
    );
    let too_deep = TokenBucket::builder(quota("1/day"))
        .max_debt(u64::MAX)
        .build();
    assert_eq!(
        too_deep.expect_err("more than can be kept").to_string(),
        "a maximum debt of 18446744073709551615 is out of range: 0 to 114624077711609"
    );
    let bucket = TokenBucket::new(quota("10/s burst 5"));
    assert!(bucket.set_burst(0).is_err());
    assert!(bucket.set_rate(0, Duration::from_secs(1)).is_err());
    assert!(bucket.set_rate(1, Duration::ZERO).is_err());
    assert_eq!(bucket.quota(), quota("10/s burst 5"));
}

#[test]
fn c4_nothing_panics_on_any_number() {
    let edges = [
        0,
        1,
        2,
        u64::from(u32::MAX),
        1 << 53,
        1 << 54,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    for text in [
        "1/ns",
        "1G/s",
        "1/584y burst 1",
        "999999937/d burst 1G",
        "10GiB/s",
        "2.5/s",
    ] {
        let Ok(quota) = text.parse::<Quota>() else {
            continue;
        };
        for refill in [Refill::Continuous, Refill::Interval] {
            let bucket = TokenBucket::builder(quota)
                .refill(refill)
                .build()
                .expect("a limiter");
            for now in edges.into_iter().chain(edges.into_iter().rev()) {
                let at = bucket.at(Timestamp::from_nanos(now));
                for n in edges {
                    let _ = at.try_acquire_n(n).map_err(|denied| denied.retry_after());
                    let _ = at.overdraw(n);
                    let _ = at.take_up_to(n);
                    let _ = at
                        .reserve_n(n)
                        .map(|r| r.cancel_at(Timestamp::from_nanos(now / 2)));
                    let _ = at.reserve_n_within(n, Duration::from_nanos(n));
                    let _ = at.refund(n);
                    let _ = at.snapshot();
                }
                at.set_quota(quota).unwrap();
            }
        }
    }
}

// ---- Reservations and changes ----

#[test]
fn c1_nobody_overtakes_who_was_told_a_time_by_the_old_quota() {
    let time = ManualClock::new();
    let limiter = on("1/s burst 1", &time);
    limiter.try_acquire().unwrap();
    let told = [(); 3].map(|()| limiter.reserve().unwrap().at());
    assert_eq!(told[2], Timestamp::from_nanos(3_000_000_000));
    limiter.set_quota(quota("1000/s burst 1")).unwrap();
    // One of them goes at 2 s; a newcomer beside it would make two at once.
    time.set(told[1]);
    assert!(limiter.try_acquire().is_err());
    time.set(told[2]);
    assert!(limiter.try_acquire().is_err());
    time.advance(MS);
    assert!(limiter.try_acquire().is_ok());
}

#[test]
fn c1_a_reset_adds_one_burst_and_not_one_for_each_who_waits() {
    let time = ManualClock::new();
    let limiter = on("1/s burst 1", &time);
    let told = (0..101)
        .map(|_| limiter.reserve().unwrap().at())
        .collect::<Vec<_>>();
    limiter.set_quota_with(quota("1/s burst 1"), Carry::Reset);
    let mut admitted = told.len() as u64;
    for second in 0..=100 {
        time.set(Timestamp::from_nanos(second * 1_000_000_000));
        admitted += limiter.take_up_to(u64::MAX);
    }
    assert_eq!(admitted, 101 + 1);
}

#[test]
fn c5_what_comes_back_is_what_is_said_to_come_back() {
    let per_3_ns = Quota::spacing(Duration::from_nanos(3)).unwrap().burst(3);
    let limiter = TokenBucket::builder(per_3_ns)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let at = |ns| limiter.at(Timestamp::from_nanos(ns));
    let first = at(966).reserve_n(1).unwrap();
    let second = at(967).reserve_n(1).unwrap();
    let third = at(967).reserve_n(2).unwrap();
    assert_eq!(third.at(), Timestamp::from_nanos(969));
    let back =
        first.cancel_at(Timestamp::from_nanos(967)) + second.cancel_at(Timestamp::from_nanos(968));
    // 2 are told 969; what came back may go with them, and with what flows in from 967 on.
    let mut admitted = 2 + 2 - back;
    while at(969).try_acquire().is_ok() {
        admitted += 1;
    }
    assert!(admitted <= 3, "{admitted} within 2 ns");
}

#[test]
fn c5_a_cancelled_reservation_is_in_nobodys_way() {
    let time = ManualClock::new();
    let limiter = on("10/s", &time);
    limiter.try_acquire_n(10).unwrap();
    assert_eq!(limiter.reserve_n(10).unwrap().cancel(), 10);
    assert_eq!(limiter.refund(10), 10);

    // Nobody has ever been told to wait: other units change nothing about that.
    let limiter = on("10/s", &time);
    limiter.set_quota(quota("10/s units 1000")).unwrap();
    limiter.try_acquire_n(5_000).unwrap();
    assert_eq!(limiter.refund(5_000), 5_000);
}

#[test]
fn c4_a_full_bucket_is_full_at_any_time_however_it_was_built() {
    let time = ManualClock::new();
    time.advance(100 * MS);
    for refill in [Refill::Continuous, Refill::Interval] {
        let limiter = TokenBucket::builder(quota("2/s burst 1"))
            .clock(&time)
            .refill(refill)
            .build()
            .unwrap();
        assert!(
            limiter.at(Timestamp::ORIGIN).try_acquire().is_ok(),
            "{refill:?}"
        );
    }
}

#[test]
fn c4_intervals_end_before_the_bucket_was_built_as_after() {
    let time = ManualClock::new();
    time.set(Timestamp::from_nanos(10_000_000_000));
    let limiter = TokenBucket::builder(quota("10/s"))
        .clock(&time)
        .refill(Refill::Interval)
        .build()
        .unwrap();
    limiter.try_acquire_n(10).unwrap();
    let ms = |ms: u64| {
        limiter
            .at(Timestamp::from_nanos(ms * 1_000_000))
            .available()
    };
    assert_eq!(
        [ms(9_500), ms(9_999), ms(10_999), ms(11_000)],
        [0, 0, 0, 10]
    );
}

#[test]
fn a_turn_after_the_end_of_time_is_called_that() {
    let limiter = on("1/y burst 2", &ManualClock::new());
    let denied = loop {
        if let Err(denied) = limiter.reserve() {
            break denied;
        }
    };
    assert!(denied.is_never());
    assert_eq!(
        denied.to_string(),
        "its turn would come after the end of time, in 584 years"
    );
}

#[test]
fn threads_that_advance_a_clock_at_once_move_it_by_the_sum() {
    let time = ManualClock::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| time.advance(Duration::from_nanos(3))));
        }
    });
    assert_eq!(time.now(), Timestamp::from_nanos(120_000));
}

/// Reservations, cancellations and newcomers, while the quota grows: what is admitted in every interval is at most
/// the burst in force at its end and the integral of the rates.
#[test]
fn c1_a_growing_quota_keeps_the_promise_to_those_who_wait() {
    const NS_PER_TOKEN: [u64; 5] = [16, 8, 4, 2, 1];
    for seed in 0..3_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut speed, mut burst, mut now) = (0, 1 + rng.u64(..3), 0);
        let of = |speed: usize, burst| {
            Quota::spacing(Duration::from_nanos(NS_PER_TOKEN[speed]))
                .unwrap()
                .burst(burst)
        };
        let limiter = TokenBucket::builder(of(speed, burst))
            .clock(ManualClock::new())
            .build()
            .unwrap();
        let (mut changes, mut held, mut admitted) =
            (vec![(0, speed, burst)], Vec::new(), Vec::new());
        for _ in 0..30 {
            now += rng.u64(..20) * rng.u64(..2);
            let limiter = limiter.at(Timestamp::from_nanos(now));
            let n = 1 + rng.u64(..burst);
            match rng.u32(..8) {
                0 if speed < 4 => {
                    speed += rng.usize(..=4 - speed);
                    burst += rng.u64(..2);
                    limiter.set_quota(of(speed, burst)).unwrap();
                    changes.push((now, speed, burst));
                }
                1 if !held.is_empty() => {
                    let reservation: flowgate::Reservation<'_> =
                        held.swap_remove(rng.usize(..held.len()));
                    let (at, n) = (reservation.at().as_nanos(), reservation.units());
                    let used = n - reservation.cancel_at(Timestamp::from_nanos(now));
                    admitted.push((at, used));
                }
                2..4 => held.push(limiter.reserve_n(n).unwrap()),
                _ => admitted.push((now, n * u64::from(limiter.try_acquire_n(n).is_ok()))),
            }
        }
        admitted.extend(held.iter().map(|held| (held.at().as_nanos(), held.units())));
        admitted.sort_unstable();
        // In sixteenths of a token.
        let flowed_in = |from: u64, to: u64| -> u64 {
            let ends = changes
                .iter()
                .skip(1)
                .map(|change| change.0)
                .chain([u64::MAX]);
            let spans = changes.iter().zip(ends);
            spans
                .map(|(&(began, speed, _), end)| {
                    let ns = end.min(to).saturating_sub(began.max(from));
                    ns * 16 / NS_PER_TOKEN[speed]
                })
                .sum()
        };
        for (first, &(from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for &(to, n) in &admitted[first..] {
                sum += n;
                let burst = changes
                    .iter()
                    .filter(|change| change.0 <= to)
                    .map(|change| change.2)
                    .max();
                let allowed = burst.unwrap_or(0) * 16 + flowed_in(from, to);
                assert!(
                    sum * 16 <= allowed,
                    "seed {seed}: {sum} in [{from}, {to}]: {admitted:?}, {changes:?}"
                );
            }
        }
    }
}
