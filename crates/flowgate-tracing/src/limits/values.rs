use super::value;
use flowgate::{Clock, Keyed, KeyedError, Quota, TokenBucket};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::Event;

/// Cells to count in for each value.
const CELLS_PER_VALUE: usize = 4;
const LEAST_CELLS: usize = 256;
/// 32 MiB of them.
const MOST_CELLS: usize = 1 << 22;

/// A limit for each value of a field, in memory that does not grow.
pub(crate) struct Values {
    field: &'static str,
    limits: Keyed<TokenBucket>,
    hasher: RandomState,
    /// Events that were left out, by the hash of their value.
    untold: Box<[AtomicU64]>,
}

impl Values {
    pub(crate) fn new(
        field: &'static str,
        values: usize,
        quota: Quota,
        clock: &Clock,
    ) -> Result<Self, KeyedError> {
        let limits = Keyed::token_bucket(quota).clock(clock).capacity(values)?;
        let cells = values.saturating_mul(CELLS_PER_VALUE);
        let cells = cells.clamp(LEAST_CELLS, MOST_CELLS);
        Ok(Self {
            field,
            limits,
            hasher: RandomState::new(),
            untold: (0..cells).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    pub(crate) fn field(&self) -> &'static str {
        self.field
    }

    /// What the event's value is known by, if it has the field: 64 bits of a keyed hash.
    pub(super) fn value_of(&self, event: &Event<'_>) -> Option<u64> {
        value::hash(event, self.field, self.hasher.build_hasher())
    }

    /// Whether an event with this value may be heard; if not, it is counted.
    pub(super) fn admits(&self, value: u64) -> bool {
        let admitted = self.limits.try_acquire(&value).is_ok();
        if !admitted {
            self.cell(value).fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Where it is counted how many with this value were left out.
    pub(super) fn cell(&self, value: u64) -> &AtomicU64 {
        // The upper half of hash × cells: without a division, and less than the number of cells.
        let cell = (u128::from(value) * self.untold.len() as u128) >> 64;
        &self.untold[cell as usize]
    }

    pub(super) fn suppressed(&self) -> u64 {
        let cells = self.untold.iter();
        cells.map(|cell| cell.load(Ordering::Relaxed)).sum()
    }
}
