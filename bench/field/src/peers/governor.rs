//! governor 0.10.4, direct: GCRA in whole nanoseconds.

use std::num::NonZeroU32;
use std::time::Duration;

use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::{Builder, Driven, Limits, Peer, TELLS, Test, answer};
use crate::time::Time;

pub const PEER: Peer = Peer {
    name: "governor 0.10.4",
    kind: Kind::Bucket,
    takes: "u32 amounts; per second, minute or hour, or one per any period",
    driven: Driven::Any(Builder {
        takes: |limits| quota(limits).is_some(),
        can: TELLS,
        build,
    }),
    documented: &[],
};

/// The quota by the constructor that its users have for it.
fn quota(limits: &Limits) -> Option<Quota> {
    let count = NonZeroU32::new(limits.count()?)?;
    let burst = NonZeroU32::new(limits.burst()?)?;
    let quota = match (count.get(), limits.period.as_nanos()) {
        (1, _) => Quota::with_period(limits.period)?,
        (_, 1_000_000_000) => Quota::per_second(count),
        (_, 60_000_000_000) => Quota::per_minute(count),
        (_, 3_600_000_000_000) => Quota::per_hour(count),
        _ => return None,
    };
    Some(quota.allow_burst(burst))
}

struct Governor {
    limiter: RateLimiter<NotKeyed, InMemoryState, Time, NoOpMiddleware<Nanos>>,
    time: Time,
}

fn build(setup: &Setup, test: Test<'_>) {
    let Some(quota) = quota(&Limits::of(setup)) else {
        return;
    };
    let time = Time::default();
    let limiter = RateLimiter::direct_with_clock(quota, time.clone());
    test(&mut Governor { limiter, time });
}

impl Governor {
    fn try_n(&self, n: NonZeroU32) -> Result<(), Option<Duration>> {
        match self.limiter.check_n(n) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(not_until)) => Err(Some(not_until.wait_time_from(self.time.now()))),
            Err(_) => Err(None),
        }
    }
}

impl Subject for Governor {
    fn capabilities(&self) -> Capabilities {
        TELLS
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.time.set(step.at_ns);
        match step.op {
            Op::Try { n } => {
                let n = u32::try_from(n).ok().and_then(NonZeroU32::new);
                n.map_or(OperationOutcome::Skipped, |n| answer(self.try_n(n)))
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
