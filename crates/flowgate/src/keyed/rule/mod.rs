//! The algorithms that compute with a state, in the terms of an [entry](super::entry).
//!
//! A state is an instant, after which it has no effect. Everything else about it is defined by the rule.
//!
//! # Why no stale time sees credit
//!
//! *Buckets.* A key's debt at an instant is a number of units. A state and the cost of a unit determine it exactly, for as long as
//! that cost has been current. Before that, units flowed in at another rate. A decision at an earlier time must count these units
//! as owed, because they had not flowed in yet. After a change of the table's quota both rates are known, so the decision counts
//! them ([`Rule::take_before`]). Before the last change but one, the rate is not known. It is not known either before a key has
//! changed from the table's quota to a per-key quota or back. Every decision at such a time is refused until the change.
//!
//! *Windows.* A state has the end of a window and a count. Nothing flows in, so neither depends on a rate. Both are kept when terms
//! change, whether the window has ended or not. A decision at any time therefore finds the window that was open then, or a later
//! one. A decision at a time before the last change uses the smaller limit and the longer window of both, as if it had been made
//! just before the change. Before the last change but one, it is refused. An export does not contain the terms before the
//! exporter's last change. If the exporter's clock was set back to a time before that change, an imported table refuses every
//! decision before it.
//!
//! # Counts that do not fit
//!
//! Terms contain the number of bits of a count. Terms for a smaller limit keep the bits of the terms before, as far as the window
//! has room for them ([`Rule::widened`]). If it has no room, a count with all bits set means at least that number. Such a count is
//! above the limit, in all other terms too, and lasts until its window has ended.

mod bucket;
mod dual;
mod fixed_window;
mod segmented_window;
mod side;
mod tally;
mod terms;
mod unlimited;

pub use bucket::Bucket;
pub use dual::Dual;
pub use fixed_window::FixedWindow;
pub(super) use fixed_window::aligned;
pub use segmented_window::SegmentedWindow;
pub use terms::{Change, Terms};
pub use unlimited::NoLimit;

use crate::quota::QuotaError;
use core::fmt::Debug;

/// An algorithm that keeps what it knows of a key in one state.
///
/// Times are in ticks. An amount `n` is in units, and never more than `terms.most`. The provided methods are those of a window.
pub trait Rule: Debug + 'static {
    /// The quota of each key.
    type Quota: Copy + Debug + Send + Sync;

    /// Whether units flow in as time passes. A state then means another debt in other terms.
    const FLOWS: bool;

    /// Whether `n` units cost `n` times [`Terms::unit`]. A token can then be taken as if it were one unit.
    const HAS_PRICE: bool = false;

    /// Whether the rule admits everything, so that nothing is kept of a key.
    const ADMITS_ALL: bool = false;

    /// Returns the integers with which the rule computes for a quota.
    fn terms(quota: &Self::Quota) -> Result<Terms, QuotaError>;

    /// Returns whether a quota can have these terms.
    fn is_sound(terms: &Terms) -> bool;

    /// Returns an error if keys in terms `own` cannot be in one table with keys in terms `table`, and change to these.
    fn goes_with(_own: &Terms, _table: &Terms) -> Result<(), QuotaError> {
        Ok(())
    }

    /// Returns `new` with at least the bits for a count that `old` has, if they fit.
    fn widened(new: Terms, _old: &Terms) -> Terms {
        new
    }

    /// Takes `n`. Returns the new state, which is later than `now`, or how many ticks are missing.
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128>;

    /// Takes `n` by the smaller limit and the longer window of both terms. `state` is in the terms after `change`, and `now` is
    /// before it.
    fn take_strictly(state: u128, now: u128, n: u64, change: &Change) -> Result<u128, u128> {
        Self::take(state, now, n, &change.stricter())
    }

    /// Takes `n` in the terms that `change` made current, at a `now` before it. This implementation is for windows.
    fn take_before(state: u128, now: u128, n: u64, change: &Change) -> Result<u128, u128> {
        let taken = match n <= change.most() {
            true => Self::take_strictly(state, now, n, change),
            false => Err(u128::MAX),
        };
        taken.map_err(|missing| {
            let then = Self::take(state, change.at, n, &change.to);
            missing.min(change.at - now + then.err().unwrap_or(0))
        })
    }

    /// Returns the index of the quota that refuses `n` for the longest time. Returns `None` if there is only one, or `n` can be
    /// taken.
    fn refused_by(_state: u128, _now: u128, _n: u64, _terms: &Terms) -> Option<usize> {
        None
    }

    /// Returns how many units the quota at `index` would allow by itself, and how many ticks it lacks for `n` of them.
    fn by_quota(_index: usize, state: u128, now: u128, n: u64, terms: &Terms) -> (u64, u128) {
        let missing = Self::take(state, now, n, terms).err().unwrap_or(0);
        (Self::left(state, now, terms), missing)
    }

    /// Returns the index of the quota that never allows more than [`Terms::most`]. Returns `None` if there is only one.
    fn smallest(_terms: &Terms) -> Option<usize> {
        None
    }

    /// Returns how many units could be taken.
    fn left(state: u128, now: u128, terms: &Terms) -> u64;

    /// Returns what is [`left`](Self::left) in the terms that `change` made current, at a `now` before it.
    fn left_before(state: u128, now: u128, change: &Change) -> u64 {
        Self::left(state, now, &change.stricter())
    }

    /// Returns how many ticks it takes until the limit is full.
    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128;

    /// Refunds `n` units, or fewer if the bound requires it. Returns the new state, and the number of units.
    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64);

    /// Returns the state without `n` units that were taken at `then`. Only units are removed that certainly have not flowed in
    /// again by `now`, and that no other caller has used since.
    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128;

    /// Returns the state in terms `to` of a key that has `state` in terms `from` and changes them at `at`. The key keeps what it
    /// has taken.
    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128;

    /// Returns a state that is no less than either.
    fn later(one: u128, other: u128, _terms: &Terms) -> u128 {
        one.max(other)
    }

    /// Returns `state` at `at`, or the state with a debt of `most` units, if that is less.
    fn limited(state: u128, _at: u128, _most: u64, _terms: &Terms) -> u128 {
        state
    }

    /// Returns the state of a key after other callers have taken `ahead` units: exactly, or less.
    fn behind(state: u128, _now: u128, _ahead: u128, _terms: &Terms) -> u128 {
        state
    }

    /// Returns the state [`behind`](Self::behind) others in the terms that `change` made current, at a `now` before it.
    fn behind_before(state: u128, now: u128, ahead: u128, change: &Change) -> u128 {
        Self::behind(state, now, ahead, &change.to)
    }

    /// Returns when the window began in which a decision counts, or an earlier time. A grant in the window has no earlier
    /// timestamp.
    fn begins(_state: u128, _terms: &Terms) -> u128 {
        0
    }

    /// Returns what an entry with per-key terms keeps of them.
    fn class(terms: &Terms) -> u16 {
        // Less than 78.
        terms.count_bits as u16
    }

    /// Returns whether terms in a table with `table` can have this class.
    fn has_class(class: u16, table: &Terms) -> bool;

    /// Returns terms of this class. In these terms, a state has taken no less than in the terms from which the class was computed.
    fn of_class(class: u16, table: &Terms) -> Terms {
        Terms {
            count_bits: class.into(),
            ..*table
        }
    }

    /// Returns the best known state of a key that has `state`, or that has been forgotten with a state that expired by `free`.
    fn unknown_until(state: u128, free: u128, terms: &Terms) -> u128;

    /// Returns what the sketch keeps of a state: no less than it, in 64 bits.
    fn to_cell(state: u128, terms: &Terms) -> u64;

    /// Returns when a cell, which is in the terms `table`, expires.
    fn free_at(cell: u64, _table: &Terms) -> u128 {
        tally::end(cell)
    }

    /// Returns whether a key with per-key terms may have left something in the cell.
    fn is_own(_cell: u64) -> bool {
        false
    }

    /// Returns whether the cell stores what keys left in the table's terms in the terms `table`, and not in the terms before.
    fn is_current(_cell: u64, _table: &Terms) -> bool {
        true
    }

    /// Returns the cell in the terms that `change` made current, if it is in the terms before. No decision was later than `newest`.
    fn updated(cell: u64, _change: &Change, _newest: u128) -> u64 {
        cell
    }

    /// Returns a cell that is no less than either. Both are current.
    fn join(one: u64, other: u64, _table: &Terms) -> u64 {
        tally::join(one, other)
    }

    /// Returns a cell that is no less than what a key left in both cells, and no more than either.
    fn meet(one: u64, other: u64, _table: &Terms) -> u64 {
        tally::meet(one, other)
    }

    /// Returns whether everything in the cell was left in `terms`.
    fn is_in(_cell: u64, _terms: &Terms) -> bool {
        true
    }

    /// Returns the state, in `terms`, of a key of which only the sketch is known. If the key had other terms, it changes to these
    /// at `at`.
    fn from_cell(cell: u64, at: u128, terms: &Terms, table: &Terms) -> u128;

    /// Returns the state from `now` on if `now` is mapped to `then`, on a clock with another origin. No debt was repaid in between.
    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128;

    /// Carries what the sketch keeps, as [`carry`](Self::carry) does for a state.
    fn carry_cell(cell: u64, now: u128, then: u128, _terms: &Terms) -> u64 {
        tally::carry(cell, now, then)
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;
