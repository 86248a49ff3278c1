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
        .reserve_n(1)
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
    assert_eq!(bucket.refund(0), 0);
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
    bucket.set_quota(quota("1000/s burst 10000"));
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
    bucket.set_quota(quota("1000/s burst 10"));
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
    bucket.set_quota(quota("1000/s burst 10"));
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
    bucket.set_quota(quota("1000/s burst 5"));
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
    bucket.set_quota(quota("1000/s burst 1"));
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
    assert!(bucket.try_acquire().is_ok());
}

#[test]
fn c5_after_an_explicit_reset_old_reservations_give_nothing_back() {
    let time = ManualClock::new();
    let bucket = on("1/s burst 2", &time);
    bucket.try_acquire_n(2).expect("2 are there");
    let reservation = bucket.reserve_n(2).expect("2 fit");
    bucket.set_quota_with(quota("1/s burst 2"), Carry::Reset);
    bucket.try_acquire_n(2).expect("a reset fills");
    assert_eq!(reservation.cancel(), 0);
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
            bucket.set_quota(quota("1/s burst 1"));
        }
        assert_eq!(reservation.cancel(), back, "after {changes} changes");
    }
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
                at.set_quota(quota);
            }
        }
    }
}
