//! throttle-kit 2.1.2, on the real clock, which it reads itself.

use std::time::{Duration, Instant};

use flowgate::{Quota, Timestamp};
use throttle_kit::{InMemoryBackend, RateLimiter};
use tokio::runtime::Runtime;

use super::{Experiment, Seen, bucket};

/// How long each rate is asked for.
const TIME: Duration = Duration::from_millis(300);

/// So much is the burst, so that nothing is lost if the machine stops this thread for a while.
const BURST: u32 = 100;

pub const MILLISECONDS: Experiment = Experiment {
    number: 8,
    who: "throttle-kit 2.1.2",
    what: "burst 5: `remaining` of five requests; what comes of 600/s, and of 5000/s, in 0.3 s",
    theirs: || {
        let runtime = crate::paused::runtime();
        let limiter = RateLimiter::new(throttle_kit::Quota::per_minute(5), InMemoryBackend::new());
        let remaining: Vec<_> = (0..5)
            .map(|_| runtime.block_on(limiter.check("key")).remaining)
            .collect();
        seen(
            &remaining,
            measured(&runtime, 600),
            measured(&runtime, 5_000),
        )
    },
    ours: Some(|| {
        let (limiter, _) = bucket(Quota::per_minute(5));
        let remaining: Vec<_> = (0..5)
            .map(|_| {
                let admitted = limiter.try_acquire().is_ok();
                if admitted {
                    limiter.available()
                } else {
                    u64::MAX
                }
            })
            .collect();
        seen(&remaining, ours(600), ours(5_000))
    }),
};

fn seen(remaining: &[u64], of_600: f64, of_5000: f64) -> Seen {
    let near = |rate: f64, meant: f64| (0.8..1.2).contains(&(rate / meant));
    let right = remaining == [4, 3, 2, 1, 0] && near(of_600, 600.0) && near(of_5000, 5_000.0);
    // To 50/s: the real clock is not as exact as the rest here.
    let round = |rate: f64| (rate / 50.0).round() * 50.0;
    let what = format!(
        "remaining {remaining:?}; {:.0}/s; {:.0}/s",
        round(of_600),
        round(of_5000)
    );
    Seen::new(right, what)
}

/// The rate at which one who always asks is admitted, once the burst is used up.
fn measured(runtime: &Runtime, rate: u32) -> f64 {
    let quota = throttle_kit::Quota::per_second(rate).allow_burst(BURST);
    let limiter = RateLimiter::new(quota, InMemoryBackend::new());
    let admits = || runtime.block_on(limiter.check("key")).allowed;
    while admits() {}
    let (from, mut admitted) = (Instant::now(), 0_u32);
    while from.elapsed() < TIME {
        admitted += u32::from(admits());
    }
    f64::from(admitted) / from.elapsed().as_secs_f64()
}

/// The same, asked every microsecond of a time that is given.
fn ours(rate: u64) -> f64 {
    let (bucket, _) = bucket(Quota::per_second(rate).burst(BURST.into()));
    bucket.take_up_to(BURST.into());
    let times = (1..=300_000).map(|us| Timestamp::from_nanos(us * 1_000));
    let admitted = times
        .filter(|now| bucket.at(*now).try_acquire().is_ok())
        .count();
    admitted as f64 / TIME.as_secs_f64()
}
