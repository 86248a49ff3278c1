//! What all limiters of flowgate look like from outside: a confusion matrix, and the findings about the broken
//! limiters.

use core::time::Duration;

use fastrand::Rng;
use flowgate::{
    ApproximateWindow, DecayingBucket, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota,
    SegmentedWindow, SlidingWindow, Timestamp, TokenBucket, Unlimited, WarmUp,
};

use super::{Budget, Findings, Investigation, verify_at, verify_fn};
use crate::broken::{Checker, broken_limiters};
use crate::script::{Op, OperationOutcome, Setup, Step};
use crate::subject::Subject;

/// Quotas of the matrix, with periods from a second to minutes.
pub const QUOTAS: [&str; 6] = [
    "1/min burst 1",
    "5/s burst 1",
    "7/3s burst 7",
    "100/s burst 20",
    "100/s burst 100",
    "5000/s burst 100",
];

/// A limiter on a manual clock, as built by [`limiters`].
pub type Built = (Box<dyn Limiter>, ManualClock);

/// A type of limiter with its builder for a quota. Windows are as long as a burst takes to refill.
pub type Entry = (&'static str, fn(Quota) -> Option<Built>);

/// Returns every flowgate type that limits a rate.
pub fn limiters() -> Vec<Entry> {
    vec![
        ("token bucket", |quota| {
            let time = ManualClock::new();
            let built = TokenBucket::builder(quota).clock(&time).build().ok()?;
            Some((Box::new(built), time))
        }),
        ("leaky bucket", |quota| {
            let time = ManualClock::new();
            let built = LeakyBucket::builder(quota).clock(&time).build().ok()?;
            Some((Box::new(built), time))
        }),
        ("next caller pays", |quota| {
            let time = ManualClock::new();
            let built = TokenBucket::builder(quota).clock(&time).build().ok()?;
            Some((Box::new(built.pay_after()), time))
        }),
        ("fixed window", |quota| {
            let time = ManualClock::new();
            let built = FixedWindow::builder(window(quota)?)
                .clock(&time)
                .build()
                .ok()?;
            Some((Box::new(built), time))
        }),
        ("fixed window, aligned", |quota| {
            let time = ManualClock::new();
            let quota = window(quota)?;
            let third = Timestamp::from_nanos(quota.period().as_nanos() as u64 / 3);
            let built = FixedWindow::builder(quota)
                .clock(&time)
                .align(third)
                .build()
                .ok()?;
            Some((Box::new(built), time))
        }),
        ("sliding window", |quota| {
            let time = ManualClock::new();
            let built = SlidingWindow::builder(window(quota)?)
                .clock(&time)
                .build()
                .ok()?;
            Some((Box::new(built), time))
        }),
        ("approximate window", |quota| {
            let time = ManualClock::new();
            let built = ApproximateWindow::builder(window(quota)?)
                .clock(&time)
                .build()
                .ok()?;
            Some((Box::new(built), time))
        }),
        ("segmented window, 1", |quota| segmented(quota, 1)),
        ("segmented window, 2", |quota| segmented(quota, 2)),
        ("segmented window, 6", |quota| segmented(quota, 6)),
        ("segmented window, 10", |quota| segmented(quota, 10)),
        ("warm-up", |quota| {
            let time = ManualClock::new();
            let longer = quota.period().checked_mul(3)?;
            let built = WarmUp::builder(quota)
                .clock(&time)
                .warm_up(longer)
                .build()
                .ok()?;
            Some((Box::new(built), time))
        }),
        ("decaying bucket", |quota| {
            let time = ManualClock::new();
            let half_life = window(quota)?.period();
            let built = DecayingBucket::builder(quota.max_burst(), half_life).clock(&time);
            Some((Box::new(built.build().ok()?), time))
        }),
        ("unlimited", |_| {
            let time = ManualClock::new();
            Some((Box::new(Unlimited::with_clock(&time)), time))
        }),
    ]
}

fn segmented(quota: Quota, segments: u64) -> Option<Built> {
    let time = ManualClock::new();
    let builder = SegmentedWindow::builder(window(quota)?)
        .clock(&time)
        .segments(segments);
    Some((Box::new(builder.build().ok()?), time))
}

/// Returns the window in which a burst refills.
fn window(quota: Quota) -> Option<Quota> {
    let nanos = quota.period().as_nanos() * u128::from(quota.max_burst());
    let period = Duration::from_nanos((nanos / u128::from(quota.count())) as u64);
    Quota::new(quota.max_burst(), period).ok()
}

/// Returns a budget that suffices: five minutes, or the time of a hundred tokens.
pub fn budget(quota: Quota) -> Budget {
    let tokens = quota.period().as_secs_f64() / quota.count() as f64;
    Budget {
        time: Duration::from_secs_f64(60_f64.max(100.0 * tokens)),
        ..Budget::default()
    }
}

/// Returns the findings about `entry` at `quota`; `None` if there is no such limiter.
///
/// `seed` determines the requests, the response times, and the limiter's time at the start.
pub fn look(entry: Entry, quota: Quota, seed: u64) -> Option<Findings> {
    let (limiter, clock) = (entry.1)(quota)?;
    clock.set(Timestamp::from_nanos(
        Rng::with_seed(seed).u64(0..LATEST_NS),
    ));
    let investigation = Investigation::new().budget(budget(quota)).seed(seed);
    let service = SERVICES[seed as usize % SERVICES.len()];
    Some(verify_at(&clock, &investigation, service, seed, |_| {
        limiter.try_acquire().is_ok().into()
    }))
}

/// Maximum response times.
const SERVICES: [Duration; 3] = [
    Duration::from_millis(1),
    Duration::from_micros(100),
    Duration::from_millis(3),
];

/// Investigations start before this time.
const LATEST_NS: u64 = 1_000_000_000_000;

/// Returns the findings about each broken limiter that one caller can drive.
///
/// The expected limit is its quota.
/// limit.
///
/// Only limiters that the conformance suite or the oracle detects are included.
pub fn broken(quota: Quota) -> Vec<(&'static str, Findings)> {
    let driven = broken_limiters().into_iter().filter_map(|limiter| {
        let build = match limiter.checker {
            Checker::Conformance(_, _, build) | Checker::Oracle(_, build) => build,
            Checker::Schedules(..) => return None,
        };
        let mut findings = None;
        build(&Setup::new(quota), &mut |subject| {
            findings = Some(look_at(subject, quota));
        });
        Some((limiter.name, findings?))
    });
    driven.collect()
}

fn look_at(subject: &mut dyn Subject, quota: Quota) -> Findings {
    let investigation = Investigation::new().expected(quota).budget(budget(quota));
    verify_fn(&ManualClock::new(), &investigation, |question| {
        let step = Step {
            at_ns: question.at_ns,
            op: Op::Try { n: 1 },
        };
        matches!(subject.step(&step), OperationOutcome::Admitted).into()
    })
}
