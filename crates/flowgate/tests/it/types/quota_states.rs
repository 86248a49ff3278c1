//! Each of two quotas by itself.

use flowgate::{DualTokenBucket, Keyed, Limiter, ManualClock, Quota, Quotas, TokenBucket};
use flowgate_testkit::task::Task;
use std::time::Duration;

/// When `bucket` has one more whole token.
fn next_after(quota: Quota, bucket: &TokenBucket) -> Option<Duration> {
    let (snapshot, token) = (bucket.snapshot(), quota.scale());
    let next = (snapshot.remaining / token + 1) * token;
    let wait = |n| match bucket.peek_n(n) {
        Ok(()) => Duration::ZERO,
        Err(denied) => denied.retry_after().expect("a time"),
    };
    (next <= snapshot.limit).then(|| wait(next))
}

#[test]
fn c3_each_quota_stands_as_a_bucket_of_its_own_would() {
    let mut random = fastrand::Rng::with_seed(20);
    let in_parts = |quota: Quota| quota.units_per_token(10).expect("it fits");
    let parts = [Quota::per_second(2), Quota::per_minute(60)].map(in_parts);
    let all = [
        "10/s burst 5; 1000/day".parse().expect("two quotas"),
        "7/min; 3/s burst 30".parse().expect("two quotas"),
        Quotas::new(parts).expect("they fit"),
    ];
    for quotas in all {
        let time = ManualClock::new();
        let limiter = DualTokenBucket::builder(quotas)
            .clock(&time)
            .build()
            .expect("a bucket");
        let pair = [0, 1].map(|index| quotas.as_slice()[index]);
        let alone = pair.map(|quota| {
            let bucket = TokenBucket::builder(quota).clock(&time).build();
            bucket.expect("a bucket")
        });
        for _ in 0..2_000 {
            time.advance(Duration::from_nanos(random.u64(0..2_000_000_000)));
            let n = random.u64(0..4);
            if limiter.try_acquire_n(n).is_ok() {
                for bucket in &alone {
                    bucket.try_acquire_n(n).expect("both have it");
                }
            }
            let states = limiter.quota_states().expect("two quotas");
            for ((state, bucket), quota) in states.iter().zip(&alone).zip(pair) {
                assert_eq!(state.quota, quota);
                assert_eq!(state.snapshot, bucket.snapshot(), "{quotas}");
                assert_eq!(state.next_after, next_after(quota, bucket), "{quotas}");
            }
        }
    }
}

/// What all of it says, each by itself says, too: of a key, whose times are rounded.
#[test]
fn c3_the_states_of_a_key_agree_with_its_decisions() {
    let mut random = fastrand::Rng::with_seed(21);
    for text in [
        "10/s burst 5; 1000/day",
        "7/min; 3/s burst 30",
        "100/min burst 20; 5000/day",
    ] {
        let time = ManualClock::new();
        let quotas = text.parse().expect("two quotas");
        let users = Keyed::dual_token_bucket(quotas)
            .clock(&time)
            .capacity(100)
            .expect("a table");
        for round in 0..4_000 {
            time.advance(Duration::from_nanos(random.u64(0..2_000_000_000)));
            if round == 2_000 {
                let others = "20/s burst 9; 500/day".parse().expect("two quotas");
                users.set_quotas(others).expect("they fit");
            }
            _ = users.try_acquire_n("ann", random.u64(0..4));
            let ann = users.key("ann");
            let states = ann.quota_states().expect("two quotas");
            let limits = states.map(|state| state.snapshot.limit);
            let all = ann.snapshot();
            let left = states.map(|state| state.snapshot.remaining);
            assert_eq!(all.remaining, left[0].min(left[1]).min(all.limit), "{text}");
            // The whole of the smaller burst.
            if limits[0] == limits[1] {
                let resets = states.map(|state| state.snapshot.reset_after);
                assert_eq!(all.reset_after, resets[0].max(resets[1]));
            }
            if all.remaining < all.limit {
                let waits = states.map(|state| match state.snapshot.remaining {
                    remaining if remaining == all.remaining => state.next_after,
                    _ => None,
                });
                let wait = waits[0].max(waits[1]);
                let denied = ann
                    .peek_n(all.remaining + 1)
                    .expect_err("it is more than there is");
                assert_eq!(denied.retry_after(), wait, "{text}");
                if waits[0] != waits[1] {
                    let longer = usize::from(waits[1] > waits[0]);
                    assert_eq!(denied.limit(), Some(longer), "{text}");
                }
            }
        }
    }
}

#[test]
fn one_quota_and_other_limiters_have_no_states_of_their_own() {
    let one = DualTokenBucket::new("10/s".parse().expect("a quota"));
    assert_eq!(one.quota_states(), None);
    assert_eq!(
        one.policy().map(|policy| policy.quota),
        Some(Quota::per_second(10))
    );
    assert_eq!(TokenBucket::new(Quota::per_second(10)).quota_states(), None);
}

/// Those who wait come first, so nothing is left for others.
#[test]
fn c2_behind_waiters_nothing_is_left_of_either_quota() {
    let time = ManualClock::new();
    let quotas = "1/s burst 1; 1000/day".parse().expect("two quotas");
    let limiter = DualTokenBucket::builder(quotas)
        .clock(&time)
        .build()
        .expect("a bucket");
    limiter.try_acquire().expect("it is full");
    let _waits = Task::start(limiter.acquire());
    let states = limiter.quota_states().expect("two quotas");
    assert_eq!(states.map(|state| state.snapshot.remaining), [0, 0]);
    let two_seconds = Some(Duration::from_secs(2));
    assert_eq!(states.map(|state| state.next_after), [two_seconds; 2]);
}

/// Whoever asks how a limit stands grants the waiter that is due, and does not count its token.
#[test]
fn c1_c6_what_a_waiter_is_granted_meanwhile_is_not_left() {
    let time = ManualClock::new();
    let quotas = || "1/s burst 1; 1000/day".parse().expect("two quotas");
    let limiter = DualTokenBucket::builder(quotas())
        .clock(&time)
        .build()
        .expect("a bucket");
    let users = Keyed::dual_token_bucket(quotas())
        .clock(&time)
        .capacity(10)
        .expect("a table");
    let ann = users.key("ann");
    let limiters: [&dyn Limiter; 2] = [&limiter, &ann];
    for limiter in limiters {
        limiter.try_acquire().expect("it is full");
        let waits = Task::start(flowgate::Acquire::new(limiter));
        // A table rounds times up.
        time.advance(Duration::from_millis(1_100));
        let states = limiter.quota_states().expect("two quotas");
        let left = states.map(|state| state.snapshot.remaining);
        assert_eq!(left, [0, 998], "{limiter:?}");
        assert_eq!(limiter.snapshot().remaining, 0);
        drop(waits);
    }
}
