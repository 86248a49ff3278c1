//! The bucket as an engine.

use super::level::Decaying;
use super::parameters::{Parameters, pack, unpack};
use crate::limiter::Snapshot;
use crate::limiter::engine::{Engine, Times};
use crate::limiter::reservation::Receipt;
use crate::store::cell::Step;
use crate::verdict::{Denied, duration_from_nanos};
use core::fmt;
use core::time::Duration;

impl Engine for Decaying {
    const NAME: &'static str = "DecayingBucket";

    fn limit(&self) -> u64 {
        self.bucket().capacity()
    }

    #[inline]
    fn take_token(&self, now_ns: u64, door: impl Fn() -> Result<(), Denied>) -> Result<(), Denied> {
        door()?;
        self.take_now(now_ns, 1)
    }

    #[inline]
    fn take_units(
        &self,
        now_ns: u64,
        n: u64,
        door: impl Fn() -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        door()?;
        self.take_now(now_ns, n)
    }

    fn take_up_to(&self, now_ns: u64, n: u64, door: impl Fn() -> Result<(), Denied>) -> u64 {
        if door().is_err() {
            return 0;
        }
        self.cell.update(|Parameters(bucket), bits| {
            let n = n.min(self.room(now_ns, bucket, bits));
            match unpack(bits).take(now_ns, n, bucket) {
                Some(state) if n > 0 => Step::Move(pack(state), n),
                _ => Step::Stay(0),
            }
        })
    }

    fn available(&self, now_ns: u64, door: impl Fn() -> Result<(), Denied>) -> u64 {
        if door().is_err() {
            return 0;
        }
        let (Parameters(bucket), bits) = self.cell.view();
        self.room(now_ns, &bucket, bits)
    }

    fn snapshot(&self, now_ns: u64) -> Snapshot {
        let (Parameters(bucket), bits) = self.cell.view();
        let limit = bucket.capacity();
        let empty_ns = self.wait_ns(unpack(bits), now_ns, limit, &bucket);
        Snapshot {
            limit,
            remaining: self.room(now_ns, &bucket, bits),
            reset_after: duration_from_nanos(empty_ns),
        }
    }

    fn grant(&self, at_ns: u64, n: u64) -> Result<(), Denied> {
        self.take_dated(at_ns, n)
    }

    fn take(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.take_now(now_ns, n)
    }

    fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Result<(), Denied> {
        self.delay_behind(at_ns, ahead, n)
    }

    /// Not dated: a time from before the newest decision counts as that.
    fn look(&self, now_ns: u64, n: u64) -> Result<(), Denied> {
        self.foretell(now_ns, n)
    }

    fn take_back(&self, at_ns: u64, n: u64, _: &[Receipt], times: &dyn Times) {
        self.refund(times.now_ns(), n, at_ns);
    }

    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) {
        let bucket = self.bucket();
        fields
            .field("capacity", &bucket.capacity())
            .field("half_life", &Duration::from_nanos(bucket.half_life.ns));
    }
}
