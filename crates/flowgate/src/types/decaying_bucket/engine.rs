//! The bucket as an engine.

use super::level::{Decaying, least_ns};
use super::parameters::{Parameters, pack, unpack};
use crate::limiter::Snapshot;
use crate::limiter::engine::{Amount, Engine, Times};
use crate::queue::Receipt;
use crate::store::cell::Step;
use crate::verdict::{Denied, Verdict, duration_from_nanos};
use core::fmt;
use core::time::Duration;

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
    fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
        let n = amount.units(|| 1);
        let taken = self.cell.decide(|parameters, bits| {
            // Then it may also be before the last change.
            match now_ns < unpack(bits).time_ns {
                true => Err(None),
                false => parameters.take(bits, now_ns, n).map_err(Some),
            }
        });
        match taken {
            Ok(()) => Ok(()),
            Err(Some(denied)) => Err(denied),
            Err(None) => self.take_behind(now_ns, n),
        }
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

    fn grant(&self, at_ns: u64, n: u64) -> Verdict {
        self.cell
            .decide(|parameters, bits| parameters.take_dated(bits, at_ns, n))
    }

    /// It is exact if no waiter is ahead. Otherwise it is a lower bound: the wait depends on how much each waiter ahead asks
    /// for, which is not known here.
    fn delay(&self, now_ns: u64, ahead: u128, n: u64) -> Verdict {
        let (parameters, bits) = self.cell.view();
        let alone = parameters.take_dated(bits, now_ns, n).map(|_| ());
        if ahead == 0 || alone.is_err_and(|denied| denied.is_never()) {
            return alone;
        }
        let (state, bucket) = (unpack(bits), &parameters.0);
        let alone_ns = state.wait_ns(now_ns, n, bucket);
        let least_ns = if bucket.capacity() == 1 {
            // For each unit, the level decays from one to nothing.
            let each_ns = bucket.half_life.least_ns(bucket.capacity_ticks, 0);
            ahead.saturating_mul(each_ns).saturating_add(alone_ns)
        } else {
            least_ns(state, now_ns, ahead, n, bucket).max(alone_ns)
        };
        match least_ns {
            0 => Ok(()),
            late_ns if late_ns > u128::from(u64::MAX - now_ns) => Err(Denied::too_late()),
            wait_ns => Err(Denied::later(wait_ns, 1)),
        }
    }

    /// Without a time of its own: a time before the newest decision counts as the time of that decision.
    fn look(&self, now_ns: u64, n: u64) -> Verdict {
        let (parameters, bits) = self.cell.view();
        self.taken(&parameters, bits, now_ns, n).map(|_| ())
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
