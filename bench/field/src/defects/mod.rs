//! Defects that were once seen, each repeated in a few lines over the crate as it is now, and over flowgate.

mod async_rate_limiter;
mod congestion_limiter;
mod gcra;
mod governor;
mod ratelimit;
mod simple_rate_limiter;
mod throttle_kit;
mod throttle_net;
mod throttlecrab;

use flowgate::{ManualClock, Quota, TokenBucket};

use crate::seen::Seen;

/// An experiment, and who is asked.
pub struct Experiment {
    /// As it is counted in this project.
    pub number: u8,
    /// The crate, with its version.
    pub who: &'static str,
    /// Description of the experiment.
    pub what: &'static str,
    /// What the crate does.
    pub theirs: fn() -> Seen,
    /// What flowgate does, unless it has nothing of the kind.
    pub ours: Option<fn() -> Seen>,
}

/// All of them, in order.
pub const ALL: [Experiment; 14] = [
    throttlecrab::IDLE,
    throttlecrab::OVERSIZE,
    ratelimit::POLLED,
    ratelimit::RAISED,
    gcra::OVERSIZE,
    async_rate_limiter::TIMED_OUT,
    governor::WRAPPED,
    throttle_kit::MILLISECONDS,
    congestion_limiter::FASTER,
    congestion_limiter::PARTITIONS,
    throttle_net::CANCELLED,
    throttle_net::OVERTAKEN,
    simple_rate_limiter::FIRST,
    throttlecrab::BURST_OF_ONE,
];

/// A flowgate bucket on a clock of its own.
fn bucket(quota: Quota) -> (TokenBucket, ManualClock) {
    let time = ManualClock::new();
    let bucket = TokenBucket::builder(quota).clock(&time).build();
    (bucket.expect("the quota is in range"), time)
}

/// How often `admits` says yes, up to the first no, or to `most`.
fn until_refused(most: u64, mut admits: impl FnMut() -> bool) -> u64 {
    (0..most).take_while(|_| admits()).count() as u64
}
