//! How much a cancelled reservation or a refund returns.
//!
//! Two effects limit the amount.
//!
//! *Refilled tokens.* A reservation's tokens flow in first for earlier callers, then for it. Without earlier callers,
//! they would have flowed in earlier. So what was returned *since the reservation was made* counts as taken after it.
//! Only what is then still missing is returned.
//!
//! *Granted times.* Later reservations keep their times. A refund from before them leaves a *hole*, which a new caller
//! may use at the very time of a later reservation. So with X grains of holes and m grains granted for a future time,
//! at most full − X − m are returned.
//!
//! This module only implements that rule. [`exhaustive`](crate::exhaustive) shows, by trying every short history, that
//! the rule never violates the bound.

use super::{OperationOutcome, Oracle, scaled_down, scaled_up};
use crate::rate::Rate;

/// Number of changes of quota that a reservation can outlive.
const REMEMBERED: usize = 16;

/// A reservation that can still be cancelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    n: u64,
    /// Units per token when it was made.
    scale: u64,
    /// When the bucket would have been full again right after it, in grains.
    full_at: i128,
    /// What had been returned when it was made, in grains.
    given: i128,
    /// Number of changes of quota before it.
    changes_before: u64,
    /// Its time, if that was later than any before it, and the latest of those.
    told_ns: Option<(u64, u64)>,
}

/// Returned grains, and the later reservations that limit them.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenBack {
    /// Grains returned out of order since the quota changed.
    given: i128,
    hole: i128,
    hole_until_ns: u64,
    /// The largest reservation with a future time, in units.
    largest_told: u64,
    /// The latest time of a reservation; 0 for none.
    pub(super) last_told_ns: u64,
    changes: Vec<Change>,
    change_count: u64,
}

/// The same instant in the grains of the old quota and of the new one.
#[derive(Clone, Copy, Debug)]
struct Change {
    number: u64,
    before: i128,
    after: i128,
    /// What had been returned under the old quota.
    given: i128,
    by: i128,
    per: i128,
}

impl GivenBack {
    /// Records a reservation for `at_ns`.
    pub(super) fn note_told(&mut self, n: u64, at_ns: u64) {
        self.largest_told = self.largest_told.max(n);
        self.last_told_ns = self.last_told_ns.max(at_ns);
    }

    pub(super) fn hold(
        &self,
        n: u64,
        scale: u64,
        full_at: i128,
        told_ns: Option<(u64, u64)>,
    ) -> Held {
        Held {
            n,
            scale,
            full_at,
            given: self.given,
            changes_before: self.change_count,
            told_ns,
        }
    }

    fn hole_at(&self, at_ns: u64) -> i128 {
        if at_ns <= self.hole_until_ns {
            self.hole
        } else {
            0
        }
    }

    /// Records that a new caller can take `grains` at the very time of the last reservation.
    pub(super) fn leave_hole(&mut self, at_ns: u64, grains: i128) {
        self.hole = self.hole_at(at_ns) + grains;
        self.hole_until_ns = self.last_told_ns;
    }

    pub(super) fn note_change(
        &mut self,
        at_ns: u64,
        (old, old_full_at): (Rate, i128),
        (new, new_full_at): (Rate, i128),
        comparable: bool,
    ) {
        self.change_count += 1;
        if old.scale != new.scale {
            let told = u128::from(self.largest_told) * u128::from(new.scale);
            let told = told.div_ceil(u128::from(old.scale));
            self.largest_told = u64::try_from(told).unwrap_or(u64::MAX);
        }
        let given = core::mem::take(&mut self.given);
        if !comparable {
            self.changes.clear();
            self.hole = 0;
            return;
        }
        let (by, per) = (new.scale_price(), old.scale_price());
        self.hole = scaled_up(self.hole_at(at_ns), by, per);
        if self.changes.len() == REMEMBERED {
            self.changes.remove(0);
        }
        self.changes.push(Change {
            number: self.change_count,
            before: old_full_at,
            after: new_full_at,
            given,
            by,
            per,
        });
    }

    /// Returns when the bucket would have been full again right after the reservation, in current grains and without
    /// what was returned since. `None` if a change since is no longer remembered.
    fn full_at_now(&self, held: &Held) -> Option<i128> {
        let since = |change: &&Change| change.number > held.changes_before;
        if self.changes.iter().filter(since).count() as u64
            != self.change_count - held.changes_before
        {
            return None;
        }
        let start = (held.full_at, held.given);
        let (full_at, given) =
            self.changes
                .iter()
                .filter(since)
                .fold(start, |(full_at, given), change| {
                    let later = change.before - (full_at - (change.given - given));
                    (
                        change.after - scaled_up(later.max(0), change.by, change.per),
                        0,
                    )
                });
        Some(full_at - (self.given - given))
    }
}

impl Oracle {
    /// Cancels a reservation, as far as no later one relies on it.
    pub(super) fn cancel(&mut self, at_ns: u64, pick: usize) -> OperationOutcome {
        let held = self.held.remove(pick % self.held.len());
        let Some(full_at) = self.given_back.full_at_now(&held) else {
            return OperationOutcome::Back(0);
        };
        // It took tokens; a unit may be another part of a token by now.
        let own = scaled_down(
            i128::from(held.n),
            self.rate.scale_price(),
            i128::from(held.scale),
        );
        let at_ns = self.newest_decided_ns(at_ns);
        let now = self.limiter_time(at_ns);
        let missing = (full_at - now * self.rate.accrual).max(0);
        let taken_since = (self.full_at() - full_at).max(0);
        // The last one in line is gone, and nobody is told its time.
        if let Some((told_ns, before_ns)) = held.told_ns
            && taken_since == 0
            && own.min(missing) > 0
            && self.given_back.last_told_ns == told_ns
        {
            self.given_back.last_told_ns = before_ns;
        }
        self.give_back(at_ns, own.min(missing), taken_since)
    }

    /// Treats the newest `n` units as never admitted. Everything with a future time may have been made after them.
    pub(super) fn refund(&mut self, at_ns: u64, n: u64) -> OperationOutcome {
        let most = self.rate.burst_units.saturating_add(self.debt_units());
        let at_ns = self.newest_decided_ns(at_ns);
        self.give_back(at_ns, self.rate.cost(n.min(most)), i128::MAX)
    }

    fn give_back(&mut self, at_ns: u64, amount: i128, taken_since: i128) -> OperationOutcome {
        let now = self.limiter_time(at_ns);
        let full = self.rate.full;
        let before = self.level_at(now);
        let hole = self.given_back.hole_at(at_ns);
        // Whoever was told this very instant still counts.
        let last_told_ns = self.given_back.last_told_ns;
        let standing = match last_told_ns > 0 && at_ns <= last_told_ns {
            true => self
                .rate
                .cost(self.given_back.largest_told)
                .min(taken_since),
            false => 0,
        };
        let room = if standing > 0 {
            // Whole units, so that what is said to have come back is all that has.
            let room = (full - hole - standing).max(0);
            room - room % self.rate.price
        } else {
            amount
        };
        let back = amount.min(room).min(full - before).max(0);
        if back == 0 {
            return OperationOutcome::Back(0);
        }
        self.level += back;
        if taken_since > 0 {
            self.given_back.given += back;
        }
        if standing > 0 {
            self.given_back.leave_hole(at_ns, back);
        }
        let units = |level: i128| level.div_euclid(self.rate.price);
        OperationOutcome::Back(u64::try_from(units(before + back) - units(before)).unwrap_or(0))
    }
}
