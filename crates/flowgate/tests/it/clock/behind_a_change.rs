//! A time before a change of quota, and a time far ahead of one: the shortest histories that the conformance suite
//! found, one for each type and storage.
//!
//! Seconds are explicit times, unless a test has a clock. What an earlier time may have is stated by the limiter's own
//! time: it is what the limiter had left at that time, never what the change or the time since has brought.

use core::time::Duration;

use flowgate::{
    ApproximateWindow, Carry, DecayingBucket, Denied, FixedWindow, Keyed, KeyedAlgorithm,
    KeyedBuilder, LeakyBucket, Limiter, ManualClock, Quota, SegmentedWindow, SlidingWindow,
    Timestamp, TokenBucket, WarmUp,
};

const SECOND: u64 = 1_000_000_000;

fn second(second: u64) -> Timestamp {
    Timestamp::from_nanos(second * SECOND)
}

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

/// `limiter` refuses `n` at `second`, and what it tells is the least wait.
fn refused_until(limiter: &dyn Limiter, at: u64, n: u64) {
    let denied = limiter.try_acquire_n_at(second(at), n).unwrap_err();
    let wait = denied.retry_after().expect("a time");
    let wait_ns = u64::try_from(wait.as_nanos()).expect("within the clock's range");
    let due_ns = at * SECOND + wait_ns;
    let at_ns = |ns| limiter.try_acquire_n_at(Timestamp::from_nanos(ns), n);
    assert!(
        at_ns(due_ns - 1).is_err(),
        "a nanosecond before {due_ns} ns"
    );
    assert_eq!(at_ns(due_ns), Ok(()), "at {due_ns} ns");
}

#[test]
fn c1_c4_token_bucket_has_nothing_at_the_time_when_it_was_empty() {
    let bucket = TokenBucket::new(quota("10/s burst 10"));
    bucket.at(second(0)).try_acquire_n(10).unwrap();
    bucket
        .at(second(1))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    assert_eq!(bucket.at(second(0)).take_up_to(10), 0);
    assert_eq!(bucket.at(second(1)).take_up_to(10), 10);
}

#[test]
fn c1_c4_token_bucket_has_nothing_on_a_clock_that_is_set_back() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota("10/s burst 10"));
    let bucket = bucket.clock(&time).build().unwrap();
    bucket.try_acquire_n(10).unwrap();
    time.advance(Duration::from_secs(1));
    bucket.set_quota(quota("1/h burst 10")).unwrap();
    time.set(Timestamp::ORIGIN);
    assert_eq!(bucket.take_up_to(10), 0);
}

#[test]
fn c1_c4_token_bucket_counts_back_at_the_rate_before_the_change() {
    let bucket = TokenBucket::new(quota("10/s burst 10"));
    bucket.at(second(1)).try_acquire_n(10).unwrap();
    bucket
        .at(second(2))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    let half = Timestamp::from_nanos(3 * SECOND / 2);
    assert_eq!(bucket.at(half).available(), 5);
    assert_eq!(bucket.at(second(0)).available(), 0);
}

#[test]
fn c1_c4_token_bucket_has_nothing_before_two_changes() {
    let bucket = TokenBucket::new(quota("10/s burst 10"));
    bucket.at(second(0)).try_acquire_n(10).unwrap();
    bucket
        .at(second(1))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    bucket
        .at(second(2))
        .set_quota(quota("10/s burst 10"))
        .unwrap();
    assert_eq!(bucket.at(second(0)).take_up_to(10), 0);
    assert_eq!(bucket.at(second(2)).available(), 10);
}

#[test]
fn c3_c4_token_bucket_tells_the_least_wait_from_before_a_change() {
    for (at, n) in [(0, 1), (0, 10), (1, 7)] {
        let bucket = TokenBucket::new(quota("2/s burst 10"));
        bucket.at(second(0)).try_acquire_n(10).unwrap();
        bucket
            .at(second(3))
            .set_quota(quota("1/s burst 10"))
            .unwrap();
        refused_until(&bucket, at, n);
    }
}

#[test]
fn c1_c4_leaky_bucket_has_nothing_at_the_time_when_it_was_empty() {
    let bucket = LeakyBucket::new(quota("10/s burst 10"));
    bucket.at(second(0)).try_acquire_n(10).unwrap();
    bucket
        .at(second(1))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    assert_eq!(bucket.at(second(0)).take_up_to(10), 0);
}

#[test]
fn c1_c4_pay_after_goes_into_debt_once_at_one_time() {
    let bucket = TokenBucket::new(quota("10/s burst 10")).pay_after();
    bucket.at(second(0)).try_acquire_n(20).unwrap();
    bucket
        .at(second(2))
        .set_quota(quota("1/h burst 10"))
        .unwrap();
    assert!(bucket.at(second(0)).try_acquire().is_err());
    assert!(bucket.at(second(2)).try_acquire().is_ok());
}

#[test]
fn c1_c4_fixed_window_counts_on_in_a_window_that_was_over_at_the_change() {
    let window = FixedWindow::new(quota("3/s")).unwrap();
    window.at(second(5)).try_acquire_n(3).unwrap();
    window.at(second(9)).set_quota(quota("3/2s")).unwrap();
    assert_eq!(window.at(second(5)).take_up_to(3), 0);
    assert_eq!(window.at(second(9)).take_up_to(3), 3);
}

#[test]
fn c1_c4_aligned_fixed_window_counts_on_in_a_window_that_was_over_at_the_change() {
    let window = FixedWindow::builder(quota("3/s")).align(second(0));
    let window = window.build().unwrap();
    window.at(second(5)).try_acquire_n(3).unwrap();
    window.at(second(9)).set_quota(quota("3/2s")).unwrap();
    assert_eq!(window.at(second(5)).take_up_to(3), 0);
}

#[test]
fn c1_c4_segmented_windows_count_on_in_a_window_that_was_over_at_the_change() {
    for segments in [1, 10] {
        let window = SegmentedWindow::builder(quota("3/s")).segments(segments);
        let window = window.build().unwrap();
        window.at(second(5)).try_acquire_n(3).unwrap();
        window.at(second(9)).set_quota(quota("3/2s")).unwrap();
        assert_eq!(window.at(second(5)).take_up_to(3), 0, "{segments}");
    }
}

#[test]
fn c1_c4_sliding_window_counts_on_in_a_window_that_was_over_at_the_change() {
    let window = SlidingWindow::new(quota("3/s")).unwrap();
    window.at(second(5)).try_acquire_n(3).unwrap();
    assert_eq!(window.at(second(9)).available(), 3);
    window.set_quota(quota("3/2s")).unwrap();
    assert_eq!(window.at(second(5)).take_up_to(3), 0);
}

#[test]
fn c1_c4_approximate_window_counts_on_in_a_window_that_was_over_at_the_change() {
    let window = ApproximateWindow::new(quota("3/s")).unwrap();
    window.at(second(5)).try_acquire_n(3).unwrap();
    window.at(second(9)).set_quota(quota("3/2s")).unwrap();
    let stale = window.at(second(5)).take_up_to(3);
    let newest = window.at(second(9)).take_up_to(3);
    assert!(stale + newest <= 3, "{stale} and {newest}");
}

#[test]
fn c1_c4_warm_up_is_not_paid_before_a_change() {
    let limiter = WarmUp::new(quota("1/s"), Duration::from_secs(1)).unwrap();
    limiter.at(second(0)).try_acquire_n(1).unwrap();
    limiter.at(second(9)).set_quota(quota("10/s")).unwrap();
    assert!(limiter.at(second(0)).try_acquire().is_err());
    assert!(limiter.at(second(9)).try_acquire().is_ok());
}

#[test]
fn c1_c4_decaying_bucket_has_not_decayed_before_a_change() {
    let bucket = DecayingBucket::new(10, Duration::from_millis(10)).unwrap();
    bucket.at(second(0)).try_acquire_n(10).unwrap();
    let hour = Duration::from_secs(3_600);
    bucket.at(second(1)).set(10, hour).unwrap();
    assert_eq!(bucket.at(second(0)).take_up_to(10), 0);
    assert_eq!(bucket.at(second(1)).take_up_to(10), 10);
}

/// A table on a clock at `at`, with one key that has taken `n` at that second.
fn keyed<A: KeyedAlgorithm<Quota = Quota>>(
    builder: KeyedBuilder<A>,
    at: u64,
    n: u64,
) -> (ManualClock, Keyed<A>) {
    let time = ManualClock::new();
    time.set(second(at));
    let limits = builder.clock(&time).seed([1, 2]).capacity(100).unwrap();
    limits.try_acquire_n("key", n).unwrap();
    (time, limits)
}

/// What `key` takes, up to `n`, on a clock that is set back to `at`.
fn back_at<A: KeyedAlgorithm<Quota = Quota>>(
    time: &ManualClock,
    limits: &Keyed<A>,
    at: u64,
    n: u64,
) -> u64 {
    time.set(second(at));
    limits.take_up_to("key", n)
}

#[test]
fn c1_c4_c7_keyed_token_bucket_has_nothing_at_the_time_when_it_was_empty() {
    let (time, limits) = keyed(Keyed::token_bucket(quota("10/s burst 10")), 0, 10);
    time.set(second(1));
    limits.set_quota(quota("1/h burst 10")).unwrap();
    assert_eq!(back_at(&time, &limits, 0, 10), 0);
}

#[test]
fn c1_c4_c7_keyed_leaky_bucket_has_nothing_at_the_time_when_it_was_empty() {
    let (time, limits) = keyed(Keyed::leaky_bucket(quota("10/s burst 10")), 0, 10);
    time.set(second(1));
    limits.set_quota(quota("1/h burst 10")).unwrap();
    assert_eq!(back_at(&time, &limits, 0, 10), 0);
}

/// By its own time: a burst of 1 was in force.
#[test]
fn c1_c4_c7_keyed_token_bucket_has_no_larger_burst_before_the_change_to_it() {
    let (time, limits) = keyed(Keyed::token_bucket(quota("1/s burst 1")), 0, 1);
    time.set(second(7));
    limits.set_quota(quota("2/h burst 2")).unwrap();
    assert_eq!(back_at(&time, &limits, 0, 2), 0);
}

#[test]
fn c1_c4_c7_keyed_fixed_window_counts_on_in_a_window_that_was_over_at_the_change() {
    let (time, limits) = keyed(Keyed::fixed_window(quota("3/s")), 5, 3);
    time.set(second(9));
    limits.set_quota(quota("3/2s")).unwrap();
    assert_eq!(back_at(&time, &limits, 5, 3), 0);
}

#[test]
fn c1_c4_c7_keyed_segmented_window_counts_on_in_a_window_that_was_over_at_the_change() {
    let (time, limits) = keyed(Keyed::segmented_window(quota("3/s")), 5, 3);
    time.set(second(9));
    limits.set_quota(quota("3/s")).unwrap();
    assert_eq!(back_at(&time, &limits, 5, 3), 0);
    // Its entries do not say how long a window is.
    assert!(limits.set_quota(quota("3/2s")).is_err());
}

#[test]
fn c1_resets_forgive_no_more_than_a_burst_each() {
    let bucket = TokenBucket::builder(quota("1/h burst 5"))
        .clock(ManualClock::new())
        .max_debt(5)
        .build()
        .unwrap();
    let mut admitted = 0;
    for _ in 0..4 {
        admitted += bucket.overdraw(10).map_or(0, |()| 10);
        bucket.set_quota_with(quota("1/h burst 5"), Carry::Reset);
    }
    admitted += bucket.take_up_to(10);
    // The largest burst, the largest overdraft, and a burst for each reset.
    assert!(admitted <= 5 + 10 + 4 * 5, "{admitted}");
}

/// Whether a limiter that nothing was taken from grants one after a change by a clock at a second, once somebody has
/// looked at it at the end of time.
fn granted_after_a_look_far_ahead(
    look: impl FnOnce(Timestamp) -> u64,
    change: impl FnOnce(),
    take: impl FnOnce() -> Result<(), Denied>,
) {
    let _seen = look(Timestamp::MAX);
    change();
    assert_eq!(take(), Ok(()));
}

#[test]
fn c2_a_look_at_the_end_of_time_and_a_change_lock_no_caller_out_of_a_token_bucket() {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota("4/s burst 4"));
    let bucket = bucket.clock(&time).build().unwrap();
    granted_after_a_look_far_ahead(
        |end| bucket.at(end).available(),
        || bucket.set_quota(quota("1/s burst 4")).unwrap(),
        || bucket.try_acquire_n(4),
    );
    time.advance(Duration::from_secs(1));
    assert_eq!(bucket.try_acquire(), Ok(()));
}

#[test]
fn c2_a_refusal_at_the_end_of_time_and_a_change_lock_no_caller_out_of_a_leaky_bucket() {
    let bucket = LeakyBucket::builder(quota("4/s"));
    let bucket = bucket.clock(ManualClock::new()).build().unwrap();
    granted_after_a_look_far_ahead(
        |end| u64::from(bucket.at(end).try_acquire_n(2).is_ok()),
        || bucket.set_quota(quota("1/s")).unwrap(),
        || bucket.try_acquire(),
    );
}

#[test]
fn c2_a_look_at_the_end_of_time_and_a_change_lock_no_caller_out_of_a_bucket_that_pays_after() {
    let bucket = TokenBucket::builder(quota("4/s burst 4"));
    let bucket = bucket.clock(ManualClock::new()).build().unwrap();
    let limiter = bucket.pay_after();
    limiter.try_acquire_n(4).unwrap();
    granted_after_a_look_far_ahead(
        |end| limiter.at(end).available(),
        || limiter.set_quota(quota("1/s burst 4")).unwrap(),
        || limiter.try_acquire(),
    );
}

#[test]
fn c2_a_look_at_the_end_of_time_and_a_change_lock_no_caller_out_of_windows() {
    let time = ManualClock::new();
    let fixed = FixedWindow::builder(quota("3/s")).clock(&time);
    let fixed = fixed.build().unwrap();
    let sliding = SlidingWindow::builder(quota("3/s")).clock(&time);
    let sliding = sliding.build().unwrap();
    let segmented = SegmentedWindow::builder(quota("3/s")).clock(&time);
    let segmented = segmented.build().unwrap();
    let approximate = ApproximateWindow::builder(quota("3/s")).clock(&time);
    let approximate = approximate.build().unwrap();
    let new = quota("3/2s");
    granted_after_a_look_far_ahead(
        |end| fixed.at(end).available(),
        || fixed.set_quota(new).unwrap(),
        || fixed.try_acquire_n(3),
    );
    granted_after_a_look_far_ahead(
        |end| sliding.at(end).available(),
        || sliding.set_quota(new).unwrap(),
        || sliding.try_acquire_n(3),
    );
    granted_after_a_look_far_ahead(
        |end| segmented.at(end).available(),
        || segmented.set_quota(new).unwrap(),
        || segmented.try_acquire_n(3),
    );
    granted_after_a_look_far_ahead(
        |end| approximate.at(end).available(),
        || approximate.set_quota(new).unwrap(),
        || approximate.try_acquire_n(3),
    );
    // And all of it is back when the windows are over.
    time.set(second(10));
    for window in [&fixed as &dyn Limiter, &sliding, &segmented, &approximate] {
        assert_eq!(window.try_acquire_n(3), Ok(()), "{window:?}");
    }
}

#[test]
fn c2_a_look_at_the_end_of_time_and_a_change_lock_no_caller_out_of_a_warm_up() {
    let time = ManualClock::new();
    let limiter = WarmUp::builder(quota("4/s")).clock(&time).build().unwrap();
    granted_after_a_look_far_ahead(
        |end| limiter.at(end).available(),
        || limiter.set_quota(quota("1/s")).unwrap(),
        || limiter.try_acquire(),
    );
    time.set(second(10));
    assert_eq!(limiter.try_acquire(), Ok(()));
}

#[test]
fn c2_a_look_at_the_end_of_time_and_a_change_lock_no_caller_out_of_a_decaying_bucket() {
    let hour = Duration::from_secs(3_600);
    let bucket = DecayingBucket::builder(10, hour).clock(ManualClock::new());
    let bucket = bucket.build().unwrap();
    bucket.try_acquire_n(5).unwrap();
    granted_after_a_look_far_ahead(
        |end| bucket.at(end).available(),
        || bucket.set(10, 2 * hour).unwrap(),
        || bucket.try_acquire_n(5),
    );
}

/// A look at another key is enough: the time is the table's.
#[test]
fn c2_c7_a_look_at_the_end_of_time_and_a_change_lock_no_caller_out_of_keys() {
    fn checked<A: KeyedAlgorithm<Quota = Quota>>(builder: KeyedBuilder<A>, n: u64) {
        let (time, limits) = keyed(builder, 0, n);
        granted_after_a_look_far_ahead(
            |end| limits.at(end).available("other"),
            || limits.set_quota(limits.quota()).unwrap(),
            || limits.try_acquire_n("new", 3),
        );
        time.set(second(10));
        assert_eq!(limits.try_acquire_n("key", 3), Ok(()));
    }
    checked(Keyed::token_bucket(quota("3/s burst 3")), 3);
    checked(Keyed::leaky_bucket(quota("3/s burst 3")), 3);
    checked(Keyed::fixed_window(quota("3/s")), 3);
    checked(Keyed::segmented_window(quota("3/s")), 3);
}
