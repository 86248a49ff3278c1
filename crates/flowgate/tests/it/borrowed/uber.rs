//! The cases of uber-go/ratelimit's own tests. Its `Take` is [`LeakyBucket::reserve`], of which the caller waits for
//! the time; its slack has to be earned first, so these buckets begin with room for one.

use flowgate::{LeakyBucket, ManualClock, Timestamp};
use std::time::Duration;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn limiter(quota: &str, slack: u64) -> LeakyBucket {
    LeakyBucket::builder(quota.parse().expect("a quota"))
        .clock(ManualClock::new())
        .slack(slack)
        .initial_tokens(1)
        .build()
        .expect("a limiter")
}

/// When somebody who takes at `now_ns` may go on.
fn take(limiter: &LeakyBucket, now_ns: u64) -> u64 {
    let turn = limiter.at(Timestamp::from_nanos(now_ns)).reserve();
    turn.expect("a turn").at().as_nanos()
}

/// How many takes return before `end_ns` to somebody who takes from `now_ns` on without a pause.
fn takes_until(limiter: &LeakyBucket, mut now_ns: u64, end_ns: u64) -> u64 {
    let mut taken = 0;
    loop {
        now_ns = take(limiter, now_ns);
        if now_ns >= end_ns {
            return taken;
        }
        taken += 1;
    }
}

#[test]
fn c1_c2_takers_get_the_rate() {
    for seconds in 1..=3 {
        assert_eq!(
            takes_until(&limiter("100/s", 0), 0, seconds * S),
            100 * seconds
        );
    }
}

#[test]
fn c8_seven_per_minute_are_eight_in_the_first_minute_and_seven_in_the_next() {
    let limiter = limiter("7/min", 0);
    let times: Vec<_> = (0..15).map(|_| take(&limiter, 0)).collect();
    let by = |ns| times.iter().filter(|&&time| time <= ns).count();
    // theirs is 3 ns early after a minute, because its interval is cut to whole nanoseconds
    assert_eq!([by(S), by(60 * S), by(120 * S)], [1, 8, 15]);
    assert_eq!(times[7], 60 * S);
}

#[test]
fn c1_the_first_takes_are_spaced_with_slack_or_without() {
    for slack in [0, 10] {
        let limiter = limiter("10/s", slack);
        assert_eq!([(); 3].map(|()| take(&limiter, 0)), [0, 100 * MS, 200 * MS]);
    }
}

#[test]
fn c1_c2_a_slow_taker_keeps_a_fast_limit_from_being_reached_and_leaves_slack() {
    // rate of the fast limit, its slack, and how many have been taken 1 s after the slow taker has gone
    for (quota, slack, taken) in [
        ("100/s", 0, 120),
        ("100/s", 10, 130),
        ("100/s", 20, 140),
        ("100/s", 150, 270),
        ("100/500ms", 10, 230),
        ("100/500ms", 20, 240),
        ("100/500ms", 150, 370),
    ] {
        let (slow, fast) = (limiter("10/s", 0), limiter(quota, slack));
        let mut now_ns = 0;
        let mut count = 0;
        while now_ns < 2 * S {
            now_ns = take(&fast, take(&slow, now_ns));
            count += u64::from(now_ns < 2 * S);
        }
        // The last of these came at 2 s, and is the first of the fast ones.
        let total = count + 1 + takes_until(&fast, 2 * S, 3 * S);
        assert_eq!(total, taken, "{quota} with slack {slack}");
    }
}

#[test]
fn c2_slack_is_used_up_after_a_rest() {
    let limiter = limiter("100/s", 10);
    assert_eq!(take(&limiter, 0), 0);
    let mut now_ns = 45 * MS;
    let gaps = [(); 9].map(|()| {
        let before = now_ns;
        now_ns = take(&limiter, now_ns);
        (now_ns - before) / MS
    });
    assert_eq!(gaps, [0, 0, 0, 0, 5, 10, 10, 10, 10]);
}

#[test]
fn c2_slack_of_one() {
    let limiter = limiter("1/s", 1);
    let waits = [1, 2 * S + 1, 2 * S + 2, 2 * S + 3, 2 * S + 4].map(|now| take(&limiter, now));
    assert_eq!(waits, [1, 2 * S + 1, 2 * S + 2, 3 * S + 1, 4 * S + 1]);
}

#[test]
fn c4_a_rest_longer_than_any_leaves_no_more_than_the_slack() {
    let limiter = limiter("100/s", 10);
    take(&limiter, 0);
    let at = limiter.at(Timestamp::from_nanos(u64::MAX));
    assert_eq!(at.take_up_to(u64::MAX), 11);
    assert_eq!(
        at.try_acquire().unwrap_err().retry_after(),
        Some(Duration::from_millis(10))
    );
}
