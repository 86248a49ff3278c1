//! What a table is told to do with a state: the algorithms, in the terms of an [entry](super::entry).
//!
//! A state is an instant, with which it stops to matter. Everything else about it is the rule's.

mod bucket;
mod fixed_window;
mod segmented_window;
mod tally;
mod terms;

pub use bucket::Bucket;
pub use fixed_window::FixedWindow;
pub use segmented_window::SegmentedWindow;
pub use terms::Terms;

use crate::quota::{Quota, QuotaError};
use core::fmt::Debug;

/// An algorithm that keeps what it knows of a key in one state.
///
/// Times are in ticks. An amount `n` is in units, and never more than `terms.most`.
pub trait Rule: Debug + 'static {
    /// The integers that a quota comes down to.
    fn terms(quota: &Quota) -> Result<Terms, QuotaError>;

    /// Whether a quota can come down to these.
    fn is_sound(terms: &Terms) -> bool;

    /// Whether keys in terms `own` can be in one table with those in terms `table`, and come to have these.
    fn goes_with(own: &Terms, table: &Terms) -> Result<(), QuotaError> {
        let _ = (own, table);
        Ok(())
    }

    /// Takes `n`: the new state, which is later than `now`; or how many ticks are missing.
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128>;

    /// What could be taken.
    fn left(state: u128, now: u128, terms: &Terms) -> u64;

    /// How many ticks it is until all could be taken.
    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128;

    /// Gives `n` back, as far as the promise allows: the new state, and how much that was.
    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64);

    /// The state without `n` that were taken at `then`, as far as that is sure not to have flowed in again by `now`, nor to
    /// have made way for anybody since.
    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128;

    /// The state in terms `to` of a key that has `state` in terms `from`, seen at `at`: what has been taken stays taken.
    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128;

    /// The state of a key after others of it have taken `ahead` units: exactly, or less.
    fn behind(state: u128, now: u128, ahead: u128, terms: &Terms) -> u128;

    /// What is kept of terms in an entry that has its own.
    fn class(terms: &Terms) -> u16;

    /// Whether terms that go with `table` can be of this class.
    fn has_class(class: u16, table: &Terms) -> bool;

    /// Terms of this class, in which a state says that no less has been taken than in those that the class is of.
    fn of_class(class: u16, table: &Terms) -> Terms;

    /// The best that is known of a key of which no more is known than that all could be taken at `free`.
    fn unknown_until(free: u128, terms: &Terms) -> u128;

    /// What the sketch keeps of a state: no less than it, in 64 bits.
    fn to_cell(state: u128, terms: &Terms) -> u64;

    /// When a cell stops to matter.
    fn free_at(cell: u64) -> u128;

    /// No less than either.
    fn join(one: u64, other: u64) -> u64;

    /// No more than either.
    fn meet(one: u64, other: u64) -> u64;

    /// The state at `now` of a key of which no more is known than what the sketch keeps.
    fn from_cell(cell: u64, now: u128, terms: &Terms) -> u128;

    /// What becomes of a state from `now` on if `now` is taken to be `then`, on a clock with another origin. Nothing has been
    /// paid back in between.
    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128;

    /// [`carry`](Self::carry) for what the sketch keeps.
    fn carry_cell(cell: u64, now: u128, then: u128) -> u64;

    /// What the cell becomes when the table goes from terms `from` to `to` at `at`.
    fn restate_cell(cell: u64, from: &Terms, to: &Terms, at: u128) -> u64;
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests;
