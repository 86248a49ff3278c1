//! rate-net 2.1.0, with one key: its five algorithms.

use flowgate_testkit::promise::{Anchor, Kind};
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use rate_net::{Algorithm, RateLimiter};

use super::{
    Builder, Documented, Driven, Limits, Peer, TELLS, Test, answer, better_bucket, unless_never,
};
use crate::time::Time;

pub const PEERS: [Peer; 5] = [
    peer(
        "rate-net 2.1.0 TokenBucket",
        better_bucket::EXACT,
        Kind::Bucket,
        |limits| {
            better_bucket::is_exact(limits)
                && limiter(limits, Algorithm::TokenBucket, Time::default()).is_some()
        },
        |setup, test| build(setup, Algorithm::TokenBucket, test),
        // It is "provided by better-bucket".
        &better_bucket::DOCUMENTED,
    ),
    peer(
        "rate-net 2.1.0 LeakyBucket",
        "u32 amounts",
        Kind::Bucket,
        |limits| limiter(limits, Algorithm::LeakyBucket, Time::default()).is_some(),
        |setup, test| build(setup, Algorithm::LeakyBucket, test),
        &[],
    ),
    peer(
        "rate-net 2.1.0 SlidingWindowLog",
        "u32 amounts",
        Kind::Sliding,
        |limits| limiter(limits, Algorithm::SlidingWindowLog, Time::default()).is_some(),
        |setup, test| build(setup, Algorithm::SlidingWindowLog, test),
        &[],
    ),
    peer(
        "rate-net 2.1.0 SlidingWindowCounter",
        "u32 amounts",
        Kind::Approximate,
        |limits| limiter(limits, Algorithm::SlidingWindowCounter, Time::default()).is_some(),
        |setup, test| build(setup, Algorithm::SlidingWindowCounter, test),
        &[],
    ),
    peer(
        "rate-net 2.1.0 FixedWindow",
        "u32 amounts",
        Kind::Window(Anchor::Aligned(0)),
        |limits| limiter(limits, Algorithm::FixedWindow, Time::default()).is_some(),
        |setup, test| build(setup, Algorithm::FixedWindow, test),
        &[],
    ),
];

const fn peer(
    name: &'static str,
    asked: &'static str,
    kind: Kind,
    takes: fn(&Limits) -> bool,
    build: fn(&Setup, Test<'_>),
    documented: &'static [Documented],
) -> Peer {
    Peer {
        name,
        kind,
        takes: asked,
        driven: Driven::Any(Builder {
            takes,
            can: TELLS,
            build,
        }),
        documented,
    }
}

fn limiter(limits: &Limits, algorithm: Algorithm, time: Time) -> Option<RateLimiter<Time>> {
    let builder = RateLimiter::builder().quota(limits.count()?, limits.period);
    let builder = builder
        .burst(limits.burst()?)
        .algorithm(algorithm)
        .shards(1);
    builder.clock(time).try_build().ok()
}

struct OneKey {
    limiter: RateLimiter<Time>,
    time: Time,
}

fn build(setup: &Setup, algorithm: Algorithm, test: Test<'_>) {
    let time = Time::default();
    if let Some(limiter) = limiter(&Limits::of(setup), algorithm, time.clone()) {
        test(&mut OneKey { limiter, time });
    }
}

impl Subject for OneKey {
    fn capabilities(&self) -> Capabilities {
        TELLS
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.time.set(step.at_ns);
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let Ok(n) = u32::try_from(n) else {
            return OperationOutcome::Skipped;
        };
        let decision = self.limiter.check_n("key", n);
        answer(
            decision
                .retry_after()
                .map_or(Ok(()), |wait| Err(unless_never(wait))),
        )
    }
}
