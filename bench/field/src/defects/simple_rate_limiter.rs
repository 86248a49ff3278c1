//! simple-rate-limiter 1.0.0.

use std::time::Duration;

use flowgate::{ManualClock, Quota, SlidingWindow};
use simple_rate_limiter::RateLimiter;

use super::{Experiment, Seen};

pub const FIRST: Experiment = Experiment {
    number: 13,
    who: "simple-rate-limiter 1.0.0",
    what: "a limit of 1, in 4 slots: the very first request",
    theirs: || {
        let limited = RateLimiter::new(1, 4).check_limited(0);
        Seen::new(!limited, word(!limited))
    },
    ours: Some(|| {
        let quota = Quota::new(1, Duration::from_secs(4)).expect("4 s are in range");
        let window = SlidingWindow::builder(quota)
            .clock(ManualClock::new())
            .build();
        let admitted = window.is_ok_and(|window| window.try_acquire().is_ok());
        Seen::new(admitted, word(admitted))
    }),
};

fn word(admitted: bool) -> &'static str {
    if admitted { "admitted" } else { "limited" }
}
