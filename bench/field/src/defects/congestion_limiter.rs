//! congestion-limiter 0.1.0.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use congestion_limiter::limiter::{DefaultLimiter, Limiter, Outcome};
use congestion_limiter::limits::{Fixed, Gradient};
use tokio::time::{Instant, advance};

use super::{Experiment, Seen};
use crate::quiet::quietly;

const WHO: &str = "congestion-limiter 0.1.0";

pub const FASTER: Experiment = Experiment {
    number: 9,
    who: WHO,
    what: "Gradient: ten answers after 50 ms, one after 10 ms",
    theirs: || {
        let answers = || {
            crate::paused::runtime().block_on(async {
                let limiter = DefaultLimiter::new(Gradient::new_with_initial_limit(10));
                for latency_ms in [50; 10].into_iter().chain([10]) {
                    if let Some(token) = limiter.try_acquire().await {
                        advance(Duration::from_millis(latency_ms)).await;
                        limiter.release(token, Some(Outcome::Success)).await;
                    }
                }
            });
        };
        let lived = quietly(|| catch_unwind(AssertUnwindSafe(answers)));
        let what = if lived.is_ok() { "goes on" } else { "panics" };
        Seen::new(lived.is_ok(), what)
    },
    ours: None,
};

pub const PARTITIONS: Experiment = Experiment {
    number: 10,
    who: WHO,
    what: "two partitions of two, one waits for up to 5 s, all permits come back after 0.1 s",
    theirs: || {
        crate::paused::runtime().block_on(async {
            let limiter = DefaultLimiter::new(Fixed::new(2));
            let partitions = limiter.create_static_partitions(vec![1.0, 1.0]);
            let [first, second] = partitions.as_slice() else {
                return Seen::new(false, "has not as many partitions as were asked for");
            };
            let (Some(one), Some(other)) = (first.try_acquire().await, second.try_acquire().await)
            else {
                return Seen::new(false, "refuses the first of each");
            };
            let from = Instant::now();
            let waiter = first.acquire_timeout(Duration::from_secs(5));
            let released = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                first.release(one, None).await;
                second.release(other, None).await;
            };
            let (token, ()) = tokio::join!(waiter, released);
            let waited = from.elapsed();
            let right = token.is_some() && waited < Duration::from_secs(1);
            let end = if token.is_some() {
                "served"
            } else {
                "gives up"
            };
            Seen::new(
                right,
                format!(
                    "the one who waits {end} after {:.1} s",
                    waited.as_secs_f64()
                ),
            )
        })
    },
    ours: None,
};
