//! A caller with a time from before a change of quota: what it finds, to the nanosecond.

use flowgate::{
    DecayingBucket, FixedWindow, LeakyBucket, ManualClock, PayAfter, Quota, Refill,
    SegmentedWindow, Timestamp, TokenBucket,
};
use std::time::Duration;

const fn ms(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota within range")
}

fn wait_ms(answer: Result<(), flowgate::Denied>) -> u128 {
    let denied = answer.expect_err("it has to be refused");
    denied.retry_after().expect("a time is known").as_millis()
}

/// 10 taken at the origin, full again after a second, and slow from then on.
fn drained(text: &str) -> TokenBucket {
    let builder = TokenBucket::builder(quota(text)).clock(ManualClock::new());
    let bucket = builder.build().unwrap();
    bucket.at(ms(0)).try_acquire_n(10).unwrap();
    bucket
}

#[test]
fn c1_c3_c4_a_bucket_before_a_change_flows_at_the_old_rate() {
    let bucket = drained("10/s burst 10");
    bucket
        .at(ms(1_000))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    assert_eq!(wait_ms(bucket.at(ms(0)).try_acquire()), 100);
    assert_eq!(wait_ms(bucket.at(ms(0)).try_acquire_n(10)), 1_000);
    assert_eq!(bucket.at(ms(0)).snapshot().reset_after.as_millis(), 1_000);

    bucket.at(ms(100)).try_acquire().unwrap();
    assert_eq!(bucket.at(ms(500)).available(), 4);
    // By the old rate as long as that goes on, and then by the new one.
    assert_eq!(bucket.at(ms(50)).reserve_n(2).unwrap().at(), ms(300));
    assert_eq!(bucket.at(ms(1_000)).available(), 7);
    assert_eq!(
        wait_ms(bucket.at(ms(0)).try_acquire_n(8)),
        1_000 + 3_600_000
    );
}

#[test]
fn c2_c4_what_was_full_before_a_change_was_full_then() {
    let bucket = drained("10/s burst 10");
    bucket
        .at(ms(5_000))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    assert_eq!(bucket.at(ms(1_000)).available(), 10);
    assert_eq!(bucket.at(ms(300)).available(), 3);
    let untouched = TokenBucket::new(quota("10/s burst 10"));
    untouched
        .at(ms(5_000))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    assert_eq!(untouched.at(ms(0)).available(), 10);
}

#[test]
fn c3_c4_before_the_change_before_nothing_is_there() {
    let bucket = drained("10/s burst 10");
    bucket
        .at(ms(1_000))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    bucket
        .at(ms(2_000))
        .set_quota(quota("1/day burst 10"))
        .unwrap();
    assert_eq!(bucket.at(ms(999)).available(), 0);
    assert_eq!(wait_ms(bucket.at(ms(400)).try_acquire()), 600);
    assert_eq!(bucket.at(ms(1_000)).available(), 10);
}

#[test]
fn c3_c4_in_intervals() {
    let builder = TokenBucket::builder(quota("10/s burst 10")).clock(ManualClock::new());
    let bucket = builder.refill(Refill::Interval).build().unwrap();
    bucket.at(ms(1_500)).try_acquire_n(10).unwrap();
    bucket
        .at(ms(2_500))
        .set_quota(quota("10/min burst 10"))
        .unwrap();
    assert_eq!(wait_ms(bucket.at(ms(1_500)).try_acquire_n(10)), 500);
    assert_eq!(bucket.at(ms(1_999)).available(), 0);
    assert_eq!(bucket.at(ms(2_000)).available(), 10);
}

#[test]
fn c4_all_that_are_buckets() {
    let leaky = LeakyBucket::builder(quota("10/s")).clock(ManualClock::new());
    let leaky = leaky.build().unwrap();
    leaky.at(ms(0)).try_acquire().unwrap();
    leaky.at(ms(1_000)).set_quota(quota("1000000/s")).unwrap();
    assert_eq!(wait_ms(leaky.at(ms(0)).try_acquire()), 100);

    let pays: PayAfter = drained("10/s burst 10").pay_after();
    pays.at(ms(0)).try_acquire_n(10).unwrap();
    pays.at(ms(2_000)).set_quota(quota("1/h burst 10")).unwrap();
    assert_eq!(wait_ms(pays.at(ms(0)).try_acquire()), 1_000);

    let time = ManualClock::new();
    time.set(ms(1_000));
    let striped = TokenBucket::builder(quota("100000/s burst 100000"))
        .clock(&time)
        .build()
        .unwrap()
        .striped();
    assert_eq!(striped.take_up_to(100_000), 100_000);
    time.set(ms(2_000));
    striped
        .get_ref()
        .set_quota(quota("1/h burst 100000"))
        .unwrap();
    time.set(ms(1_000));
    assert!(striped.try_acquire().is_err());
    assert_eq!(striped.get_ref().available(), 0);
}

#[test]
fn c4_a_window_that_was_over_at_a_change_was_not_before() {
    let time = ManualClock::new();
    for segments in [1, 3, 10] {
        let window = SegmentedWindow::builder(quota("3/s")).segments(segments);
        let window = window.clock(&time).build().unwrap();
        window.at(ms(5_000)).try_acquire_n(3).unwrap();
        window.at(ms(9_000)).set_quota(quota("3/2s")).unwrap();
        assert!(window.at(ms(5_000)).try_acquire().is_err());
        assert_eq!(window.at(ms(9_000)).available(), 3);
    }
    for aligned in [None, Some(ms(200))] {
        let window = FixedWindow::builder(quota("3/s")).clock(&time);
        let window = match aligned {
            None => window.build().unwrap(),
            Some(begins) => window.align(begins).build().unwrap(),
        };
        window.at(ms(5_300)).try_acquire_n(3).unwrap();
        window.at(ms(9_000)).set_quota(quota("3/2s")).unwrap();
        let left_ms = if aligned.is_some() { 900 } else { 1_000 };
        assert_eq!(wait_ms(window.at(ms(5_300)).try_acquire()), left_ms);
        assert_eq!(window.at(ms(9_000)).available(), 3);
    }
}

#[test]
fn c1_c3_c4_a_decaying_bucket_before_a_change_decays_by_the_old_half_life() {
    let builder = DecayingBucket::builder(10, Duration::from_secs(1));
    let bucket = builder.clock(ManualClock::new()).build().unwrap();
    bucket.at(ms(0)).try_acquire_n(10).unwrap();
    bucket
        .at(ms(100_000))
        .set(10, Duration::from_secs(5))
        .unwrap();
    assert_eq!(bucket.at(ms(0)).available(), 0);
    assert_eq!(wait_ms(bucket.at(ms(0)).try_acquire_n(5)), 1_000);
    bucket.at(ms(1_000)).try_acquire_n(5).unwrap();
    assert!(bucket.at(ms(1_000)).try_acquire().is_err());
    assert_eq!(bucket.at(ms(100_000)).available(), 5);
    bucket
        .at(ms(200_000))
        .set(10, Duration::from_secs(1))
        .unwrap();
    bucket
        .at(ms(300_000))
        .set(10, Duration::from_secs(1))
        .unwrap();
    assert_eq!(wait_ms(bucket.at(ms(150_000)).try_acquire()), 50_000);
}

/// Looking at a time far ahead, or asking there for more than there can ever be, does not pull a change or what is given back
/// there.
#[test]
fn c2_a_time_that_nothing_was_decided_by_does_not_count() {
    let time = ManualClock::new();
    let builder = TokenBucket::builder(quota("10/s burst 10")).clock(&time);
    let bucket = builder.build().unwrap();
    bucket.try_acquire_n(10).unwrap();
    let end = Timestamp::MAX;
    assert_eq!(bucket.at(end).available(), 10);
    assert_eq!(bucket.refund(4), 4);
    bucket.set_quota(quota("20/s burst 10")).unwrap();
    assert_eq!(bucket.take_up_to(5), 4);
    time.advance(Duration::from_millis(50));
    bucket.try_acquire().unwrap();

    assert!(bucket.at(end).try_acquire_n(11).is_err());
    bucket.set_quota(quota("10/s burst 10")).unwrap();
    time.advance(Duration::from_millis(500));
    assert_eq!(bucket.take_up_to(11), 5);
}
