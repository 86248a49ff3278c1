//! ratelimit 2.0.0.

use std::time::Duration;

use flowgate::{Quota, Timestamp};
use ratelimit::{Builder, Ratelimiter};

use super::{Experiment, Seen, bucket, until_refused};
use crate::time::Time;

const WHO: &str = "ratelimit 2.0.0";

pub const POLLED: Experiment = Experiment {
    number: 3,
    who: WHO,
    what: "1/s, empty, polled every 1.9 µs for 20 s",
    theirs: || {
        let (limiter, time) = empty(1, 2);
        let admitted = poll(|ns| {
            time.set(ns);
            limiter.try_wait().is_ok()
        });
        Seen::new(admitted == 20, format!("{admitted} admitted, 20 were due"))
    },
    ours: Some(|| {
        let (bucket, _) = bucket(Quota::per_second(1).burst(2));
        bucket.take_up_to(2);
        let admitted = poll(|ns| bucket.at(Timestamp::from_nanos(ns)).try_acquire().is_ok());
        Seen::new(admitted == 20, format!("{admitted} admitted, 20 were due"))
    }),
};

pub const RAISED: Experiment = Experiment {
    number: 4,
    who: WHO,
    what: "empty, 10 s at 1/s, then the rate becomes 1000/s: how many at once",
    theirs: || {
        let (limiter, time) = empty(1, 100_000);
        time.set(10_000_000_000);
        limiter.set_rate(1_000);
        let admitted = until_refused(100_000, || limiter.try_wait().is_ok());
        Seen::new(
            admitted == 10,
            format!("{admitted} admitted, 10 were earned"),
        )
    },
    ours: Some(|| {
        let (bucket, time) = bucket(Quota::per_second(1).burst(100_000));
        bucket.take_up_to(100_000);
        time.advance(Duration::from_secs(10));
        let changed = bucket.set_rate(1_000, Duration::from_secs(1)).is_ok();
        let admitted = until_refused(100_000, || bucket.try_acquire().is_ok());
        let what = format!("{admitted} admitted, 10 were earned");
        Seen::new(changed && admitted == 10, what)
    }),
};

fn empty(rate: u64, burst: u64) -> (Ratelimiter<Time>, Time) {
    let time = Time::default();
    let limiter = Builder::with_clock(rate, time.clone())
        .max_tokens(burst)
        .build();
    (limiter.expect("the numbers are in range"), time)
}

/// How often `admits_at` says yes, asked every 1.9 µs for 20 s.
fn poll(mut admits_at: impl FnMut(u64) -> bool) -> usize {
    let times = (1..).map(|poll| poll * 1_900);
    times
        .take_while(|ns| *ns < 20_000_000_000 + 1_900)
        .filter(|ns| admits_at(*ns))
        .count()
}
