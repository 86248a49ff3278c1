//! The level of a bucket, and the steps from one to the next.

use super::parameters::{Parameters, checked, pack, unpack};
use super::past::Pasts;
use crate::algorithm::decaying_bucket::{Bucket, State};
use crate::algorithm::half_life::PER_LN_2;
use crate::clock::Clock;
use crate::limiter::builder::Build;
use crate::primitive::{AtomicU64, Lock, Ordering};
use crate::quota::QuotaError;
use crate::store::cell::{Cell, Parameters as _, Step};
use crate::verdict::{Denied, Verdict};
use core::time::Duration;

/// A bucket whose level halves with every half-life.
#[derive(Debug)]
pub struct Decaying {
    pub(super) cell: Cell<Parameters, 4>,
    /// The time of the last change of settings. Units that were poured in before it are not taken out. It is raised before the
    /// change is made.
    changed_ns: AtomicU64,
    /// Noted before the change is made.
    pasts: Lock<Pasts>,
}

impl Build for Decaying {
    type Settings = (u64, Duration);

    fn build((capacity, half_life): (u64, Duration), _: &Clock) -> Result<Self, QuotaError> {
        let (capacity, half_life) = checked(capacity, half_life)?;
        let parameters = Parameters(Bucket::new(capacity, half_life, 0));
        let empty = State {
            time_ns: 0,
            level: 0,
        };
        Ok(Self {
            cell: Cell::new(parameters.to_words(), pack(empty)),
            changed_ns: AtomicU64::new(0),
            pasts: Lock::new(Pasts::NONE),
        })
    }
}

impl Decaying {
    /// The current settings.
    pub(super) fn bucket(&self) -> Bucket {
        self.cell.view().0.0
    }

    /// Takes out what is left at `now_ns` of `n` units that were poured in at `taken_ns`, and returns how many units that
    /// is for.
    pub(super) fn refund(&self, now_ns: u64, n: u64, taken_ns: u64) -> u64 {
        self.cell.update(|Parameters(bucket), bits| {
            // Read after the parameters, so that it is not older than they are.
            if taken_ns < self.changed_ns.load(Ordering::Acquire) {
                return Step::Stay(0);
            }
            let (state, units) = unpack(bits).give_back(now_ns, n, taken_ns, bucket);
            match units {
                0 => Step::Stay(0),
                _ => Step::Move(pack(state), units),
            }
        })
    }

    /// The whole units for which there is room.
    pub(super) fn room(&self, now_ns: u64, bucket: &Bucket, bits: u128) -> u64 {
        let state = unpack(bits);
        let missing = self.missing(state, now_ns, bucket);
        let State { time_ns, level } = state.at(now_ns, bucket);
        let level = level.saturating_add(missing);
        State { time_ns, level }.room(bucket)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn take_behind(&self, now_ns: u64, n: u64) -> Verdict {
        self.cell
            .decide(|parameters, bits| self.taken(parameters, bits, now_ns, n))
    }

    /// The state with `n` units more.
    pub(super) fn taken(
        &self,
        parameters: &Parameters,
        bits: u128,
        now_ns: u64,
        n: u64,
    ) -> Result<u128, Denied> {
        let (state, bucket) = (unpack(bits), &parameters.0);
        if now_ns >= state.time_ns || n > bucket.capacity() {
            return parameters.take(bits, now_ns, n);
        }
        let missing = self.missing(state, now_ns, bucket);
        match state.take(now_ns, n, bucket) {
            Some(next) if next.level.saturating_add(missing) <= bucket.capacity_ticks => {
                Ok(pack(next))
            }
            _ => Err(Denied::later(self.wait_ns(state, now_ns, n, bucket), 1)),
        }
    }

    /// What had not yet decayed at `now_ns`, if that is before the last change.
    fn missing(&self, state: State, now_ns: u64, bucket: &Bucket) -> u64 {
        match now_ns < state.time_ns {
            true => self.pasts.lock().missing(state, now_ns, bucket),
            false => 0,
        }
    }

    /// How long after `now_ns` there is room for `n ≤ capacity` units.
    pub(super) fn wait_ns(&self, state: State, now_ns: u64, n: u64, bucket: &Bucket) -> u128 {
        let room = bucket.capacity_ticks - (n << bucket.unit_shift);
        match room.checked_sub(state.level) {
            Some(most) if now_ns < state.time_ns => {
                let pasts = self.pasts.lock();
                u128::from(pasts.instant_ns(state, now_ns, most, bucket) - now_ns)
            }
            _ => state.wait_ns(now_ns, n, bucket),
        }
    }

    pub(super) fn change(
        &self,
        capacity: u64,
        half_life: Duration,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let (capacity, half_life) = checked(capacity, half_life)?;
        let mut is_begun = false;
        self.cell.reconfigure(|Parameters(old), bits| {
            // The state has the time of the last admission, so that none decays by both.
            let before = unpack(bits);
            let state = before.at(now_ns(), old);
            self.changed_ns.fetch_max(state.time_ns, Ordering::AcqRel);
            let level_units = state.level.div_ceil(1 << old.unit_shift);
            let new = Bucket::new(capacity, half_life, level_units);
            let state = state.in_ticks_of(&new, old);
            let mut pasts = self.pasts.lock();
            if !is_begun {
                is_begun = true;
                pasts.begin();
            }
            pasts.note((*old, before), state);
            drop(pasts);
            (Parameters(new), pack(state), ())
        });
        Ok(())
    }
}

impl Parameters {
    /// Pours in `n` units at `now_ns`: the new state.
    #[inline(always)]
    pub(super) fn take(&self, bits: u128, now_ns: u64, n: u64) -> Result<u128, Denied> {
        let (state, bucket) = (unpack(bits), &self.0);
        if n > bucket.capacity() {
            return Err(Denied::never(n, bucket.capacity()));
        }
        match state.take(now_ns, n, bucket) {
            Some(state) => Ok(pack(state)),
            None if now_ns < state.time_ns => Err(denied_behind(state, now_ns, n, bucket)),
            None => Err(Denied::decays(state.overflow(now_ns, n, bucket))),
        }
    }

    /// Like [`take`](Self::take), but with no earlier time than the admission before it, because the bucket may have been full
    /// then.
    #[inline(always)]
    pub(super) fn take_dated(&self, bits: u128, at_ns: u64, n: u64) -> Result<u128, Denied> {
        let taken = self.take(bits, at_ns, n)?;
        match unpack(bits).time_ns.checked_sub(at_ns) {
            None | Some(0) => Ok(taken),
            Some(late_ns) => Err(Denied::later(u128::from(late_ns), 1)),
        }
    }
}

#[cold]
fn denied_behind(state: State, now_ns: u64, n: u64, bucket: &Bucket) -> Denied {
    Denied::later(state.wait_ns(now_ns, n, bucket), 1)
}

/// A lower bound of the wait, from `now_ns`, for a queue that asks for `ahead` units, and then for `n` more.
///
/// After each grant of m units, the level is at most the capacity c. So the grant raises the level by a factor of at least c /
/// (c − m), which is at least the factor for one unit m times over. All of this has to decay again, in addition to the wait for
/// `n` alone. The factor of one unit takes ln (c / (c − 1)) / ln 2 half-lives to decay, and ln (c / (c − 1)) > 2 / (2c − 1).
///
/// A level that is rounded up decays for even longer. A level of less than a tick is rounded down, but then a unit raises it by
/// a larger factor than any of these.
pub(super) fn least_ns(state: State, now_ns: u64, ahead: u128, n: u64, bucket: &Bucket) -> u128 {
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
    // The computed powers are off by less than this, and the nanosecond is rounded up.
    let slack_ns = (half_life_ns >> 50) + 1;
    let to_come_ns = bucket.half_life.least_ns(state.level, target);
    let to_go_ns = bucket.half_life.least_ns(target, state.level);
    decayed_ns
        .saturating_add(to_come_ns)
        .saturating_sub(to_go_ns)
        .saturating_sub(passed_ns)
        .saturating_sub(slack_ns)
}
