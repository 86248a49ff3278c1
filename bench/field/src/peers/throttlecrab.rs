//! throttlecrab 0.4.40: GCRA by wall-clock time, for one key.

use std::time::{Duration, SystemTime};

use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Builder, Driven, Limits, Peer, TELLS, Test, answer};

pub const PEER: Peer = Peer {
    name: "throttlecrab 0.4.40",
    kind: Kind::Bucket,
    takes: "i64 amounts; a period of whole seconds",
    driven: Driven::Any(Builder {
        takes: |limits| numbers(limits).is_some(),
        can: TELLS,
        build,
    }),
    documented: &[],
};

/// 1 January 2026, because it takes the time since 1970 as nanoseconds.
const BUILT: Duration = Duration::from_secs(1_767_225_600);

/// `max_burst`, `count_per_period` and `period`.
fn numbers(limits: &Limits) -> Option<(i64, i64, i64)> {
    let seconds = i64::try_from(limits.period.as_secs()).ok()?;
    (limits.period.subsec_nanos() == 0).then_some((limits.burst()?, limits.count()?, seconds))
}

struct Crab {
    limiter: RateLimiter<PeriodicStore>,
    numbers: (i64, i64, i64),
}

fn build(setup: &Setup, test: Test<'_>) {
    if let Some(numbers) = numbers(&Limits::of(setup)) {
        test(&mut Crab {
            limiter: RateLimiter::new(PeriodicStore::with_capacity(1)),
            numbers,
        });
    }
}

impl Subject for Crab {
    fn capabilities(&self) -> Capabilities {
        TELLS
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let Op::Try { n } = step.op else {
            return OperationOutcome::Skipped;
        };
        let Ok(n) = i64::try_from(n) else {
            return OperationOutcome::Skipped;
        };
        let now = SystemTime::UNIX_EPOCH + BUILT + Duration::from_nanos(step.at_ns);
        let (burst, count, period) = self.numbers;
        match self.limiter.rate_limit("key", burst, count, period, n, now) {
            Ok((true, _)) => OperationOutcome::Admitted,
            Ok((false, told)) => answer(Err(Some(told.retry_after))),
            Err(_) => OperationOutcome::Refused(Retry::Untold),
        }
    }
}
