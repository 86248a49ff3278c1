//! What many threads ask of one limiter: the word alone, in stripes, in batches of one owner each.

use std::num::NonZeroU32;
use std::time::Duration;

use flowgate::{Batch, Quota, TokenBucket};
use flowgate_bench::cases::{Case, FLOWGATE, GOVERNOR, Traffic};

pub const STRIPED: &str = "flowgate, striped";
const BATCH: &str = "flowgate, batches of 64";

/// More than is taken.
const AMPLE: u32 = 1_000_000_000;
/// Enough to share, soon used up, and with an exact state that fits into 64 bits.
const SCARCE: u32 = 10_000;

pub fn cases() -> Vec<Case> {
    [Traffic::Admit, Traffic::RefuseFull]
        .into_iter()
        .flat_map(of)
        .collect()
}

fn of(traffic: Traffic) -> Vec<Case> {
    let alone = || {
        emptied(traffic, TokenBucket::new(quota(traffic)), |limiter| {
            limiter.try_acquire().is_ok()
        })
    };
    let striped = || {
        emptied(
            traffic,
            TokenBucket::new(quota(traffic)).striped(),
            |limiter| limiter.try_acquire().is_ok(),
        )
    };
    let governor = || emptied(traffic, peer(traffic), |limiter| limiter.check().is_ok());
    let mut cases = vec![
        Case::built(GOVERNOR, traffic, governor, |limiter| {
            limiter.check().is_ok()
        }),
        Case::built(FLOWGATE, traffic, alone, |limiter| {
            limiter.try_acquire().is_ok()
        }),
        Case::built(STRIPED, traffic, striped, |limiter| {
            limiter.try_acquire().is_ok()
        }),
    ];
    if traffic == Traffic::Admit {
        cases.push(in_batches());
    }
    cases
}

/// Each look at the stopwatch begins with an empty batch.
fn in_batches() -> Case {
    let limiter = TokenBucket::new(quota(Traffic::Admit));
    Case {
        subject: BATCH,
        traffic: Traffic::Admit,
        batch: Box::new(move |operations| {
            let mut batch = Batch::new(std::hint::black_box(&limiter), 64);
            (0..operations)
                .map(|_| u64::from(std::hint::black_box(&mut batch).try_acquire().is_ok()))
                .sum()
        }),
        prepare: None,
        bytes: None,
    }
}

fn quota(traffic: Traffic) -> Quota {
    let (count, period, burst) = limit(traffic);
    Quota::new(u64::from(count), period)
        .and_then(|quota| quota.try_burst(u64::from(burst)))
        .expect("the limits fit")
}

fn peer(traffic: Traffic) -> governor::DefaultDirectRateLimiter {
    let (count, period, burst) = limit(traffic);
    let quota = governor::Quota::with_period(period / count)
        .expect("spacings are at least 1 ns")
        .allow_burst(NonZeroU32::new(burst).expect("bursts are at least 1"));
    governor::RateLimiter::direct(quota)
}

fn limit(traffic: Traffic) -> (u32, Duration, u32) {
    match traffic {
        Traffic::RefuseFull => (1, Duration::from_secs(60), SCARCE),
        _ => (AMPLE, Duration::from_secs(1), AMPLE),
    }
}

/// Asked until it says no, if that is what is measured.
fn emptied<L>(traffic: Traffic, limiter: L, ask: impl Fn(&L) -> bool) -> L {
    while traffic == Traffic::RefuseFull && ask(std::hint::black_box(&limiter)) {}
    limiter
}
