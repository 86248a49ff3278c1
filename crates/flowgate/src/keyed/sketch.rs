//! What is remembered of keys whose entry was needed for another: never less than there was.
//!
//! Each key has two cells, chosen by its fingerprint, which it shares with others. A cell holds no less than the most
//! that any of them left behind; so the lesser of its two is no less than what the key itself left, and more only if both
//! are shared with somebody who left more.
//!
//! Source: the count-min sketch (G. Cormode, S. Muthukrishnan, *An Improved Data Stream Summary*, 2005), with
//! the greatest instead of the sum, as instants do not add up.

use super::place::{part, spread};
use super::rule::{Rule, Terms};
use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;

#[derive(Debug)]
pub(crate) struct Sketch {
    cells: Box<[AtomicU64]>,
}

impl Sketch {
    /// Of `cells` cells, at most 2³²; none: nothing is remembered.
    pub(crate) fn new(cells: usize) -> Result<Self, TryReserveError> {
        let mut all = Vec::new();
        all.try_reserve_exact(cells)?;
        all.extend((0..cells).map(|_| AtomicU64::new(0)));
        Ok(Self {
            cells: all.into_boxed_slice(),
        })
    }

    pub(crate) fn cells(&self) -> &[AtomicU64] {
        &self.cells
    }

    fn of(&self, fingerprint: u64) -> [&AtomicU64; 2] {
        let bits = spread(!fingerprint);
        let [one, other] = [bits >> 32, bits & u64::from(u32::MAX)];
        [one, other].map(|half| &self.cells[part(half, self.cells.len())])
    }

    /// Remembers `cell`, if it is more than what is known already. What does not matter any longer at `now` makes way; when
    /// it stopped to is handed to `forget` before.
    pub(crate) fn remember<R: Rule>(
        &self,
        fingerprint: u64,
        cell: u64,
        now: u128,
        forget: impl Fn(u128),
    ) {
        for slot in self.of(fingerprint) {
            let mut known = slot.load(Ordering::Relaxed);
            loop {
                let joined = if R::free_at(known) <= now {
                    forget(R::free_at(known));
                    cell
                } else {
                    R::join(known, cell)
                };
                if joined == known {
                    break;
                }
                // Release: who finds the entry gone finds this (see the table).
                match slot.compare_exchange_weak(
                    known,
                    joined,
                    Ordering::Release,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => break,
                    Err(changed) => known = changed,
                }
            }
        }
    }

    /// What the key with this fingerprint left, or more.
    pub(crate) fn recall<R: Rule>(&self, fingerprint: u64) -> u64 {
        let [one, other] = self
            .of(fingerprint)
            .map(|slot| slot.load(Ordering::Acquire));
        R::meet(one, other)
    }

    /// Says the same in other terms.
    pub(crate) fn restate<R: Rule>(&self, from: &Terms, to: &Terms, at: u128) {
        for slot in &self.cells {
            let mut known = slot.load(Ordering::Relaxed);
            while known != 0 {
                let restated = R::restate_cell(known, from, to, at);
                match slot.compare_exchange_weak(
                    known,
                    restated,
                    Ordering::Release,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => break,
                    Err(changed) => known = changed,
                }
            }
        }
    }
}
