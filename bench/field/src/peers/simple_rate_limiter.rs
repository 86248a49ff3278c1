//! simple-rate-limiter 1.0.0: counts in slots, which the caller rotates.

use std::sync::Arc;

use flowgate_testkit::promise::Kind;
use flowgate_testkit::script::{Op, OperationOutcome, Retry, Setup, Step};
use flowgate_testkit::subject::{Capabilities, Subject};
use simple_rate_limiter::RateLimiter;

use super::{Builder, Driven, Limits, Peer, Test};

/// It counts the current slot and the one before, and a slot lasts a window: so what was admitted is counted for
/// a window at least and for two at most.
const SLOTS: u64 = 2;

pub const PEER: Peer = Peer {
    name: "simple-rate-limiter 1.0.0, 2 slots",
    kind: Kind::Segmented { segments: 1 },
    takes: "usize amounts, one at a time; a slot lasts a window",
    driven: Driven::Periods(Builder {
        takes: |limits| limits.count::<usize>().is_some(),
        can: Capabilities::NONE,
        build,
    }),
    documented: &[],
};

struct Slots {
    limiter: Arc<RateLimiter<u8>>,
    slot_ns: u64,
    rotated: u64,
}

fn build(setup: &Setup, test: Test<'_>) {
    let limits = Limits::of(setup);
    let slot_ns = u64::try_from(limits.period.as_nanos());
    if let (Some(limit), Ok(slot_ns), Ok(slots)) = (limits.count(), slot_ns, SLOTS.try_into()) {
        test(&mut Slots {
            limiter: RateLimiter::new(limit, slots),
            slot_ns,
            rotated: 0,
        });
    }
}

impl Subject for Slots {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let slot = step.at_ns / self.slot_ns;
        // More rotations than it has slots change nothing.
        for _ in 0..slot.saturating_sub(self.rotated).min(SLOTS) {
            self.limiter.rotate_slots();
        }
        self.rotated = self.rotated.max(slot);
        match step.op {
            Op::Try { n: 1 } if self.limiter.check_limited(0) => {
                OperationOutcome::Refused(Retry::Untold)
            }
            Op::Try { n: 1 } => OperationOutcome::Admitted,
            _ => OperationOutcome::Skipped,
        }
    }
}
