//! Limiters that drain: `TokenBucket`, the baseline, and what is like it.

use std::time::Duration;

use flowgate::{DecayingBucket, LeakyBucket, PayAfter, Quota, TokenBucket, WarmUp};
use flowgate_bench::cases::{Case, Traffic};

use super::{Ask, full, per_hour, quota, through_trait, with_room};
use crate::section::TOKEN_BUCKET;

const SECOND: Duration = Duration::from_secs(1);

/// More than is taken in a run.
const AMPLE: u64 = 1_000_000_000;

/// How long it takes to go cold. From wholly warm to where permits begin to cost more is half of it, more
/// than a lap takes.
const WARM_UP: Duration = Duration::from_millis(50);

pub fn admitting() -> Vec<Case> {
    let draining = ample(quota(1_000, SECOND));
    let cold = || warm_up(quota(AMPLE, SECOND));
    vec![
        with_room(TOKEN_BUCKET, || TokenBucket::new(draining)),
        with_room("LeakyBucket", || LeakyBucket::new(draining)),
        with_room("PayAfter", || pay_after(draining)),
        Case::prepared("WarmUp, warm", Traffic::Admit, cold, warm, WarmUp::ask),
        with_room("WarmUp, cold", cold),
        with_room("DecayingBucket", || decaying(AMPLE, SECOND)),
    ]
}

pub fn refusing() -> Vec<Case> {
    vec![
        full(TOKEN_BUCKET, || TokenBucket::new(per_hour(1))),
        full("LeakyBucket", || LeakyBucket::new(per_hour(1))),
        full("PayAfter", || pay_after(per_hour(1))),
        full("WarmUp", || warm_up(per_hour(1))),
        full("DecayingBucket", || decaying(1, 3_600 * SECOND)),
    ]
}

fn ample(quota: Quota) -> Quota {
    quota.try_burst(AMPLE).expect("the limits fit")
}

fn pay_after(quota: Quota) -> PayAfter {
    TokenBucket::new(quota).pay_after()
}

fn warm_up(quota: Quota) -> WarmUp {
    WarmUp::new(quota, WARM_UP).expect("the warm-up fits")
}

fn decaying(capacity: u64, half_life: Duration) -> DecayingBucket {
    DecayingBucket::new(capacity, half_life).expect("the capacity fits")
}

/// Takes all that the rest before has stored, and waits until that is paid.
fn warm(limiter: &WarmUp) {
    let limiter = through_trait(limiter);
    // Of one permit per nanosecond, a warm-up's worth is stored.
    let _ = limiter.try_acquire_n(WARM_UP.as_nanos() as u64);
    while limiter.try_acquire().is_err() {
        std::hint::spin_loop();
    }
}
