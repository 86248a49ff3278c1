//! `peek` answers as a try would, at every type, and takes nothing.

use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    ApproximateWindow, DecayingBucket, Denied, FixedWindow, LeakyBucket, Limiter, ManualClock,
    Quota, SegmentedWindow, SlidingWindow, Striped, Timestamp, TokenBucket, Unlimited, WarmUp,
};

const WINDOW: Duration = Duration::from_nanos(1_000);

/// One of each type, four in a window.
fn every_type(time: &ManualClock) -> Vec<Arc<dyn Limiter>> {
    let quota = Quota::new(4, WINDOW).unwrap();
    vec![
        Arc::new(
            TokenBucket::builder(quota.burst(4))
                .clock(time)
                .build()
                .unwrap(),
        ),
        Arc::new(LeakyBucket::builder(quota).clock(time).build().unwrap()),
        Arc::new(FixedWindow::builder(quota).clock(time).build().unwrap()),
        Arc::new(SlidingWindow::builder(quota).clock(time).build().unwrap()),
        Arc::new(SegmentedWindow::builder(quota).clock(time).build().unwrap()),
        Arc::new(
            ApproximateWindow::builder(quota)
                .clock(time)
                .build()
                .unwrap(),
        ),
        Arc::new(
            WarmUp::builder(quota)
                .warm_up(WINDOW)
                .clock(time)
                .build()
                .unwrap(),
        ),
        Arc::new(
            DecayingBucket::builder(4, WINDOW)
                .clock(time)
                .build()
                .unwrap(),
        ),
        Arc::new(Unlimited::with_clock(time)),
        Arc::new(striped(time)),
    ]
}

/// Enough of them to share.
fn striped(time: &ManualClock) -> Striped<TokenBucket> {
    let quota = Quota::new(4, WINDOW).unwrap().burst(128);
    let bucket = TokenBucket::builder(quota).clock(time).build().unwrap();
    Striped::with_stripes(bucket, 1)
}

/// All that a caller can see of an answer.
fn told(answer: Result<(), Denied>) -> Option<(Option<Duration>, String)> {
    let denied = answer.err()?;
    Some((denied.retry_after(), denied.to_string()))
}

/// The wait is the same, too, to the nanosecond (C3).
#[test]
fn c2_peek_answers_as_a_try_at_that_instant_would() {
    let mut seed = 11_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for limiter in every_type(&ManualClock::new()) {
        let mut now_ns = 0;
        let mut refused = 0;
        for _ in 0..3_000 {
            now_ns += random(400);
            // Now and then by a clock that was read a while ago.
            let ago_ns = if random(5) == 0 { random(3_000) } else { 0 };
            let now = Timestamp::from_nanos(u64::saturating_sub(now_ns, ago_ns));
            let n = random(6);
            let seen = limiter.peek_n_at(now, n);
            assert_eq!(
                limiter.peek_n_at(now, n),
                seen,
                "{limiter:?} took something"
            );
            let tried = limiter.try_acquire_n_at(now, n);
            assert_eq!(told(seen), told(tried), "{n} at {now:?}: {limiter:?}");
            refused += u32::from(tried.is_err());
        }
        let is_limited = limiter.peek_n_at(Timestamp::ORIGIN, 1 << 40).is_err();
        assert_eq!(refused > 0, is_limited, "{limiter:?}");
    }
}

#[test]
fn peek_reads_the_limiter_s_own_clock() {
    let time = ManualClock::new();
    let limiter = LeakyBucket::builder(Quota::per_second(1));
    let limiter: Arc<dyn Limiter> = Arc::new(limiter.clock(&time).build().unwrap());
    assert_eq!(limiter.peek(), Ok(()));
    limiter.try_acquire().unwrap();
    let denied = limiter.peek().unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    time.advance(Duration::from_secs(1));
    assert_eq!(limiter.peek(), Ok(()));
}

#[test]
fn c6_peek_does_not_see_past_those_in_line_or_a_closed_door() {
    let time = ManualClock::new();
    for limiter in every_type(&time) {
        limiter.queue().close();
        let closed = limiter.peek_n_at(time.now(), 1);
        assert_eq!(told(closed), told(limiter.try_acquire_n(1)), "{limiter:?}");
        assert!(closed.unwrap_err().is_closed(), "{limiter:?}");
        assert_eq!(limiter.peek_n_at(time.now(), 0), Ok(()), "{limiter:?}");
    }
}
