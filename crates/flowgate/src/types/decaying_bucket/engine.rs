//! The bucket as an engine.

use super::level::Decaying;
use super::parameters::{Parameters, pack, unpack};
use crate::clock::Clock;
use crate::limiter::Snapshot;
use crate::limiter::builder::Build;
use crate::limiter::engine::{Amount, Engine, Times};
use crate::queue::Receipt;
use crate::quota::QuotaError;
use crate::store::cell::Step;
use crate::verdict::{Denied, duration_from_nanos};
use core::fmt;
use core::time::Duration;

impl Build for Decaying {
    type Settings = (u64, Duration);

    fn build((capacity, half_life): (u64, Duration), _: &Clock) -> Result<Self, QuotaError> {
        Self::new(capacity, half_life)
    }
}

impl Engine for Decaying {
    const NAME: &'static str = "DecayingBucket";

    fn limit(&self) -> u64 {
        self.bucket().capacity()
    }

    fn take_most(&self, now_ns: u64, n: u64) -> u64 {
        self.cell.update(|Parameters(bucket), bits| {
            let n = n.min(self.room(now_ns, bucket, bits));
            match unpack(bits).take(now_ns, n, bucket) {
                Some(state) if n > 0 => Step::Move(pack(state), n),
                _ => Step::Stay(0),
            }
        })
    }

    #[inline(always)]
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Result<(), Denied> {
        self.take_now(now_ns, amount)
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
