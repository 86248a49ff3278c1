//! The log of admissions as an engine.

use super::log::Log;
use crate::limiter::Snapshot;
use crate::limiter::engine::{Engine, Refunds, Requotas, Times};
use crate::limiter::reservation::Receipt;
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError};
use crate::verdict::{Denied, duration_from_nanos};
use core::fmt;

impl Engine for Log {
    const NAME: &'static str = "SlidingWindow";

    fn token(&self) -> u64 {
        self.token()
    }

    fn limit(&self) -> u64 {
        self.limit()
    }

    #[inline]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Result<(), Denied>) -> Result<(), Denied> {
        door()?;
        self.take_token(now_ns)
    }

    #[inline]
    fn take_units(
        &self,
        now_ns: u64,
        n: u64,
        door: impl Fn() -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        door()?;
        self.take_units(now_ns, n)
    }

    fn take_up_to(&self, now_ns: u64, n: u64, door: impl Fn() -> Result<(), Denied>) -> u64 {
        match door() {
            Ok(()) => self.take_up_to(now_ns, n),
            Err(_) => 0,
        }
    }

    fn available(&self, now_ns: u64, door: impl Fn() -> Result<(), Denied>) -> u64 {
        match door() {
            Ok(()) => self.look(now_ns).1,
            Err(_) => 0,
        }
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        let (limit, remaining, empty_ns) = self.look(now_ns);
        Snapshot {
            limit,
            remaining,
            reset_after: duration_from_nanos(empty_ns),
        }
    }

    fn policy(&self) -> Option<Policy> {
        Some(Policy::new(self.quota(), false))
    }

    fn grant(&self, at_ns: u64, n: u64) -> Result<(), Denied> {
        self.take_dated(at_ns, n)
    }

    fn take(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.take_units(now_ns, n)
    }

    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Result<(), Denied> {
        self.look_ahead(at_ns, ahead, n)
    }

    fn look(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.foretell(now_ns, n)
    }

    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], _: &dyn Times) {
        self.take_out(at_ns, n);
    }

    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) {
        fields.field("quota", &self.quota());
    }

    fn refunds(&self) -> Option<&dyn Refunds> {
        Some(self)
    }

    fn requotas(&self) -> Option<&dyn Requotas> {
        Some(self)
    }
}

impl Refunds for Log {
    fn refund(&self, n: u64, times: &dyn Times) -> u64 {
        self.refund(|| times.latest_ns(), n)
    }
}

impl Requotas for Log {
    fn quota(&self) -> Quota {
        self.quota()
    }

    fn set_quota(&self, quota: Quota, times: &dyn Times) -> Result<(), QuotaError> {
        self.set_quota(quota, || times.now_ns())
    }
}
