//! gcra 0.6.0.

use std::time::{Duration, Instant};

use flowgate::{Keyed, ManualClock, Quota};
use gcra::{RateLimit, RateLimiter};

use super::{Experiment, Seen, until_refused};

pub const OVERSIZE: Experiment = Experiment {
    number: 5,
    who: "gcra 0.6.0",
    what: "a key uses up its 3/h, asks for 100, and then for 1 as often as it is admitted",
    theirs: || {
        let limiter = RateLimiter::<u64>::new(16);
        let limit = RateLimit::new(3, Duration::from_secs(3_600));
        let now = Instant::now();
        let runtime = crate::paused::runtime();
        let admits = |cost| {
            let asked = limiter.check_at(7, &limit, cost, now);
            runtime.block_on(asked).is_ok()
        };
        let first = until_refused(100, || admits(1));
        let oversize = admits(100);
        let again = until_refused(100, || admits(1));
        let what = format!("{first} admitted, and {again} more after the request for 100");
        Seen::new(first == 3 && !oversize && again == 0, what)
    },
    ours: Some(|| {
        let quota = Quota::per_hour(3);
        let keyed = Keyed::token_bucket(quota).clock(ManualClock::new());
        let keyed = keyed.capacity(16).expect("16 keys fit into memory");
        let first = until_refused(100, || keyed.try_acquire(&7).is_ok());
        let oversize = keyed.try_acquire_n(&7, 100).is_ok();
        let again = until_refused(100, || keyed.try_acquire(&7).is_ok());
        let what = format!("{first} admitted, and {again} more after the request for 100");
        Seen::new(first == 3 && !oversize && again == 0, what)
    }),
};
