//! throttlecrab 0.4.40.

use std::time::{Duration, SystemTime};

use flowgate::Quota;
use throttlecrab::{PeriodicStore, RateLimitResult, RateLimiter};

use super::{Experiment, Seen, bucket, until_refused};

const WHO: &str = "throttlecrab 0.4.40";

pub const IDLE: Experiment = Experiment {
    number: 1,
    who: WHO,
    what: "1/s, burst 10: one request, 8.9 s idle, then as many as it admits at once",
    theirs: || {
        let mut limiter = Limiter::new(10);
        let _first = limiter.ask(0, 1);
        let (_, told) = limiter.ask(8_900, 0);
        let admitted = until_refused(100, || limiter.ask(8_900, 1).0);
        let what = format!("{admitted} admitted, remaining was {}", told.remaining);
        Seen::new(admitted <= 10 && told.remaining <= 10, what)
    },
    ours: Some(|| {
        let (bucket, time) = bucket(Quota::per_second(1).burst(10));
        let first = bucket.try_acquire().is_ok();
        time.advance(Duration::from_millis(8_900));
        let available = bucket.available();
        let admitted = until_refused(100, || bucket.try_acquire().is_ok());
        let what = format!("{admitted} admitted, available was {available}");
        Seen::new(first && admitted == 10 && available == 10, what)
    }),
};

pub const OVERSIZE: Experiment = Experiment {
    number: 2,
    who: WHO,
    what: "1/s, burst 10: ask for 30, and again after the wait that was told, three times",
    theirs: || {
        let mut limiter = Limiter::new(10);
        let mut now_ms = 0;
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let (admitted, told) = limiter.ask(now_ms, 30);
                now_ms += u64::try_from(told.retry_after.as_millis()).unwrap_or(u64::MAX);
                (admitted, told.retry_after)
            })
            .collect();
        let right = waits.iter().all(|(_, wait)| wait.is_zero());
        Seen::new(
            right,
            format!("refused, retry after {:?}, each time", waits[2].1),
        )
    },
    ours: Some(|| {
        let (bucket, _) = bucket(Quota::per_second(1).burst(10));
        let denied = bucket.try_acquire_n(30).err();
        let never =
            denied.is_some_and(|denied| denied.is_never() && denied.retry_after().is_none());
        Seen::new(never, "refused for ever, no time is told")
    }),
};

pub const BURST_OF_ONE: Experiment = Experiment {
    number: 14,
    who: WHO,
    what: "1/s, burst 1: 1000 requests at one instant",
    theirs: || {
        let mut limiter = Limiter::new(1);
        let admitted = until_refused(1_000, || limiter.ask(0, 1).0);
        Seen::new(admitted == 1, format!("{admitted} admitted"))
    },
    ours: Some(|| {
        let (bucket, _) = bucket(Quota::per_second(1).burst(1));
        let admitted = until_refused(1_000, || bucket.try_acquire().is_ok());
        Seen::new(admitted == 1, format!("{admitted} admitted"))
    }),
};

/// One a second, for one key.
struct Limiter {
    limiter: RateLimiter<PeriodicStore>,
    burst: i64,
    built: SystemTime,
}

impl Limiter {
    fn new(burst: i64) -> Self {
        Self {
            limiter: RateLimiter::new(PeriodicStore::new()),
            burst,
            built: SystemTime::now(),
        }
    }

    /// Acquires `quantity`, `after_ms` milliseconds after the limiter was built.
    fn ask(&mut self, after_ms: u64, quantity: i64) -> (bool, RateLimitResult) {
        let now = self.built + Duration::from_millis(after_ms);
        let answer = self
            .limiter
            .rate_limit("key", self.burst, 1, 1, quantity, now);
        answer.expect("the numbers are in range")
    }
}
