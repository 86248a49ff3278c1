//! A token bucket whose times are whole numbers of grains: the parts that the rules for one bucket and for two share.

use super::super::entry::TICK_BITS;
use super::terms::scaled;
use crate::algorithm::token_bucket;

/// A bucket, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) unit: u128,
    /// The time that an empty bucket takes to fill.
    pub(super) depth: u128,
    /// The exponent of two of a grain, in ticks.
    pub(super) grain: u32,
}

pub(super) fn rounded_up(time: u128, grain: u32) -> u128 {
    let part = (1 << grain) - 1;
    (time + part) & !part
}

/// Returns how much deeper a bucket is than its burst: a grain, unless each instant is a whole number of grains.
pub(super) const fn slack(grain: u32) -> u128 {
    match grain > TICK_BITS {
        true => 1 << grain,
        false => 0,
    }
}

impl Side {
    /// Returns the arrival time after `n` more units.
    pub(super) fn after(&self, time: u128, now: u128, n: u128) -> u128 {
        let begins = time.max(rounded_up(now, self.grain));
        begins.saturating_add(n.saturating_mul(self.unit))
    }

    pub(super) fn left(&self, time: u128, now: u128) -> u128 {
        let begins = time.max(rounded_up(now, self.grain));
        (now + self.depth).saturating_sub(begins) / self.unit
    }

    pub(super) fn give_back(&self, time: u128, now: u128, n: u64) -> (u128, u64) {
        let debt = time.saturating_sub(rounded_up(now, self.grain));
        let taken = u64::try_from(debt.div_ceil(self.unit)).unwrap_or(u64::MAX);
        let n = n.min(taken);
        let back = u128::from(n).saturating_mul(self.unit);
        let now = rounded_up(now, self.grain);
        (token_bucket::give_back(time, now, back), n)
    }

    /// Returns the time without `n` units that were taken at `then`. Only units are removed that certainly have not flowed in again
    /// by `now`. The bucket may have been full except for these units.
    pub(super) fn take_back(&self, time: u128, then: u128, now: u128, n: u64) -> u128 {
        let taken = u128::from(n).saturating_mul(self.unit);
        // It began at the first grain from then on.
        let [then, now] = [then, now].map(|time| rounded_up(time, self.grain));
        let missing = then.saturating_add(taken).saturating_sub(now);
        token_bucket::give_back(time, now, taken.min(missing))
    }

    /// Returns the time in this bucket for `time` in the bucket `from`, which it replaces at `at`.
    ///
    /// The debt is the same number of units, rounded up, and one grain more. The first unit after a burst pays for a grain only if
    /// the debt before it was a whole number of units.
    pub(super) fn restated(&self, from: &Self, time: u128, at: u128) -> u128 {
        if time <= at || (self.unit, self.grain) == (from.unit, from.grain) {
            return time;
        }
        let debt = scaled(time - at, self.unit, from.unit) + slack(self.grain);
        at.saturating_add(debt)
    }

    /// Returns the time that is as far after `then` as `time` is after `now`.
    pub(super) fn carried(&self, time: u128, now: u128, then: u128) -> u128 {
        match time.saturating_sub(now) {
            0 => 0,
            debt => then.saturating_add(debt + slack(self.grain)),
        }
    }
}
