//! async-rate-limiter 1.1.0.

use std::time::Duration;

use async_rate_limiter::RateLimiter;
use flowgate::Quota;

use super::{Experiment, Seen, bucket};

pub const TIMED_OUT: Experiment = Experiment {
    number: 6,
    who: "async-rate-limiter 1.1.0",
    what: "10/s, used up: 100 callers who wait no time give up; how long the next one has to wait",
    theirs: || {
        let limiter = RateLimiter::new(10);
        limiter.burst(1);
        let runtime = crate::paused::runtime();
        let patient = runtime.block_on(async {
            limiter.acquire().await;
            let mut patient = 0;
            for _ in 0..100 {
                let admitted = limiter.acquire_with_timeout(Duration::ZERO).await;
                patient += u32::from(admitted);
            }
            patient
        });
        // It reads the real clock, so this is a little less than it was.
        let wait = limiter.try_acquire().err().unwrap_or_default();
        let tenths = (wait.as_millis() + 50) / 100;
        let right = patient == 0 && wait <= Duration::from_millis(100);
        Seen::new(right, format!("{}.{} s", tenths / 10, tenths % 10))
    },
    ours: Some(|| {
        let (bucket, _) = bucket(Quota::per_second(10).burst(1));
        let first = bucket.try_acquire().is_ok();
        let patient = (0..100)
            .filter(|_| bucket.acquire().within(Duration::ZERO).block().is_ok())
            .count();
        let wait = bucket
            .try_acquire()
            .err()
            .and_then(|denied| denied.retry_after());
        let right = first && patient == 0 && wait == Some(Duration::from_millis(100));
        Seen::new(
            right,
            format!("{:.1} s", wait.unwrap_or_default().as_secs_f64()),
        )
    }),
};
