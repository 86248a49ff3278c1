//! What a bucket remembers beside its word, for those who give back and those who change the quota.
//!
//! # How much may be given back
//!
//! A reservation that was told to wait keeps the time it was told, whatever happens before it. Giving
//! back what was taken *before* it leaves a hole: newcomers may now use the hole at the very
//! instant for which the reservation was told, and both together must not exceed the burst.
//!
//! Write *T* for the arrival time had nothing been given back, *X* for what was given back and left a
//! hole, so that the word holds *T − X*; *m* for the amount of a reservation still ahead, told for the time
//! *t*; all in ticks. Reservations follow each other without a gap, so just before *t* the bucket holds *t + burst −
//! T + X*, and what is told for *t* or later, minus what flows in until the last of it, is *T − burst − t + m*. The
//! sum, *X + m*, is what can go through at *t* at once. So giving back *x* more keeps the promise exactly if
//!
//! ```text
//!     x + X + m ≤ burst        for every reservation m still ahead that was made after what is given back
//! ```
//!
//! The largest such *m* is not known; *M*, the lesser of everything taken since and the largest
//! reservation ever told to wait, is not less. And of what was taken at a time that has passed, only what
//! lies ahead of now still counts: the rest has flowed back by itself.
//!
//! This gives back at least as much as `golang.org/x/time/rate`, which subtracts everything taken since
//! from the amount itself, and it stays within the promise where several are cancelled one after
//! another, which that rule does not: burst 4 at 1 per second, reservations of 4, 4, 4 and 1 at time 0,
//! then the third cancelled and the second: 5 go through at 9 s.

use super::builder::Refill;
use super::carry;
use crate::quota::Quota;
use crate::word::Parameters;
use alloc::vec::Vec;

/// Changes of quota that a reservation can outlive; after more, cancelling it gives back nothing.
const REMEMBERED: usize = 16;

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) quota: Quota,
    pub(super) refill: Refill,
    /// As it was set; follows the burst where it was not.
    pub(super) max_debt: Option<u64>,
    /// X: what was given back and left a hole, in ticks.
    holes: u128,
    /// When the last reservation that was ahead of a hole will have had its time.
    holes_until_ns: u64,
    changes: Vec<Change>,
}

/// One change of quota, as a pair of times that mean the same before and after.
#[derive(Debug)]
struct Change {
    /// The epoch that it began.
    epoch: u64,
    before: u128,
    after: u128,
    old: Parameters,
    new: Parameters,
}

pub(super) const fn default_debt(quota: &Quota) -> u64 {
    quota.burst_units()
}

impl Ledger {
    pub(super) const fn new(quota: Quota) -> Self {
        Self {
            quota,
            refill: Refill::Continuous,
            max_debt: None,
            holes: 0,
            holes_until_ns: 0,
            changes: Vec::new(),
        }
    }

    /// The parameters of `quota` from `now_ns` on.
    pub(super) fn parameters(&self, quota: &Quota, now_ns: u64) -> Parameters {
        let max_debt = self
            .max_debt
            .unwrap_or(default_debt(quota))
            .min(Parameters::most_debt(quota));
        let mut parameters = Parameters::new(quota, max_debt);
        if self.refill == Refill::Interval {
            parameters.interval_ns = u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX);
            parameters.anchor_ns = now_ns;
        }
        parameters
    }

    /// X at `now_ns`.
    pub(super) fn holes_at(&self, now_ns: u64) -> u128 {
        if now_ns < self.holes_until_ns {
            self.holes
        } else {
            0
        }
    }

    /// Notes that `ticks` were given back before reservations of which the last is told `until_ns`.
    pub(super) fn leave_hole(&mut self, now_ns: u64, ticks: u128, until_ns: u64) {
        self.holes = self.holes_at(now_ns) + ticks;
        self.holes_until_ns = self.holes_until_ns.max(until_ns);
    }

    /// Notes a change from `old` and `tat` to `new` and `new_tat`; `None` where the debt was forgiven.
    pub(super) fn note_change(
        &mut self,
        now_ns: u64,
        (old, tat): (Parameters, u128),
        (new, new_tat): (Parameters, u128),
        comparable: bool,
    ) {
        if !comparable {
            self.changes.clear();
            self.holes = 0;
            return;
        }
        let holes = self.holes_at(now_ns);
        self.holes = carry::tokens_up(&old, &new, holes);
        if self.changes.len() == REMEMBERED {
            self.changes.remove(0);
        }
        self.changes.push(Change {
            epoch: new.epoch,
            before: tat + holes,
            after: new_tat.saturating_add(self.holes),
            old,
            new,
        });
    }

    /// A time of `epoch` as a time of `current`, or none if what lies between is forgotten.
    pub(super) fn translated(&self, tat: u128, epoch: u64, current: u64) -> Option<u128> {
        let mut at = (epoch, tat);
        for change in self.changes.iter().filter(|change| change.epoch > epoch) {
            if change.epoch != at.0 + 1 {
                return None;
            }
            let since =
                carry::tokens_up(&change.old, &change.new, change.before.saturating_sub(at.1));
            at = (change.epoch, change.after.checked_sub(since)?);
        }
        (at.0 == current).then_some(at.1)
    }
}
