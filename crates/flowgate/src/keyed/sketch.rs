//! The memory of evicted keys: never less than they have taken.
//!
//! The fingerprint of a key selects two cells, which the key shares with others. A cell holds at least the most that any of its
//! keys left behind. The lower of a key's two cells is therefore no less than what the key left. It is more only if the key shares
//! both cells with keys that left more.
//!
//! # In which terms
//!
//! A key has to repay its debt with whatever quota it uses next. A cell therefore holds what does not depend on the quota:
//!
//! - For a window: its end and a number of units. A change of quota does not touch them.
//! - For a bucket: the instant at which it is full, and what a unit costs until then. The cost is that of the table's terms, or at
//!   least that of the [class](Rule::class) of the per-key terms. Both give the debt in units. A change of the table's quota
//!   restates what was left in the table's terms, as it does for entries, and nothing else.
//!
//! A cell can hold what keys in both kinds of terms have left. It counts for each of these keys in the terms in which it is more.
//!
//! Source: the count-min sketch (G. Cormode, S. Muthukrishnan, *An Improved Data Stream Summary*, 2005), with the maximum instead
//! of the sum, because instants do not add up.

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
    /// Creates a sketch of `cells` cells, at most 2³². With 0 cells, it remembers nothing.
    pub(crate) fn new(cells: usize) -> Result<Self, TryReserveError> {
        let (cells, _) = filled(cells, || AtomicU64::new(0))?;
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

    /// Applies `change` to both cells of the key with this fingerprint.
    pub(crate) fn remember(&self, fingerprint: u64, change: impl Fn(u64) -> u64) {
        for slot in self.of(fingerprint) {
            update(slot, &change);
        }
    }

    /// Returns both cells of the key with this fingerprint.
    pub(crate) fn recall(&self, fingerprint: u64) -> [u64; 2] {
        self.of(fingerprint)
            .map(|slot| slot.load(Ordering::Acquire))
    }

    /// Applies `change` to every cell that is not empty.
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
        // Release: a thread that finds the entry gone finds this (see the table).
        match slot.compare_exchange_weak(known, changed, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => known = now,
        }
    }
}
