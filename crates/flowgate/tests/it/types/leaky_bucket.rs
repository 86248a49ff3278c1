//! What a user of `LeakyBucket` is promised beyond what a `TokenBucket` promises.

use flowgate::{LeakyBucket, Limiter, ManualClock, Quota, Timestamp, TokenBucket};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn quota(text: &str) -> Quota {
    text.parse().expect("a quota")
}

fn on(text: &str) -> LeakyBucket {
    LeakyBucket::builder(quota(text))
        .clock(ManualClock::new())
        .build()
        .expect("a limiter")
}

fn at_once(limiter: &LeakyBucket) -> u64 {
    limiter.take_up_to(u64::MAX)
}

#[test]
fn c1_a_count_is_not_a_burst() {
    assert_eq!(at_once(&on("100/s")), 1);
    assert_eq!(at_once(&on("100/s burst 100")), 100);
    assert_eq!(at_once(&on("100/s burst 7")), 7);
    assert_eq!(at_once(&on("2.5/s")), 1);
    assert_eq!(at_once(&on("100/s units 1000")), 1000);
}

#[test]
fn slack_is_what_comes_beyond_the_first() {
    for slack in [0, 1, 10] {
        let limiter = LeakyBucket::builder(quota("100/s burst 3"))
            .clock(ManualClock::new())
            .slack(slack)
            .build()
            .unwrap();
        assert_eq!(at_once(&limiter), 1 + slack);
    }
    let error = LeakyBucket::builder(quota("1/day"))
        .slack(u64::MAX)
        .build()
        .unwrap_err();
    assert!(
        error.to_string().contains("18446744073709551615"),
        "{error}"
    );
}

#[test]
fn slack_outlives_a_change_of_quota_that_sets_no_burst() {
    let limiter = LeakyBucket::builder(quota("100/s"))
        .slack(4)
        .build()
        .unwrap();
    limiter.set_quota(quota("1000/s")).unwrap();
    assert_eq!(limiter.quota(), quota("1000/s burst 5"));
    limiter.set_quota(quota("1000/s burst 2")).unwrap();
    assert_eq!(limiter.quota(), quota("1000/s burst 2"));
    limiter.at(Timestamp::MAX).set_quota(quota("7/s")).unwrap();
    assert_eq!(limiter.quota(), quota("7/s burst 5"));
}

#[test]
fn c1_a_static_spaces_evenly() {
    static LIMIT: LeakyBucket = LeakyBucket::new(Quota::per_hour(60));
    assert!(LIMIT.try_acquire().is_ok());
    let wait = LIMIT.try_acquire().unwrap_err().retry_after().unwrap();
    assert!(wait <= Duration::from_secs(60), "{wait:?}");
}

#[test]
fn any_limiter_may_be_one() {
    let limiter: Arc<dyn Limiter> = Arc::new(on("10/s"));
    assert!(limiter.try_acquire().is_ok());
    assert!(limiter.try_acquire_n(1).is_err());
    let reservation = limiter.try_reserve_n(1).expect("it can reserve").unwrap();
    assert_eq!(reservation.at(), Timestamp::from_nanos(100_000_000));
}

proptest! {
    /// The leaky bucket as a meter written down as ITU-T I.371 has it: a level that runs out.
    #[test]
    fn c1_c2_admits_exactly_what_a_bucket_that_leaks_does(
        per_ns in 1_u64..1000,
        slack in 0_u64..5,
        steps in prop::collection::vec((0_u64..3000, 1_u64..4), 1..60),
    ) {
        let limiter = LeakyBucket::builder(Quota::spacing(Duration::from_nanos(per_ns)).unwrap())
            .clock(ManualClock::new())
            .slack(slack)
            .build()
            .unwrap();
        let twin = TokenBucket::builder(Quota::spacing(Duration::from_nanos(per_ns)).unwrap().burst(1 + slack))
            .clock(ManualClock::new())
            .build()
            .unwrap();
        // A drop is `per_ns` high, and one nanosecond lowers the level by one.
        let capacity = (1 + slack) * per_ns;
        let (mut level, mut last, mut now) = (0_u64, 0_u64, 0_u64);
        for (later, n) in steps {
            now += later;
            level = level.saturating_sub(now - last);
            last = now;
            let fits = level + n * per_ns <= capacity;
            if fits {
                level += n * per_ns;
            }
            let at = Timestamp::from_nanos(now);
            prop_assert_eq!(limiter.at(at).try_acquire_n(n).is_ok(), fits, "at {}", now);
            prop_assert_eq!(twin.at(at).try_acquire_n(n).is_ok(), fits);
        }
    }
}
