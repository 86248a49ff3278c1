//! The bucket, seen from its line.

use super::DecayingBucket;
use super::parameters::{Parameters, unpack};
use crate::algorithm::decaying_bucket::{Bucket, State};
use crate::algorithm::half_life::PER_LN_2;
use crate::clock::{Clock, Timestamp};
use crate::limiter::reservation::Receipt;
use crate::room::{Room, Supply};
use crate::verdict::Denied;

impl Supply for DecayingBucket {
    fn room(&self) -> &Room {
        &self.room
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn grant(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let cell = &self.cell;
        cell.decide(|parameters, bits| parameters.take_dated(bits, at.as_nanos(), n))
    }

    fn take(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.take_now(now.as_nanos(), n)
    }

    fn peek(&self, at: Timestamp, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        parameters.take_dated(bits, at.as_nanos(), n).map(|_| ())
    }

    /// Not dated: a time from before the newest decision counts as that.
    fn look(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        self.taken(&parameters, bits, now.as_nanos(), n).map(|_| ())
    }

    fn take_back(&self, at: Timestamp, n: u64, _: &[Receipt]) {
        self.take_back_of(at, n);
    }

    /// Exactly if nobody is ahead; otherwise not longer than it takes, as it hangs on how much those ahead ask for
    /// each, which is not known here.
    fn delay(&self, at: Timestamp, ahead: u128, n: u64) -> Result<(), Denied> {
        let (parameters, bits) = self.cell.view();
        let alone = parameters.take_dated(bits, at.as_nanos(), n).map(|_| ());
        if ahead == 0 || alone.is_err_and(|denied| denied.is_never()) {
            return alone;
        }
        let (state, now_ns, bucket) = (unpack(bits), at.as_nanos(), &parameters.0);
        let alone_ns = state.wait_ns(now_ns, n, bucket);
        let least_ns = if bucket.capacity() == 1 {
            // From one to nothing for each.
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
}

impl DecayingBucket {
    /// What is left of the `n` units that were granted at `at`.
    fn take_back_of(&self, at: Timestamp, n: u64) {
        self.refund(n, at);
    }
}

impl Parameters {
    /// [`take`](Self::take), but not dated before the admission that it counts after: the bucket may have been full
    /// then.
    #[inline(always)]
    fn take_dated(&self, bits: u128, at_ns: u64, n: u64) -> Result<u128, Denied> {
        let taken = self.take(bits, at_ns, n)?;
        match unpack(bits).time_ns.checked_sub(at_ns) {
            None | Some(0) => Ok(taken),
            Some(late_ns) => Err(Denied::later(u128::from(late_ns), 1)),
        }
    }
}

/// A line that asks for `ahead` units has not had all of them, and then `n` more, sooner than this after `now_ns`.
///
/// Each grant of m units raises the level, which is at most the capacity c afterwards, by a factor of at least
/// c / (c − m), which is at least that for one unit m times over. All of this has to decay again, besides what the
/// `n` alone would have to wait for; and that to the power of 1 / c is ln (c / (c − 1)) > 2 / (2c − 1).
/// A level that is rounded up decays for longer yet. One of less than a tick is rounded down, but then a unit raises it
/// by a factor of more than any of these.
fn least_ns(state: State, now_ns: u64, ahead: u128, n: u64, bucket: &Bucket) -> u128 {
    if state.level == 0 {
        return 0;
    }
    let half_life_ns = u128::from(bucket.half_life.ns);
    let by = u128::from(2 * bucket.capacity() - 1);
    // The whole, and the part that is left: either has room.
    let whole = (ahead / by).saturating_mul(2 * half_life_ns);
    let part = ahead % by * (2 * half_life_ns) / by;
    let decayed_ns = match whole.saturating_add(part) {
        sum if sum >> 75 == 0 => (sum * u128::from(PER_LN_2)) >> 52,
        // Over 2⁷⁵ ns.
        sum => sum,
    };
    // To the level that leaves room for `n`, or as long as that takes to get to this one.
    let target = bucket.capacity_ticks - (n << bucket.unit_shift);
    let passed_ns = u128::from(now_ns.saturating_sub(state.time_ns));
    // The clockwork of powers is off by less than this, and the nanosecond is rounded up.
    let slack_ns = (half_life_ns >> 50) + 1;
    let to_come_ns = bucket.half_life.least_ns(state.level, target);
    let to_go_ns = bucket.half_life.least_ns(target, state.level);
    decayed_ns
        .saturating_add(to_come_ns)
        .saturating_sub(to_go_ns)
        .saturating_sub(passed_ns)
        .saturating_sub(slack_ns)
}
