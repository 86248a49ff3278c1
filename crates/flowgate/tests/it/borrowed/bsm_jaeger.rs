//! The test vectors of bsm/ratelimit and of Jaeger's rate limiters (Go, Java), for the token
//! bucket.
//!
//! Every row of theirs is answered as they answer it, but for the double burst of Jaeger's Go
//! limiter, see [`c1_a_rest_is_not_paid_twice`]. Left for a later type: the tables of
//! OpenTelemetry's adaptive sampler, which steers a probability and is not a limiter of this
//! kind.

use flowgate::{Carry, ManualClock, Quota, Timestamp, TokenBucket};
use std::time::Duration;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn bucket(text: &str) -> TokenBucket {
    TokenBucket::builder(quota(text))
        .clock(ManualClock::new())
        .build()
        .expect("a limiter")
}

/// Asks for `n` at each time of `rows`, again and again, and expects these answers.
fn check(quota: &str, n: u64, rows: &[(u64, &[bool])]) {
    let bucket = bucket(quota);
    for &(now_ns, expected) in rows {
        let now = Timestamp::from_nanos(now_ns);
        let got: Vec<_> = expected
            .iter()
            .map(|_| bucket.at(now).try_acquire_n(n).is_ok())
            .collect();
        assert_eq!(got, expected, "{quota}, {n} at {now:?}");
    }
}

const T: bool = true;
const F: bool = false;

// bsm/ratelimit

#[test]
fn c1_c2_bsm_admits_exactly_the_quota_at_once() {
    // bsm allows itself 10 for 100,000 per hour, as its clock runs meanwhile.
    for (quota, at_once) in [("10/min", 10), ("100000/h", 100_000), ("10/360d", 10)] {
        let bucket = bucket(quota);
        let admitted = (0..at_once + 100)
            .filter(|_| bucket.try_acquire().is_ok())
            .count();
        assert_eq!(admitted, at_once, "{quota}");
    }
}

#[test]
fn c2_bsm_allowance_grows() {
    let bucket = bucket("25/50ms");
    let at = |ms| bucket.at(Timestamp::from_nanos(ms * MS));
    assert!((0..25).all(|_| at(0).try_acquire().is_ok()));
    assert!(at(0).try_acquire().is_err());
    assert!(at(20).try_acquire().is_ok());
}

#[test]
fn c8_bsm_allowance_is_spread() {
    // bsm: 54 ± 1.
    let bucket = bucket("5/10ms");
    let admitted = (0..100 * MS)
        .step_by(1_000)
        .filter(|&ns| bucket.at(Timestamp::from_nanos(ns)).try_acquire().is_ok())
        .count();
    assert_eq!(admitted, 5 + 49);
}

#[test]
fn c5_bsm_undo_gives_exactly_one_back() {
    let bucket = bucket("5/min");
    assert_eq!(bucket.take_up_to(9), 5);
    assert_eq!(bucket.refund(1), 1);
    assert!(bucket.try_acquire().is_ok());
    assert!(bucket.try_acquire().is_err());
    assert_eq!(bucket.refund(5), 5);
    assert_eq!(bucket.refund(1), 0, "nothing was taken");
    assert_eq!(bucket.available(), 5);
}

// Jaeger: (credits per second, most credits)

#[test]
fn c1_c2_jaeger_two_per_second() {
    check(
        "2/s burst 2",
        1,
        &[
            (0, &[T, T, F]),
            (250 * MS, &[F]),
            (750 * MS, &[T, F]),
            (5_750 * MS, &[T, T, F, F, F]),
        ],
    );
}

#[test]
fn c1_c2_jaeger_one_per_ten_seconds() {
    check("0.1/s burst 1", 1, &[(0, &[T]), (20 * SECOND, &[T, F])]);
}

#[test]
fn c1_c2_jaeger_quarters_of_a_credit() {
    // Half a credit per second and half a credit at most, where an item costs a quarter: a token
    // is half a credit, a unit a quarter.
    check(
        "1/s burst 1 units 2",
        1,
        &[
            (0, &[T, T, F]),
            (250 * MS, &[F]),
            (750 * MS, &[T, F]),
            (5_750 * MS, &[T, T, F, F, F]),
        ],
    );
    // A credit per second and a credit at most: four quarters.
    check(
        "1/s units 4",
        1,
        &[(0, &[T, T, T, T, F]), (250 * MS, &[T, F]), (374 * MS, &[F])],
    );
    let credits = quota("1/s").units_per_token(4).expect("quarters");
    assert_eq!(credits, quota("1/s units 4"));
}

#[test]
fn c8_jaeger_a_steady_caller_is_never_refused() {
    let bucket = bucket("5/60s burst 5");
    for call in 0..100 {
        let now = Timestamp::from_nanos(call * 20 * SECOND);
        assert!(bucket.at(now).try_acquire().is_ok(), "call {call}");
    }
}

#[test]
fn jaeger_a_cost_above_the_most_is_refused_for_good() {
    let denied = bucket("1/s burst 1").try_acquire_n(2).expect_err("2 of 1");
    assert!(denied.is_never());
}

#[test]
fn c1_jaeger_update_keeps_the_fraction() {
    // (1, 1) to (2, 4) at a balance of one half: half of 4.
    let bucket = bucket("1/s burst 1");
    let at = |ms| bucket.at(Timestamp::from_nanos(ms * MS));
    assert!(at(0).try_acquire().is_ok());
    at(500).set_quota_with(quota("2/s burst 4"), Carry::Proportional);
    assert_eq!(at(500).available(), 2);
    assert_eq!(at(500).snapshot().reset_after, Duration::from_secs(1));
}

#[test]
fn c1_jaeger_sampler_of_less_than_one_per_second_admits_its_first() {
    // The sampler's most is the greater of its rate and 1.
    for (sampler, first) in [("2/s", &[T, T, F][..]), ("0.1/s", &[T, F])] {
        check(sampler, 1, &[(0, first)]);
    }
}

#[test]
fn c1_a_rest_is_not_paid_twice() {
    // Differs from Jaeger's Go limiter, which gives 4: it looks at the clock only when its
    // balance is used up, and then pays the rest on top.
    let bucket = bucket("2/s burst 2");
    let rested = bucket.at(Timestamp::from_nanos(100 * SECOND));
    let admitted = (0..10).filter(|_| rested.try_acquire().is_ok()).count();
    assert_eq!(admitted, 2);
}
