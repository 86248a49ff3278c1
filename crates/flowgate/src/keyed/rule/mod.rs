//! What a table is told to do with a state: the algorithms, in the terms of an [entry](super::entry).
//!
//! A state is an instant, with which it stops to matter. Everything else about it is the rule's.
//!
//! # Why no stale time sees credit
//!
//! *Buckets.* A key's debt at an instant is a number of units. A state and a unit's cost tell it exactly for as long as that cost
//! has been in force. Before that, units flowed in at another rate, and a decision that is dated there must count these units as
//! owed: they had not flowed in yet. After a change of the table's quota both rates are known, so the decision counts them
//! ([`Rule::take_before`]). Before the change before that one, and before a key has exchanged the table's quota for its own or
//! back, the rate is not known. There every decision is refused until the exchange.
//!
//! *Windows.* A state has the end of a window and a count. Nothing flows in, so neither depends on a rate. Both are kept as they
//! are when terms change, whether the window is over or not: a decision at any time finds the window that was open then, or a
//! later one. A decision that is dated before the last change goes by the smaller limit and the longer window of both, as if it
//! had been made just before the change. Before the change before that one, it is refused. An export does not contain the terms
//! before the exporter's last change. So if that change is still to come by the exporter's clock, which was set back, an imported
//! table refuses every decision before it.
//!
//! # Counts that do not fit
//!
//! Terms say how many bits a count has. Terms for a smaller limit keep the bits of those before, as far as the window has room for
//! them ([`Rule::widened`]). Where it has not, a count that is all ones means at least that many: it is more than the limit, stays
//! so in all other terms, and lasts until its window is over.

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
/// Times are in ticks. An amount `n` is in units, and never more than `terms.most`. What is provided is what a window does.
pub trait Rule: Debug + 'static {
    /// What each key is allowed.
    type Quota: Copy + Debug + Send + Sync;

    /// Whether units flow in as time passes, so that a state stands for another debt by other terms.
    const FLOWS: bool;

    /// Whether `n` units cost `n` times what one does, in [`Terms::unit`]: then a token can be taken as if it were one unit.
    const HAS_PRICE: bool = false;

    /// Whether it admits everything, so that nothing is kept of a key.
    const ADMITS_ALL: bool = false;

    /// The integers that a quota comes down to.
    fn terms(quota: &Self::Quota) -> Result<Terms, QuotaError>;

    /// Whether a quota can come down to these.
    fn is_sound(terms: &Terms) -> bool;

    /// Whether keys in terms `own` can be in one table with those in terms `table`, and come to have these.
    fn goes_with(own: &Terms, table: &Terms) -> Result<(), QuotaError> {
        let _ = (own, table);
        Ok(())
    }

    /// `new` with as many bits for a count as `old` has, as far as there is room for them.
    fn widened(new: Terms, old: &Terms) -> Terms {
        let _ = old;
        new
    }

    /// Takes `n`: the new state, which is later than `now`; or how many ticks are missing.
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128>;

    /// [`take`](Self::take) by the smaller limit and the longer window of both terms: for a state in those after `change`, at a
    /// `now` before that.
    fn take_strictly(state: u128, now: u128, n: u64, change: &Change) -> Result<u128, u128> {
        Self::take(state, now, n, &change.stricter())
    }

    /// [`take`](Self::take) in the terms that `change` has put in force, at a `now` before that. This is for windows.
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

    /// Which of several quotas refuses `n` for the longest, counted from 0; none: there is only one, or `n` can be taken.
    fn refused_by(state: u128, now: u128, n: u64, terms: &Terms) -> Option<usize> {
        let _ = (state, now, n, terms);
        None
    }

    /// How many units the quota at `index` would allow by itself, and how many ticks it lacks for `n` of them.
    fn by_quota(index: usize, state: u128, now: u128, n: u64, terms: &Terms) -> (u64, u128) {
        let _ = index;
        let missing = Self::take(state, now, n, terms).err().unwrap_or(0);
        (Self::left(state, now, terms), missing)
    }

    /// Which of several quotas never allows more than [`Terms::most`], counted from 0; none: there is only one.
    fn smallest(terms: &Terms) -> Option<usize> {
        let _ = terms;
        None
    }

    /// What could be taken.
    fn left(state: u128, now: u128, terms: &Terms) -> u64;

    /// [`left`](Self::left) in the terms that `change` has put in force, at a `now` before that.
    fn left_before(state: u128, now: u128, change: &Change) -> u64 {
        Self::left(state, now, &change.stricter())
    }

    /// How many ticks it is until all could be taken.
    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128;

    /// Gives `n` back, as far as the promise allows: the new state, and how much that was.
    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64);

    /// The state without `n` that were taken at `then`, as far as that is sure not to have flowed in again by `now`, nor to
    /// have made way for anybody since.
    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128;

    /// The state in terms `to` of a key that has `state` in terms `from`, which it exchanges at `at`: what has been taken stays
    /// taken.
    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128;

    /// No less than either state.
    fn later(one: u128, other: u128, terms: &Terms) -> u128 {
        let _ = terms;
        one.max(other)
    }

    /// `state` at `at`, or what it would be if `most` units were owed, if that is less.
    fn limited(state: u128, at: u128, most: u64, terms: &Terms) -> u128 {
        let _ = (at, most, terms);
        state
    }

    /// The state of a key after others of it have taken `ahead` units: exactly, or less.
    fn behind(state: u128, now: u128, ahead: u128, terms: &Terms) -> u128 {
        let _ = (now, ahead, terms);
        state
    }

    /// [`behind`](Self::behind) in the terms that `change` has put in force, at a `now` before that.
    fn behind_before(state: u128, now: u128, ahead: u128, change: &Change) -> u128 {
        Self::behind(state, now, ahead, &change.to)
    }

    /// When the window began that a decision counts in, or earlier: a turn in it is not dated before that.
    fn begins(state: u128, terms: &Terms) -> u128 {
        let _ = (state, terms);
        0
    }

    /// What is kept of terms in an entry that has its own.
    fn class(terms: &Terms) -> u16 {
        // Less than 78.
        terms.count_bits as u16
    }

    /// Whether terms that go with `table` can be of this class.
    fn has_class(class: u16, table: &Terms) -> bool;

    /// Terms of this class, in which a state says that no less has been taken than in those that the class is of.
    fn of_class(class: u16, table: &Terms) -> Terms {
        Terms {
            count_bits: class.into(),
            ..*table
        }
    }

    /// The best that is known of a key that has `state` or has been forgotten with one that stopped to matter by `free`.
    fn unknown_until(state: u128, free: u128, terms: &Terms) -> u128;

    /// What the sketch keeps of a state: no less than it, in 64 bits.
    fn to_cell(state: u128, terms: &Terms) -> u64;

    /// When a cell, which is in the terms `table`, stops to matter.
    fn free_at(cell: u64, table: &Terms) -> u128 {
        let _ = table;
        tally::end(cell)
    }

    /// Whether a key may have left it in terms of its own.
    fn is_own(cell: u64) -> bool {
        let _ = cell;
        false
    }

    /// Whether what was left in the table's terms is told in the terms `table`, and not in those before.
    fn is_current(cell: u64, table: &Terms) -> bool {
        let _ = (cell, table);
        true
    }

    /// The cell in the terms that `change` has put in force, if it is in those before; nobody has decided later than `newest`.
    fn updated(cell: u64, change: &Change, newest: u128) -> u64 {
        let _ = (change, newest);
        cell
    }

    /// No less than either, both being current.
    fn join(one: u64, other: u64, table: &Terms) -> u64 {
        let _ = table;
        tally::join(one, other)
    }

    /// No less than what a key has left that is in both, and no more than either.
    fn meet(one: u64, other: u64, table: &Terms) -> u64 {
        let _ = table;
        tally::meet(one, other)
    }

    /// Whether all that is in the cell was left in `terms`.
    fn is_in(cell: u64, terms: &Terms) -> bool {
        let _ = (cell, terms);
        true
    }

    /// The state of a key of which no more is known than what the sketch keeps, in `terms`, which it comes to have at `at` if it
    /// had others.
    fn from_cell(cell: u64, at: u128, terms: &Terms, table: &Terms) -> u128;

    /// What becomes of a state from `now` on if `now` is taken to be `then`, on a clock with another origin. Nothing has been
    /// paid back in between.
    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128;

    /// [`carry`](Self::carry) for what the sketch keeps.
    fn carry_cell(cell: u64, now: u128, then: u128, terms: &Terms) -> u64 {
        let _ = terms;
        tally::carry(cell, now, then)
    }
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests;
