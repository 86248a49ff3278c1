//! better-bucket 1.1.0: the instant of emptiness in one word of token fractions.

use std::time::Duration;

use better_bucket::{Bucket, BucketConfig};
use flowgate_testkit::conformance::Contract;
use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};

use super::{
    Builder, Difference, Documented, Driven, Limits, Peer, Reserved, TELLS, Test, answer,
    unless_never,
};
use crate::matrix::Slack;
use crate::time::Time;

pub const PEER: Peer = Peer {
    name: "better-bucket 1.1.0",
    kind: Kind::Bucket,
    takes: EXACT,
    driven: Driven::Any(Builder {
        takes: |limits| is_exact(limits) && config(limits).is_some(),
        can: CAN,
        build,
    }),
    documented: &DOCUMENTED,
};

/// What it can keep, by its documentation.
pub const EXACT: &str =
    "u32 amounts; what its documentation calls exact: up to 4.3e9/s, full within 36 years";

/// Returns whether the crate represents the limit exactly, by its documentation.
///
/// "Faster buckets round each grant up to a multi-token unit"; a token is "up to 2^-28 of a token early, for a bucket
/// whose time to fill exceeds ~36 years".
pub fn is_exact(limits: &Limits) -> bool {
    const YEARS_NS: u128 = 36 * 365 * 86_400 * 1_000_000_000;
    let period_ns = limits.period.as_nanos();
    limits.count * 10 <= 43 * period_ns
        && u128::from(limits.burst) * period_ns <= limits.count.saturating_mul(YEARS_NS)
}

/// Also said by those that are built on it.
pub const DOCUMENTED: [Documented; 3] = [
    Documented {
        contracts: &[Contract::C1, Contract::C4],
        difference: Difference::Of(Slack {
            ns: 10,
            millionths: 0,
        }),
        says: "a token \"may be granted a few nanoseconds before it is exactly due\"",
    },
    Documented {
        contracts: &[Contract::C3],
        difference: Difference::EarlierThanTold,
        says: "retry_after is \"rounded up to the millisecond\"",
    },
    Documented {
        contracts: &[Contract::C5],
        difference: Difference::Any,
        says: "refunds \"deliberately add tokens and are outside that bound\"",
    },
];

const CAN: Capabilities = Capabilities {
    take_up_to: true,
    reserve: true,
    refund: true,
    ..TELLS
};

fn config(limits: &Limits) -> Option<BucketConfig> {
    let burst = limits.burst()?;
    BucketConfig::new(burst, limits.count()?, limits.period, burst).ok()
}

struct Emptiness {
    bucket: Bucket<Time>,
    time: Time,
    reserved: Reserved,
}

fn build(setup: &Setup, test: Test<'_>) {
    let Some(config) = config(&Limits::of(setup)) else {
        return;
    };
    let time = Time::default();
    test(&mut Emptiness {
        bucket: Bucket::with_config_and_clock(config, time.clone()),
        time,
        reserved: Reserved::default(),
    });
}

impl Subject for Emptiness {
    fn capabilities(&self) -> Capabilities {
        CAN
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.time.set(step.at_ns);
        self.amounts(step).unwrap_or(OperationOutcome::Skipped)
    }
}

impl Emptiness {
    /// `None` for an amount that is not a u32, and for what it cannot do.
    fn amounts(&mut self, step: &Step) -> Option<OperationOutcome> {
        match step.op {
            Op::Try { n } => {
                let decision = self.bucket.acquire(u32::try_from(n).ok()?);
                Some(answer(
                    decision
                        .retry_after()
                        .map_or(Ok(()), |wait| Err(unless_never(wait))),
                ))
            }
            Op::TakeUpTo { n } => {
                let took = self.bucket.acquire_up_to(u32::try_from(n).ok()?);
                Some(OperationOutcome::Took(took.into()))
            }
            Op::Reserve { n, within_ns } => {
                let n = u32::try_from(n).ok()?;
                let within = within_ns.map_or(Duration::MAX, Duration::from_nanos);
                Some(match self.bucket.reserve(n, within) {
                    Some(wait) => self.reserved.add(n, step.at_ns, wait),
                    None => OperationOutcome::Refused(Retry::Untold),
                })
            }
            Op::Cancel { pick } => {
                let n = self.reserved.cancel(pick, step.at_ns)?;
                self.bucket.refund(n);
                Some(OperationOutcome::Back(n.into()))
            }
            Op::Refund { n } => {
                self.bucket.refund(u32::try_from(n).ok()?);
                Some(OperationOutcome::Back(n))
            }
            _ => None,
        }
    }
}
