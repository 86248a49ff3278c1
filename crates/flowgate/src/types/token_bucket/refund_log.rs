//! What a bucket remembers beside its word, for refunds and for changes of quota.
//!
//! # How much may be returned
//!
//! Two things limit how much a cancelled reservation returns.
//!
//! ## Tokens that have flowed in again
//!
//! Refill repays the oldest admissions first. If tokens that were taken before a reservation are returned after it was made,
//! the reservation's own tokens flow in earlier by that amount. Let
//!
//! - *T* be the arrival time that the reservation left when it was made;
//! - *G* be everything returned since, out of order (a cancelled reservation after which nothing was taken shifts no other
//!   one);
//! - *now* be the latest time that any thread has seen.
//!
//! Then *T − G − now* is the part of the reservation that is still missing from the bucket, and no more is returned. With an
//! older *now*, tokens that have already flowed in would be returned a second time.
//!
//! ## Reservations that keep their start time
//!
//! A reservation with a later start time keeps it, whatever happens before it. Returning tokens that were taken before it
//! leaves a *hole*. New requests may use the hole at the very instant at which the reservation starts, and both together must
//! not exceed the burst. Let
//!
//! - *X* be the holes that were left while any reservation still waits for its start time;
//! - *m* be the largest reservation that starts now or later, and was made after the returned tokens were taken.
//!
//! Returning *x* more keeps the bound if
//!
//! ```text
//!     x + X + m ≤ burst
//! ```
//!
//! The limiter does not know *m*. It uses an upper bound: the smaller of everything taken since, and the largest reservation
//! that ever had to wait.
//!
//! # Comparison with golang.org/x/time/rate
//!
//! If one reservation is cancelled, this rule returns at least as much as `golang.org/x/time/rate`. If several are cancelled,
//! this rule keeps the bound, and the other one does not. Example: the burst is 4 at 1 per second. Reservations of 4, 4, 4 and
//! 1 are made at time 0, then the third is cancelled, and then the second. With the other rule, 5 operations go ahead at 9 s.
//!
//! `flowgate_testkit::exhaustive` tries all short histories of reservations and cancellations, and checks the bound for each.

use super::refill::Refill;
use crate::clock::saturating_nanos;
use crate::primitive::{AtomicU64, AtomicU128, Lock, Ordering};
use crate::queue::Receipt;
use crate::quota::Quota;
use crate::store::word::{BEFORE_ORIGIN, Parameters};
use alloc::collections::VecDeque;

/// Changes of quota that a reservation can outlive. After more changes, cancelling it returns nothing.
const REMEMBERED: usize = 16;

/// See [`Bucket::log`](super::Bucket::log).
#[derive(Debug)]
pub(super) struct RefundLog {
    /// See [`largest_told`](Self::largest_told).
    largest_told: [AtomicU64; 2],
    /// The latest start time of a reservation that has to wait; 0: none. It is raised before the reservation is made, and
    /// lowered when the last one is cancelled.
    pub(super) last_told_ns: AtomicU64,
    /// Ticks ever returned out of order. The holder of `ledger` writes it, after the word.
    pub(super) given_back: AtomicU128,
    /// See [`Bucket::drain_up_to`](super::Bucket::drain_up_to).
    pub(super) drain_up_to: u64,
    pub(super) ledger: Lock<Ledger>,
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) quota: Quota,
    /// The burst of a quota that sets none; `None`: its count.
    pub(super) default_burst: Option<u64>,
    pub(super) refill: Refill,
    /// An instant at which an interval ends, if that is fixed. Otherwise intervals begin with the way of refilling.
    pub(super) aligned_ns: Option<i128>,
    /// The value that was set; `None`: the debt follows the burst.
    pub(super) max_debt: Option<u64>,
    /// X: the units returned from before reservations that are still pending, in ticks.
    holes: u128,
    /// The start time of the last reservation that was ahead of a hole.
    holes_until_ns: u64,
    changes: VecDeque<Change>,
}

/// One change of quota, as a pair of times that mean the same before and after.
#[derive(Debug)]
struct Change {
    /// The epoch that it began.
    epoch: u64,
    before: u128,
    after: u128,
    /// Everything returned out of order until then, in ticks of all epochs.
    given_back: u128,
    old: Parameters,
    new: Parameters,
}

/// The value to which reservations have raised `told`. It includes all reservations in a state that was read before.
///
/// It is not a load, because the word moves without publishing earlier writes. A reservation that raises this afterwards finds
/// that the word has moved on, and fails.
pub(super) fn seen(told: &AtomicU64) -> u64 {
    told.fetch_max(0, Ordering::AcqRel)
}

impl RefundLog {
    pub(super) fn new(ledger: Ledger, drain_up_to: u64) -> Self {
        Self {
            largest_told: [AtomicU64::new(0), AtomicU64::new(0)],
            last_told_ns: AtomicU64::new(0),
            given_back: AtomicU128::new(0),
            drain_up_to,
            ledger: Lock::new(ledger),
        }
    }

    /// The largest amount for which a reservation had to wait, in units of `epoch`, which is the current epoch or the one
    /// before. It is raised before the reservation is made, and lowered only when an epoch begins.
    #[inline]
    pub(super) fn largest_told(&self, epoch: u64) -> &AtomicU64 {
        &self.largest_told[(epoch % 2) as usize]
    }
}

impl Ledger {
    pub(super) const fn new(quota: Quota, default_burst: Option<u64>) -> Self {
        Self {
            quota,
            default_burst,
            refill: Refill::Continuous,
            aligned_ns: None,
            max_debt: None,
            holes: 0,
            holes_until_ns: 0,
            changes: VecDeque::new(),
        }
    }

    /// Whether a ledger that is made of the quota alone is equal to this one, before anything is noted here.
    pub(super) fn is_default(&self, default_burst: Option<u64>) -> bool {
        self.default_burst == default_burst
            && self.refill == Refill::Continuous
            && self.aligned_ns.is_none()
            && self.max_debt.is_none()
    }

    /// The parameters of `quota` from `now_ns` on, with everything credited that flowed in until then.
    pub(super) fn parameters(&self, quota: &Quota, now_ns: u64) -> Parameters {
        let max_debt = self
            .max_debt
            .unwrap_or(quota.burst_units())
            .min(Parameters::most_debt(quota));
        let mut parameters = Parameters::new(quota, max_debt);
        if self.refill == Refill::Interval {
            let interval_ns = saturating_nanos(quota.period());
            let ends_ns = self.aligned_ns.unwrap_or(i128::from(now_ns));
            parameters.interval_ns = interval_ns;
            // Less than the interval.
            parameters.grid_ns = Some(ends_ns.rem_euclid(i128::from(interval_ns)) as u64);
            parameters.credited_ns = now_ns.min(BEFORE_ORIGIN - 1);
        }
        parameters
    }

    /// X at `now_ns`.
    pub(super) fn holes_at(&self, now_ns: u64) -> u128 {
        if now_ns <= self.holes_until_ns {
            self.holes
        } else {
            0
        }
    }

    /// Notes that `ticks` were returned from before reservations, the last of which starts at `until_ns`.
    pub(super) fn leave_hole(&mut self, now_ns: u64, ticks: u128, until_ns: u64) {
        self.holes = self.holes_at(now_ns) + ticks;
        self.holes_until_ns = until_ns;
    }

    /// Notes a change from `old` and `tat` to `new` and `new_tat`; `None` where the debt was
    /// forgiven.
    pub(super) fn note_change(
        &mut self,
        now_ns: u64,
        (old, tat): (Parameters, u128),
        (new, new_tat): (Parameters, u128),
        given_back: u128,
        comparable: bool,
    ) {
        if !comparable {
            self.changes.clear();
            self.holes = 0;
            return;
        }
        let holes = self.holes_at(now_ns);
        self.holes = new.tokens_up(&old, holes);
        if self.changes.len() == REMEMBERED {
            self.changes.pop_front();
        }
        self.changes.push_back(Change {
            epoch: new.epoch,
            before: tat,
            after: new_tat,
            given_back,
            old,
            new,
        });
    }

    /// Computes the arrival time that the reservation would have left if the units returned since had never been taken before
    /// it.
    ///
    /// The result is a time of the epoch `current`. It is `None` if a change in between is forgotten.
    pub(super) fn full_at(
        &self,
        receipt: &Receipt,
        given_back_now: &AtomicU128,
        current: u64,
    ) -> Option<i128> {
        let mut epoch = receipt.epoch;
        let mut full_at = receipt.state as i128;
        let mut given_back = receipt.given_back;
        for change in self
            .changes
            .iter()
            .filter(|change| change.epoch > receipt.epoch)
        {
            if change.epoch != epoch + 1 {
                return None;
            }
            full_at = full_at.saturating_sub_unsigned(change.given_back - given_back);
            let later = (change.before as i128).saturating_sub(full_at);
            let later = u128::try_from(later).unwrap_or(0);
            let later = change.new.tokens_up(&change.old, later);
            full_at = (change.after as i128).saturating_sub_unsigned(later);
            (epoch, given_back) = (change.epoch, change.given_back);
        }
        let since = given_back_now.load(Ordering::Acquire) - given_back;
        (epoch == current).then(|| full_at.saturating_sub_unsigned(since))
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    /// A reservation that starts at that instant and a new request at the same instant together admit at most one burst.
    #[test]
    fn c5_a_hole_counts_up_to_and_at_the_last_time_that_was_told() {
        let mut ledger = Ledger::new(Quota::per_second(1), None);
        ledger.leave_hole(0, 3, 9);
        assert_eq!([0, 9, 10].map(|now_ns| ledger.holes_at(now_ns)), [3, 3, 0]);
        ledger.leave_hole(9, 2, 20);
        assert_eq!([20, 21].map(|now_ns| ledger.holes_at(now_ns)), [5, 0]);
        ledger.leave_hole(21, 1, 30);
        assert_eq!(ledger.holes_at(30), 1);
    }
}
