//! A token bucket whose times are whole numbers of grains: what the rules of one bucket and of two have in common.

use super::super::entry::TICK_BITS;
use super::terms::scaled;
use crate::algorithm::token_bucket;

/// A bucket, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) unit: u128,
    /// What a full bucket holds.
    pub(super) depth: u128,
    /// The exponent of two of a grain.
    pub(super) grain: u32,
}

pub(super) fn rounded_up(time: u128, grain: u32) -> u128 {
    let part = (1 << grain) - 1;
    (time + part) & !part
}

/// What a bucket is deeper than its burst by: a grain, unless each instant is a whole number of grains.
pub(super) const fn slack(grain: u32) -> u128 {
    match grain > TICK_BITS {
        true => 1 << grain,
        false => 0,
    }
}

impl Side {
    /// The arrival time after `n` units more.
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

    /// Without `n` units that were taken at `then`, as far as they are sure not to have flowed in again by `now`: it may have been
    /// full but for these.
    pub(super) fn take_back(&self, time: u128, then: u128, now: u128, n: u64) -> u128 {
        let taken = u128::from(n).saturating_mul(self.unit);
        // It began at the first grain from then on.
        let [then, now] = [then, now].map(|time| rounded_up(time, self.grain));
        let missing = then.saturating_add(taken).saturating_sub(now);
        token_bucket::give_back(time, now, taken.min(missing))
    }

    /// The time in this bucket for one in another, which is exchanged for it at `at`: the same debt in units, rounded up, and a
    /// grain more, as the first unit after a burst pays for a grain only if the debt before it was one of whole units.
    pub(super) fn restated(&self, from: &Self, time: u128, at: u128) -> u128 {
        if time <= at || (self.unit, self.grain) == (from.unit, from.grain) {
            return time;
        }
        let debt = scaled(time - at, self.unit, from.unit) + slack(self.grain);
        at.saturating_add(debt)
    }

    /// The time for one that lies as far after `now`, from `then` on.
    pub(super) fn carried(&self, time: u128, now: u128, then: u128) -> u128 {
        match time.saturating_sub(now) {
            0 => 0,
            debt => then.saturating_add(debt + slack(self.grain)),
        }
    }
}
