//! throttle-net 2.0.0.

use flowgate::ConcurrencyLimit;

use super::Experiment;
use crate::waiting::{rates, slots};

const WHO: &str = "throttle-net 2.0.0";

pub const CANCELLED: Experiment = Experiment {
    number: 11,
    who: WHO,
    what: "10/s, empty: A waits for 10, B behind it for 1; A gives up after 0.05 s; others try every 0.01 s",
    theirs: || {
        rates::run(rates::ThrottleNet::new, async |limiter| {
            rates::cancelled_head(limiter).await
        })
    },
    ours: Some(|| {
        rates::run(rates::Ours::new, async |limiter| {
            rates::cancelled_head(limiter).await
        })
    }),
};

pub const OVERTAKEN: Experiment = Experiment {
    number: 12,
    who: WHO,
    what: "AdaptiveLimiter of 1: its holder lets go and tries again 1000 times, while one waits",
    theirs: || slots::let_go_and_retaken(&slots::adaptive(1)),
    ours: Some(|| slots::let_go_and_retaken(&ConcurrencyLimit::new(1))),
};
