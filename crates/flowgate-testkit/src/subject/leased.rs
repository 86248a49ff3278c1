//! A limiter whose tokens come from another one, request by request.

use core::time::Duration;

use flowgate::{Leased, ManualClock, Timestamp, TokenBucket};

use super::{Capabilities, Subject, answer, refusal};
use crate::script::{Op, OperationOutcome, Setup, Step};

/// The most units of a [`Leased`] limiter.
const MAX_LIMIT: u64 = (1 << 22) - 1;

/// Two ticks of the end of a lease, so that at least one is left after rounding.
const LEASE: Duration = Duration::from_nanos(2 * 65_536);

/// Builds a [`Leased`] limiter that is filled for each request: a [`BuildSubject`](super::BuildSubject).
///
/// It asks a token bucket for what the request needs. Nothing stays in a lease, so its bound is that of the bucket. Builds nothing if the burst is above 4,194,303 units.
///
/// ```
/// use flowgate_testkit::promise::Kind;
/// use flowgate_testkit::{conformance, subject};
///
/// let report = conformance::check(Kind::Bucket, &subject::leased, 20);
/// assert!(report.findings.is_empty(), "{report}");
/// ```
///
/// # Panics
///
/// Panics if the bucket cannot be built by `setup`.
pub fn leased(setup: &Setup, test: &mut dyn FnMut(&mut dyn Subject)) {
    let authority = setup
        .token_bucket()
        .expect("the setup is in the range that flowgate accepts");
    let limit = authority.snapshot().limit;
    if limit <= MAX_LIMIT {
        let limiter = Leased::builder(limit).clock(ManualClock::new()).build();
        test(&mut LeasedSubject {
            limiter: limiter.expect("the limit is in range"),
            authority,
        });
    }
}

struct LeasedSubject {
    limiter: Leased,
    authority: TokenBucket,
}

impl LeasedSubject {
    /// Has the authority answer for `min` to `max` units. Returns `false` if no lease fits before the end of time.
    fn fill(&self, now: Timestamp, min: u64, max: u64) -> bool {
        let filler = self.limiter.filler();
        let until = now + LEASE;
        if until == Timestamp::MAX {
            return false;
        }
        let at = self.authority.at(now);
        let taken = match min {
            0 => Ok(at.take_up_to(max)),
            _ => at.try_acquire_n(min).map(|()| min),
        };
        match taken {
            Ok(units) => {
                filler.grant(units, until);
            }
            Err(denied) => match denied.retry_after() {
                Some(wait) if now + wait + LEASE < Timestamp::MAX => filler.deny_until(now + wait),
                _ => return false,
            },
        }
        true
    }
}

impl Subject for LeasedSubject {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            costs: true,
            take_up_to: true,
            retry_after: true,
            ..Capabilities::NONE
        }
    }

    fn step(&mut self, step: &Step) -> OperationOutcome {
        let now = Timestamp::from_nanos(step.at_ns);
        let limiter = self.limiter.at(now);
        match step.op {
            Op::Try { n } => match limiter.try_acquire_n(n) {
                Err(denied) if denied.is_never() => refusal(denied),
                Err(_) if self.fill(now, n, n) => answer(limiter.try_acquire_n(n)),
                Err(_) => OperationOutcome::Skipped,
                Ok(()) => OperationOutcome::Admitted,
            },
            Op::TakeUpTo { n } if self.fill(now, 0, n) => {
                OperationOutcome::Took(limiter.take_up_to(n))
            }
            _ => OperationOutcome::Skipped,
        }
    }
}
