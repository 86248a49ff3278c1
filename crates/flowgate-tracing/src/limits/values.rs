use super::value;
use flowgate::{Clock, Denied, Keyed, KeyedError, Quota, TokenBucket};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tracing_core::Event;

/// Cells to count in for each value.
const CELLS_PER_VALUE: usize = 4;
const LEAST_CELLS: usize = 256;
/// 64 MiB of them.
const MOST_CELLS: usize = 1 << 22;

/// How many cells a look goes through.
const STEP: usize = 1024;

/// A limit for each value of a field, in memory that does not grow.
pub(crate) struct Values {
    field: &'static str,
    limits: Keyed<TokenBucket>,
    hasher: RandomState,
    /// By the hash of a value.
    cells: Box<[Cell]>,
    /// When the first of the cells may be of a value that has fallen silent.
    look_ns: AtomicU64,
    /// The cell at which a look continues; at the end, no look is in progress.
    looked_up_to: AtomicUsize,
}

/// Where it is counted how many events with a value were left out.
struct Cell {
    untold: AtomicU64,
    of: AtomicU64,
}

/// The callsite of the first event that has not been reported, and when its value may have become silent.
///
/// ```text
///  63       44 43                       0
/// ┌───────────┬──────────────────────────┐
/// │ callsite  │ milliseconds, rounded up │
/// └───────────┴──────────────────────────┘
/// ```
struct Of(u64);

impl Of {
    const TIME_BITS: u32 = 44;
    const LAST_SITE: u64 = (1 << (u64::BITS - Self::TIME_BITS)) - 1;
    const LAST_MS: u64 = (1 << Self::TIME_BITS) - 1;
    const NS: u64 = 1_000_000;

    /// After the last one that can be told apart, callsites count as that.
    fn new(site: usize, at_ns: u64) -> Self {
        let site = (site as u64).min(Self::LAST_SITE);
        let at_ms = at_ns.div_ceil(Self::NS).min(Self::LAST_MS);
        Self(site << Self::TIME_BITS | at_ms)
    }

    const fn site(&self) -> usize {
        (self.0 >> Self::TIME_BITS) as usize
    }

    const fn at_ns(&self) -> u64 {
        (self.0 & Self::LAST_MS).saturating_mul(Self::NS)
    }
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
        let cell = || Cell {
            untold: AtomicU64::new(0),
            of: AtomicU64::new(0),
        };
        Ok(Self {
            field,
            limits,
            hasher: RandomState::new(),
            cells: (0..cells).map(|_| cell()).collect(),
            look_ns: AtomicU64::new(u64::MAX),
            looked_up_to: AtomicUsize::new(cells),
        })
    }

    pub(crate) fn field(&self) -> &'static str {
        self.field
    }

    pub(super) fn set_quota(&self, quota: Quota) -> Result<(), KeyedError> {
        self.limits.set_quota(quota)
    }

    /// What the event's value is known by, if it has the field: 64 bits of a keyed hash.
    pub(super) fn value_of(&self, event: &Event<'_>) -> Option<u64> {
        value::hash(event, self.field, self.hasher.build_hasher())
    }

    /// Whether an event with this value may be logged.
    pub(super) fn try_acquire(&self, value: u64) -> Result<(), Denied> {
        self.limits.try_acquire(&value)
    }

    /// An event with this value is left out. If it is the first that has not been told, `first` returns the number of its
    /// callsite, and when the value has fallen silent, unless it is heard before.
    pub(super) fn leave_out(&self, value: u64, first: impl FnOnce() -> (usize, u64)) {
        let cell = self.cell(value);
        if cell.untold.fetch_add(1, Ordering::Relaxed) == 0 {
            let (site, at_ns) = first();
            let of = Of::new(site, at_ns);
            cell.of.store(of.0, Ordering::Relaxed);
            // Releases to the look that takes it.
            self.look_ns.fetch_min(of.at_ns(), Ordering::AcqRel);
        }
    }

    /// The number of suppressed events with this value that have not been reported; the caller then reports them.
    pub(super) fn take_untold(&self, value: u64) -> u64 {
        let untold = &self.cell(value).untold;
        // Mostly there are none, and the cache line stays with whoever has it.
        match untold.load(Ordering::Relaxed) {
            0 => 0,
            _ => untold.swap(0, Ordering::Relaxed),
        }
    }

    /// Looks at some cells, if it is time to, and hands over what is of values that have fallen silent: the number of a
    /// callsite, and how many of its events.
    #[inline]
    pub(super) fn look(&self, now_ns: impl FnOnce() -> u64, take_over: impl FnMut(usize, u64)) {
        let is_under_way = self.looked_up_to.load(Ordering::Relaxed) < self.cells.len();
        if is_under_way || self.look_ns.load(Ordering::Relaxed) != u64::MAX {
            self.look_on(now_ns(), take_over);
        }
    }

    #[cold]
    fn look_on(&self, now_ns: u64, mut take_over: impl FnMut(usize, u64)) {
        let cells = self.cells.len();
        if self.looked_up_to.load(Ordering::Relaxed) >= cells {
            if !super::is_time(&self.look_ns, now_ns) {
                return;
            }
            self.looked_up_to.store(0, Ordering::Relaxed);
        }
        let from = self
            .looked_up_to
            .fetch_add(STEP, Ordering::Relaxed)
            .min(cells);
        let to = (from + STEP).min(cells);
        for cell in &self.cells[from..to] {
            if cell.untold.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let of = Of(cell.of.load(Ordering::Relaxed));
            if now_ns < of.at_ns() {
                self.look_ns.fetch_min(of.at_ns(), Ordering::AcqRel);
            } else {
                take_over(of.site(), cell.untold.swap(0, Ordering::Relaxed));
            }
        }
    }

    /// Passes on everything that has not been reported.
    pub(super) fn take_all(&self, mut take_over: impl FnMut(usize, u64)) {
        for cell in &self.cells {
            let untold = cell.untold.swap(0, Ordering::Relaxed);
            if untold != 0 {
                take_over(Of(cell.of.load(Ordering::Relaxed)).site(), untold);
            }
        }
    }

    pub(super) fn suppressed(&self) -> u64 {
        let cells = self.cells.iter();
        cells.map(|cell| cell.untold.load(Ordering::Relaxed)).sum()
    }

    fn cell(&self, value: u64) -> &Cell {
        // The upper half of hash × cells: without a division, and less than the number of cells.
        let cell = (u128::from(value) * self.cells.len() as u128) >> 64;
        &self.cells[cell as usize]
    }
}
