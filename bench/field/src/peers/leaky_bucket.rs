//! leaky-bucket 1.1.2: a stock that is refilled at instants, over tokio's clock.

use std::time::Duration;

use flowgate_testkit::conformance::Contract;
use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use leaky_bucket::RateLimiter;
use tokio::runtime::Runtime;

use super::{Builder, Difference, Documented, Driven, Limits, Peer, Test};
use crate::matrix::Slack;

pub const PEER: Peer = Peer {
    name: "leaky-bucket 1.1.2",
    kind: Kind::Bucket,
    takes: "usize amounts; whole milliseconds between tokens",
    driven: Driven::Forward(Builder {
        takes: |limits| interval(limits).is_some() && limits.burst <= MOST,
        can: CAN,
        build,
    }),
    documented: &[Documented {
        contracts: &[Contract::C1, Contract::C2],
        difference: Difference::Of(Slack {
            ns: 0,
            millionths: 1_000_000,
        }),
        says: "\"interval\" is the time \"between which we add `refill`\": tokens come in steps, by a grid of its own",
    }],
};

/// "The maximum supported balance is limited to `isize::MAX`."
const MOST: u64 = i64::MAX as u64;

const CAN: Capabilities = Capabilities {
    costs: true,
    ..Capabilities::NONE
};

/// "Interval to add tokens in milliseconds."
fn interval(limits: &Limits) -> Option<Duration> {
    let interval = limits.interval()?;
    interval
        .subsec_nanos()
        .is_multiple_of(1_000_000)
        .then_some(interval)
}

struct Stock {
    limiter: RateLimiter,
    runtime: Runtime,
    now_ns: u64,
}

fn build(setup: &Setup, test: Test<'_>) {
    let limits = Limits::of(setup);
    let (Some(interval), Some(burst)) = (interval(&limits), limits.burst()) else {
        return;
    };
    let runtime = crate::paused::runtime();
    let limiter = {
        let _entered = runtime.enter();
        let mut builder = RateLimiter::builder();
        builder
            .max(burst)
            .initial(burst)
            .refill(1)
            .interval(interval)
            .build()
    };
    test(&mut Stock {
        limiter,
        runtime,
        now_ns: 0,
    });
}

impl Subject for Stock {
    fn capabilities(&self) -> Capabilities {
        CAN
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let forward = Duration::from_nanos(step.at_ns.saturating_sub(self.now_ns));
        self.now_ns = self.now_ns.max(step.at_ns);
        let (Op::Try { n }, limiter) = (step.op, &self.limiter) else {
            return OperationOutcome::Skipped;
        };
        let Ok(n) = usize::try_from(n) else {
            return OperationOutcome::Skipped;
        };
        let admitted = self.runtime.block_on(async {
            tokio::time::advance(forward).await;
            limiter.try_acquire(n)
        });
        if admitted {
            OperationOutcome::Admitted
        } else {
            OperationOutcome::Refused(Retry::Untold)
        }
    }
}
