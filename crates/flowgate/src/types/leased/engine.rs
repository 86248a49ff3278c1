//! Leases as an engine.

use super::leases::{Leases, Shortage};
use super::word::MAX_UNITS;
use crate::clock::Clock;
use crate::limiter::Snapshot;
use crate::limiter::builder::Build;
use crate::limiter::engine::{Amount, Capabilities, Engine, Refunds, Times, Units};
use crate::limiter::state::{Exports, LimiterStateError, Numbers};
use crate::queue::Receipt;
use crate::quota::QuotaError;
use crate::verdict::{Denied, Verdict};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// What a refusal reports as the wait while it is not known what the authority will answer.
const ANSWER_NS: u64 = 1_000_000;

impl Build for Leases {
    type Settings = u64;

    fn build(limit: u64, clock: &Clock) -> Result<Self, QuotaError> {
        Ok(Self::new(checked(limit)?, clock.clone()))
    }
}

impl Engine for Leases {
    const NAME: &'static str = "Leased";

    fn limit(&self) -> u64 {
        self.limit()
    }

    #[inline(always)]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Verdict) -> Verdict {
        if self.spend_first(now_ns, 1) {
            return Ok(());
        }
        self.take_slowly(now_ns, 1, door)
    }

    #[inline(always)]
    fn take_units(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        if n == 0 || self.spend_first(now_ns, n) {
            return Ok(());
        }
        self.take_slowly(now_ns, n, door)
    }

    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        let n = amount.units(|| 1);
        let verdict = self.take_from_both(now_ns, n);
        if is_short(&verdict) {
            self.note_refused(n);
        }
        self.wake_if_low(is_short(&verdict));
        verdict
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        let taken = self.spend(now_ns, 0, n).unwrap_or(0);
        self.wake_if_low(taken < n);
        taken
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        let remaining = self.held(now_ns).units.min(self.limit());
        Snapshot {
            limit: self.limit(),
            remaining,
            reset_after: match remaining == self.limit() {
                true => Duration::ZERO,
                false => Duration::MAX,
            },
        }
    }

    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        let verdict = self.in_the_present(at_ns, |now_ns| self.take_from_both(now_ns, n));
        self.wake_if_low(is_short(&verdict));
        verdict
    }

    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict {
        self.in_the_present(at_ns, |now_ns| self.ask(now_ns, ahead, n))
    }

    fn look(&self, now_ns: u64, n: u64) -> Verdict {
        self.ask(now_ns, 0, n)
    }

    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], times: &dyn Times) {
        self.refund(n, Some(at_ns), || times.now_ns());
    }

    fn hold(&self, is_held: bool) {
        self.hold_decisions(is_held);
    }

    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) {
        fields.field("limit", &self.limit());
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().refunds(self)
    }
}

impl Refunds for Leases {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        self.refund(n, None, || times.now_ns())
    }
}

/// Leases end with the process.
impl Exports for Leases {
    fn export(&self, _: u64) -> Vec<i128> {
        Vec::new()
    }

    fn import(&self, taken: Numbers<'_>, _: u64) -> Result<(), LimiterStateError> {
        taken.fields([]).map(drop)
    }
}

/// Whether a lease could have made a difference.
/// Returns the limit if a lease can be as large.
pub(super) fn checked(limit: u64) -> Result<u64, QuotaError> {
    QuotaError::in_range("a limit", limit, 1, MAX_UNITS)
}

fn is_short(verdict: &Verdict) -> bool {
    verdict.is_err_and(|denied| !denied.is_never())
}

impl Leases {
    #[cold]
    #[inline(never)]
    fn take_slowly(&self, now_ns: u64, n: u64, door: impl Fn() -> Verdict) -> Verdict {
        if let Err(denied) = door() {
            self.note_refused(n.min(self.limit()));
            return Err(denied);
        }
        self.decide(now_ns, Units(n))
    }

    /// Takes `n` units of the first lease, of both, or none.
    fn fits(&self, n: u64) -> Verdict {
        let limit = self.limit();
        if n > limit {
            return Err(Denied::never(n, limit));
        }
        Ok(())
    }

    fn take_from_both(&self, now_ns: u64, n: u64) -> Verdict {
        self.fits(n)?;
        match self.spend(now_ns, n, n) {
            Some(_) => Ok(()),
            None => Err(self.denied(now_ns)),
        }
    }

    /// Whether `n` units could be taken after `ahead` more.
    fn ask(&self, now_ns: u64, ahead: u128, n: u64) -> Verdict {
        self.fits(n)?;
        if ahead + u128::from(n) <= u128::from(self.held(now_ns).units) {
            return Ok(());
        }
        Err(self.denied(now_ns))
    }

    fn denied(&self, now_ns: u64) -> Denied {
        match self.shortage(now_ns) {
            Shortage::Until(until_ns) => Denied::later(u128::from(until_ns - now_ns), 1),
            Shortage::Asked => Denied::later(ANSWER_NS.into(), 1),
            Shortage::CutOff => Denied::outage(),
        }
    }

    /// Decides by the time of the clock, if a queue asks for an earlier one: a lease that has ended since is not spent.
    fn in_the_present(&self, at_ns: u64, decide: impl FnOnce(u64) -> Verdict) -> Verdict {
        let now_ns = self.clock.now().as_nanos().max(at_ns);
        decide(now_ns).map_err(|denied| denied.sooner(now_ns - at_ns))
    }
}
