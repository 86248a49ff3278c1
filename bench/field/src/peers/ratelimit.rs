//! ratelimit 2.0.0: millionths of tokens, and when they were last filled up, in two atomics.

use std::time::Duration;

use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use ratelimit::{Builder as Ratelimit, Ratelimiter, TryWaitError};

use super::{Builder, Driven, Limits, Peer, TELLS, Test, answer};
use crate::time::Time;

pub const PEER: Peer = Peer {
    name: "ratelimit 2.0.0",
    kind: Kind::Bucket,
    takes: "u64 amounts, a burst of at most u64::MAX millionths",
    driven: Driven::Any(Builder {
        takes: |limits| limits.count::<u64>().is_some() && limits.burst <= MOST,
        can: CAN,
        build,
    }),
    documented: &[],
};

/// It counts in millionths of a token.
const MOST: u64 = u64::MAX / 1_000_000;

const CAN: Capabilities = Capabilities {
    set_quota: true,
    ..TELLS
};

struct TwoAtomics {
    limiter: Ratelimiter<Time>,
    time: Time,
}

fn build(setup: &Setup, test: Test<'_>) {
    let limits = Limits::of(setup);
    let time = Time::default();
    let limiter = limits.count().and_then(|count| {
        Ratelimit::with_clock(count, time.clone())
            .period(limits.period)
            .max_tokens(limits.burst)
            .initial_available(limits.burst)
            .build()
            .ok()
    });
    if let Some(limiter) = limiter {
        test(&mut TwoAtomics { limiter, time });
    }
}

impl TwoAtomics {
    fn try_n(&self, n: u64) -> Result<(), Option<Duration>> {
        self.limiter.try_wait_n(n).map_err(|error| match error {
            TryWaitError::Insufficient(wait) => Some(wait),
            _ => None,
        })
    }
}

impl Subject for TwoAtomics {
    fn capabilities(&self) -> Capabilities {
        CAN
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.time.set(step.at_ns);
        match step.op {
            Op::Try { n } => answer(self.try_n(n)),
            Op::SetQuota { quota, .. } => {
                let limits = Limits::of(&Setup::new(quota));
                let Some(count) = limits.count() else {
                    return OperationOutcome::Skipped;
                };
                self.limiter.set_rate_per(count, limits.period);
                self.limiter.set_max_tokens(limits.burst);
                OperationOutcome::Changed
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
