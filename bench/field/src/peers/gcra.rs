//! gcra 0.6.0: GCRA over `Instant`.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use gcra::{GcraError, GcraState, RateLimit};

use super::{Builder, Driven, Limits, Peer, TELLS, Test, answer};

pub const PEER: Peer = Peer {
    name: "gcra 0.6.0",
    kind: Kind::Bucket,
    takes: "u32 amounts; the burst is the count",
    driven: Driven::Any(Builder {
        takes: |limits| rate_limit(limits).is_some(),
        can: CAN,
        build,
    }),
    documented: &[],
};

const CAN: Capabilities = Capabilities {
    refund: true,
    ..TELLS
};

fn rate_limit(limits: &Limits) -> Option<RateLimit> {
    let count = limits.count::<u32>()?;
    (u64::from(count) == limits.burst).then(|| RateLimit::new(count, limits.period))
}

struct State {
    state: GcraState,
    limit: RateLimit,
}

fn build(setup: &Setup, test: Test<'_>) {
    if let Some(limit) = rate_limit(&Limits::of(setup)) {
        test(&mut State {
            state: GcraState::default(),
            limit,
        });
    }
}

fn instant(ns: u64) -> Instant {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *ORIGIN + Duration::from_nanos(ns)
}

impl State {
    fn try_n(&mut self, now: Instant, n: u32) -> Result<(), Option<Duration>> {
        let decision = self.state.check_and_modify_at(&self.limit, now, n);
        decision.map_err(|error| match error {
            GcraError::DeniedUntil { next_allowed_at } => {
                Some(next_allowed_at.saturating_duration_since(now))
            }
            GcraError::DeniedIndefinitely { .. } => None,
        })
    }
}

impl Subject for State {
    fn capabilities(&self) -> Capabilities {
        CAN
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = instant(step.at_ns);
        match step.op {
            Op::Try { n } => {
                let n = u32::try_from(n);
                n.map_or(OperationOutcome::Skipped, |n| answer(self.try_n(now, n)))
            }
            Op::Refund { n } => {
                let reverted = u32::try_from(n)
                    .is_ok_and(|n| self.state.revert_at(&self.limit, now, n).is_ok());
                // It does not say how much.
                if reverted {
                    OperationOutcome::Back(n)
                } else {
                    OperationOutcome::Skipped
                }
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
