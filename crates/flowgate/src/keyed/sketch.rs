//! What is remembered of keys whose entry was needed for another: never less than there was.
//!
//! Each key has two cells, chosen by its fingerprint, which it shares with others. A cell holds no less than the most
//! that any of them left behind; so the lesser of its two is no less than what the key itself left, and more only if both
//! are shared with somebody who left more.
//!
//! # In which terms
//!
//! What a key left is to be owed by whatever quota it asks for next. So a cell holds what does not depend on that:
//!
//! - of a window, its end and a number of units. A change of quota does not touch it;
//! - of a bucket, the instant at which it is full, and what a unit costs until then: as the table's terms say, or no less than the
//!   [class](Rule::class) of the keys' own. The debt in units follows from both. A change of the table's quota restates what was
//!   left in its terms as it does entries, and nothing else.
//!
//! A cell to which keys in both kinds of terms have left something counts for each of them by the terms in which it is more.
//!
//! Source: the count-min sketch (G. Cormode, S. Muthukrishnan, *An Improved Data Stream Summary*, 2005), with
//! the greatest instead of the sum, as instants do not add up.

use super::entry::{part, spread};
#[cfg(doc)]
use super::rule::Rule;
use super::table::filled;
use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;
use alloc::collections::TryReserveError;

#[derive(Debug)]
pub(crate) struct Sketch {
    cells: Box<[AtomicU64]>,
}

impl Sketch {
    /// Of `cells` cells, at most 2³²; none: nothing is remembered.
    pub(crate) fn new(cells: usize) -> Result<Self, TryReserveError> {
        let cells = filled(cells, || AtomicU64::new(0))?;
        Ok(Self { cells })
    }

    pub(crate) fn cells(&self) -> &[AtomicU64] {
        &self.cells
    }

    fn of(&self, fingerprint: u64) -> [&AtomicU64; 2] {
        let bits = spread(!fingerprint);
        let [one, other] = [bits >> 32, bits & u64::from(u32::MAX)];
        [one, other].map(|half| &self.cells[part(half, self.cells.len())])
    }

    /// Puts what `change` makes of each into both cells of the key with this fingerprint.
    pub(crate) fn remember(&self, fingerprint: u64, change: impl Fn(u64) -> u64) {
        for slot in self.of(fingerprint) {
            update(slot, &change);
        }
    }

    /// Both cells of the key with this fingerprint.
    pub(crate) fn recall(&self, fingerprint: u64) -> [u64; 2] {
        self.of(fingerprint)
            .map(|slot| slot.load(Ordering::Acquire))
    }

    /// Puts what `change` makes of it into every cell that holds something.
    pub(crate) fn restate(&self, change: impl Fn(u64) -> u64) {
        for slot in &self.cells {
            update(slot, |cell| match cell {
                0 => 0,
                cell => change(cell),
            });
        }
    }
}

fn update(slot: &AtomicU64, change: impl Fn(u64) -> u64) {
    let mut known = slot.load(Ordering::Relaxed);
    loop {
        let changed = change(known);
        if changed == known {
            return;
        }
        // Release: who finds the entry gone finds this (see the table).
        match slot.compare_exchange_weak(known, changed, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => known = now,
        }
    }
}
