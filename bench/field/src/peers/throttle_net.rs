//! throttle-net 2.0.0: its token bucket, which is better-bucket's, and its log of grants.

use std::time::Duration;

use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use throttle_net::{Decision, SlidingWindowLog, Throttle};

use super::{Builder, Driven, Limits, Peer, Reserved, TELLS, Test, answer, better_bucket};
use crate::time::Time;

pub const PEERS: [Peer; 2] = [
    Peer {
        name: "throttle-net 2.0.0 Throttle",
        kind: Kind::Bucket,
        takes: better_bucket::EXACT,
        driven: Driven::Any(Builder {
            takes: |limits| {
                better_bucket::is_exact(limits) && throttle(limits, Time::default()).is_some()
            },
            can: BUCKET,
            build: build_throttle,
        }),
        // Its accounting is "in better-bucket".
        documented: &better_bucket::DOCUMENTED,
    },
    Peer {
        name: "throttle-net 2.0.0 SlidingWindowLog",
        kind: Kind::Sliding,
        takes: "u32 amounts",
        driven: Driven::Any(Builder {
            takes: |limits| limits.count::<u32>().is_some(),
            can: LOG,
            build: build_log,
        }),
        documented: &[],
    },
];

const BUCKET: Capabilities = Capabilities {
    reserve: true,
    refund: true,
    ..TELLS
};

const LOG: Capabilities = Capabilities {
    refund: true,
    ..TELLS
};

fn throttle(limits: &Limits, time: Time) -> Option<Throttle<Time>> {
    let builder = Throttle::builder().rate(limits.count()?, limits.period);
    builder.burst(limits.burst()?).clock(time).try_build().ok()
}

fn build_throttle(setup: &Setup, test: Test<'_>) {
    let time = Time::default();
    if let Some(throttle) = throttle(&Limits::of(setup), time.clone()) {
        test(&mut Bucket {
            throttle,
            time,
            reserved: Reserved::default(),
        });
    }
}

fn build_log(setup: &Setup, test: Test<'_>) {
    let (limits, time) = (Limits::of(setup), Time::default());
    if let Some(limit) = limits.count() {
        let log = SlidingWindowLog::new(limit, limits.period).with_clock(time.clone());
        test(&mut Log { log, time });
    }
}

/// Returns the refusal, if no other call happened since.
fn told(decision: Decision) -> OperationOutcome {
    match decision {
        Decision::Impossible => answer(Err(None)),
        decision => answer(Err(decision.retry_after())),
    }
}

struct Bucket {
    throttle: Throttle<Time>,
    time: Time,
    reserved: Reserved,
}

impl Subject for Bucket {
    fn capabilities(&self) -> Capabilities {
        BUCKET
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.time.set(step.at_ns);
        self.amounts(step).unwrap_or(OperationOutcome::Skipped)
    }
}

impl Bucket {
    /// `None` for an amount that is not a u32, and for what it cannot do.
    fn amounts(&mut self, step: &Step) -> Option<OperationOutcome> {
        match step.op {
            Op::Try { n } => {
                let n = u32::try_from(n).ok()?;
                let admitted = self.throttle.try_acquire_with_cost(n);
                Some(if admitted {
                    OperationOutcome::Admitted
                } else {
                    told(self.throttle.peek(n))
                })
            }
            Op::Reserve { n, within_ns } => {
                let n = u32::try_from(n).ok()?;
                let within = within_ns.map_or(Duration::MAX, Duration::from_nanos);
                Some(match self.throttle.reserve(n, within) {
                    Some(wait) => self.reserved.add(n, step.at_ns, wait),
                    None => OperationOutcome::Refused(Retry::Untold),
                })
            }
            Op::Cancel { pick } => {
                let n = self.reserved.cancel(pick, step.at_ns)?;
                self.throttle.refund(n);
                Some(OperationOutcome::Back(n.into()))
            }
            Op::Refund { n } => {
                self.throttle.refund(u32::try_from(n).ok()?);
                Some(OperationOutcome::Back(n))
            }
            _ => None,
        }
    }
}

struct Log {
    log: SlidingWindowLog<Time>,
    time: Time,
}

impl Subject for Log {
    fn capabilities(&self) -> Capabilities {
        LOG
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        self.time.set(step.at_ns);
        let (Op::Try { n } | Op::Refund { n }) = step.op else {
            return OperationOutcome::Skipped;
        };
        match (step.op, u32::try_from(n)) {
            (Op::Try { .. }, Ok(n)) if self.log.try_acquire_with_cost(n) => {
                OperationOutcome::Admitted
            }
            (Op::Try { .. }, Ok(n)) => told(self.log.peek(n)),
            (_, Ok(amount)) => {
                self.log.refund(amount);
                OperationOutcome::Back(n)
            }
            (_, Err(_)) => OperationOutcome::Skipped,
        }
    }
}
