//! Runs each operation N and then 2N times inside a window, for callgrind to count.
//!
//! The costs of start-up and of a window cancel in (Ir(2N) - Ir(N)) / N. `ci/instructions.sh` runs this program and
//! checks the ceilings.

mod permits;
mod types;
mod window;

use std::hint::black_box;
use std::time::Duration;

use flowgate::{Clock, ManualClock, Quota, TokenBucket};

/// N: large enough that a window's own cost is nothing beside it.
const OPERATIONS: u64 = 10_000;

const BURST: u64 = 1_000_000_000;

fn main() {
    let manual = ManualClock::new();
    count("manual", operations(&Clock::from(&manual)));
    count("manual", permits::operations(&Clock::from(&manual)));
    count("default", operations(&Clock::system()));
    count("default", types::on_default_clock());
    count("given", types::at_given_times());
}

fn count(clock: &str, operations: Vec<Operation>) {
    for operation in operations {
        window::count(operation.name, clock, OPERATIONS, &*operation.repeat);
    }
}

struct Operation {
    name: &'static str,
    repeat: Box<dyn Fn(u64)>,
}

/// An operation over `state`, told how many times it has run in this window. Its result passes
/// through `black_box`, so it is computed in full.
fn operation<S: 'static, R>(
    name: &'static str,
    state: S,
    run: impl Fn(&S, u64) -> R + 'static,
) -> Operation {
    let repeat = move |times| {
        for i in 0..times {
            black_box(run(black_box(&state), i));
        }
    };
    Operation {
        name,
        repeat: Box::new(repeat),
    }
}

fn operations(clock: &Clock) -> Vec<Operation> {
    // Never empty, never full again: every window finds the same case.
    let ample = || bucket(clock, quota(1_000, Duration::from_secs(1), BURST));
    let drained = || emptied(ample());
    let refusing = || emptied(bucket(clock, quota(1, Duration::from_secs(3_600), 1)));
    // A fraction that needs the wide layout; in debt for a day, so that it refuses.
    let wide = || {
        bucket(
            clock,
            quota(999_999_937, Duration::from_secs(86_400), BURST),
        )
    };
    let wide_refusing = || {
        let bucket = emptied(wide());
        bucket.overdraw(BURST).expect("the debt fits");
        bucket
    };
    let quotas = [1_000, 2_000].map(|count| quota(count, Duration::from_secs(1), BURST));

    vec![
        operation("empty_loop", (), |(), i| i),
        operation("clock_now", clock.clone(), |clock, _| clock.now()),
        operation("try_acquire_admit", ample(), |b, _| b.try_acquire().is_ok()),
        operation("try_acquire_refuse", refusing(), |b, _| {
            b.try_acquire().is_ok()
        }),
        operation("try_acquire_retry_after", refusing(), |b, _| {
            b.try_acquire().map_err(|denied| denied.retry_after())
        }),
        operation("try_acquire_n_5", ample(), |b, _| {
            b.try_acquire_n(5).is_ok()
        }),
        operation("wide_admit", wide(), |b, _| b.try_acquire().is_ok()),
        operation("wide_refuse", wide_refusing(), |b, _| {
            b.try_acquire().is_ok()
        }),
        operation("take_up_to_5", ample(), |b, _| b.take_up_to(5)),
        operation("reserve_now", ample(), |b, _| b.reserve().map(|r| r.at())),
        operation("reserve_later", drained(), |b, _| {
            b.reserve().map(|r| r.at())
        }),
        operation("overdraw_5", ample(), |b, _| b.overdraw(5).is_ok()),
        operation("refund_1", drained(), |b, _| b.refund(1)),
        operation("available", ample(), |b, _| b.available()),
        operation("snapshot", ample(), |b, _| b.snapshot()),
        operation("set_quota", ample(), move |b, i| {
            b.set_quota(quotas[(i % 2) as usize])
        }),
    ]
}

fn quota(count: u64, period: Duration, burst: u64) -> Quota {
    Quota::new(count, period)
        .and_then(|q| q.try_burst(burst))
        .expect("the quota can be kept")
}

fn bucket(clock: &Clock, quota: Quota) -> TokenBucket {
    TokenBucket::builder(quota)
        .clock(clock.clone())
        .build()
        .expect("the bucket can be built")
}

fn emptied(bucket: TokenBucket) -> TokenBucket {
    bucket.take_up_to(BURST);
    bucket
}
