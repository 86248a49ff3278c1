//! One of the two places that hold the parameters in force.

use super::layout::Narrow;
use super::parameters::{Layout, Parameters};
use super::rule::Rule;
use crate::primitive::{AtomicU64, Ordering, const_unless_loom};

/// The parameters of one generation.
///
/// The writer changes `tag` first and the numbers after it, each with Release. A reader loads the numbers,
/// each with Acquire, and the tag last: if any number was of a later generation, so is the tag.
/// None is of an earlier one, since the reader has found the generation named in the word, which was
/// put there after they were stored. So an equal tag means that all numbers belong together, without
/// a fence and without a lock.
///
/// `hot` is what the 64-bit step needs, already multiplied for it, in the cache line of the word.
#[derive(Debug)]
pub(crate) struct Hot {
    /// Generation × 2: its low byte equals the word's while nobody waits.
    pub(crate) tag: AtomicU64,
    pub(crate) ticks_per_ns: AtomicU64,
    pub(crate) unit_ticks: AtomicU64,
    pub(crate) token_ticks: AtomicU64,
    pub(crate) burst_ticks: AtomicU64,
    /// What the word's time is counted from.
    pub(crate) base_ns: AtomicU64,
    /// How far past the base the step may be used; 0 where it may not be used at all.
    pub(crate) span_ns: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Cold {
    ticks_per_ns: AtomicU64,
    unit_ticks: AtomicU64,
    pub(crate) units_per_token: AtomicU64,
    burst_units: AtomicU64,
    debt_units: AtomicU64,
    interval_ns: AtomicU64,
    credited_ns: AtomicU64,
    window_ns: AtomicU64,
    /// [`NO_GRID`]: none.
    grid_ns: AtomicU64,
    epoch: AtomicU64,
    since_ns: AtomicU64,
    narrow_span_ns: AtomicU64,
    pub(crate) handful_units: AtomicU64,
    /// [`NARROW`], [`WIDE`] or [`SHARED`].
    layout: AtomicU64,
    base_ns: AtomicU64,
}

pub(crate) const fn tag(generation: u64) -> u64 {
    generation << 1
}

/// The scaled numbers of [`Hot`], all zero where the 64-bit step does not apply.
struct Scaled {
    ticks_per_ns: u64,
    unit_ticks: u64,
    token_ticks: u64,
    burst_ticks: u64,
    base_ns: u64,
    span_ns: u64,
}

impl Scaled {
    const fn of(parameters: &Parameters) -> Self {
        match parameters.layout {
            // What is below the narrow bounds is below 2⁵⁶, so that scaling loses nothing.
            Layout::Narrow { base_ns } if parameters.interval_ns == 0 => Self {
                ticks_per_ns: Narrow::scaled(parameters.ticks_per_ns as u128),
                unit_ticks: Narrow::scaled(parameters.unit_ticks as u128),
                token_ticks: Narrow::scaled(parameters.token_ticks()),
                burst_ticks: Narrow::scaled(parameters.burst_ticks()),
                base_ns,
                span_ns: parameters.narrow_span_ns,
            },
            Layout::Narrow { .. } | Layout::Wide | Layout::Shared => Self {
                ticks_per_ns: 0,
                unit_ticks: 0,
                token_ticks: 0,
                burst_ticks: 0,
                base_ns: 0,
                span_ns: 0,
            },
        }
    }
}

impl Hot {
    const_unless_loom! {
        pub(crate) const fn new(parameters: &Parameters) -> Self {
            let scaled = Scaled::of(parameters);
            Self {
                tag: AtomicU64::new(tag(0)),
                ticks_per_ns: AtomicU64::new(scaled.ticks_per_ns),
                unit_ticks: AtomicU64::new(scaled.unit_ticks),
                token_ticks: AtomicU64::new(scaled.token_ticks),
                burst_ticks: AtomicU64::new(scaled.burst_ticks),
                base_ns: AtomicU64::new(scaled.base_ns),
                span_ns: AtomicU64::new(scaled.span_ns),
            }
        }
    }

    fn store(&self, parameters: &Parameters) {
        let scaled = Scaled::of(parameters);
        self.ticks_per_ns
            .store(scaled.ticks_per_ns, Ordering::Release);
        self.unit_ticks.store(scaled.unit_ticks, Ordering::Release);
        self.token_ticks
            .store(scaled.token_ticks, Ordering::Release);
        self.burst_ticks
            .store(scaled.burst_ticks, Ordering::Release);
        self.base_ns.store(scaled.base_ns, Ordering::Release);
        self.span_ns.store(scaled.span_ns, Ordering::Release);
    }
}

impl Cold {
    const_unless_loom! {
        pub(crate) const fn new(parameters: &Parameters) -> Self {
            Self {
                ticks_per_ns: AtomicU64::new(parameters.ticks_per_ns),
                unit_ticks: AtomicU64::new(parameters.unit_ticks),
                units_per_token: AtomicU64::new(parameters.units_per_token),
                burst_units: AtomicU64::new(parameters.burst_units),
                debt_units: AtomicU64::new(parameters.debt_units),
                interval_ns: AtomicU64::new(parameters.interval_ns),
                credited_ns: AtomicU64::new(parameters.credited_ns),
                window_ns: AtomicU64::new(parameters.window_ns),
                grid_ns: AtomicU64::new(grid(parameters)),
                epoch: AtomicU64::new(parameters.epoch),
                since_ns: AtomicU64::new(parameters.since_ns),
                narrow_span_ns: AtomicU64::new(parameters.narrow_span_ns),
                handful_units: AtomicU64::new(parameters.handful_units),
                layout: AtomicU64::new(encoded(parameters.layout).0),
                base_ns: AtomicU64::new(encoded(parameters.layout).1),
            }
        }
    }

    fn store(&self, parameters: &Parameters) {
        self.ticks_per_ns
            .store(parameters.ticks_per_ns, Ordering::Release);
        self.unit_ticks
            .store(parameters.unit_ticks, Ordering::Release);
        self.units_per_token
            .store(parameters.units_per_token, Ordering::Release);
        self.burst_units
            .store(parameters.burst_units, Ordering::Release);
        self.debt_units
            .store(parameters.debt_units, Ordering::Release);
        self.interval_ns
            .store(parameters.interval_ns, Ordering::Release);
        self.credited_ns
            .store(parameters.credited_ns, Ordering::Release);
        self.window_ns
            .store(parameters.window_ns, Ordering::Release);
        self.grid_ns.store(grid(parameters), Ordering::Release);
        self.epoch.store(parameters.epoch, Ordering::Release);
        self.since_ns.store(parameters.since_ns, Ordering::Release);
        self.narrow_span_ns
            .store(parameters.narrow_span_ns, Ordering::Release);
        self.handful_units
            .store(parameters.handful_units, Ordering::Release);
        let (layout, base_ns) = encoded(parameters.layout);
        self.layout.store(layout, Ordering::Release);
        self.base_ns.store(base_ns, Ordering::Release);
    }

    /// Perhaps torn: the caller looks at the tag afterwards. What only windows have, or only buckets, is not loaded for the
    /// others, and what stripes are issued only for [`Layout::Wide`] and [`Layout::Shared`].
    #[inline(always)]
    pub(crate) fn load<R: Rule>(&self) -> Parameters {
        let of_window = |word: &AtomicU64| match R::HAS_WINDOWS {
            true => word.load(Ordering::Acquire),
            false => 0,
        };
        let of_bucket = |word: &AtomicU64| match R::HAS_WINDOWS {
            true => 0,
            false => word.load(Ordering::Acquire),
        };
        let interval_ns = of_bucket(&self.interval_ns);
        // Time that flows has neither.
        let (credited_ns, grid_ns) = match interval_ns {
            0 if !R::HAS_WINDOWS => (0, NO_GRID),
            _ => (
                of_bucket(&self.credited_ns),
                self.grid_ns.load(Ordering::Acquire),
            ),
        };
        Parameters {
            ticks_per_ns: self.ticks_per_ns.load(Ordering::Acquire),
            unit_ticks: self.unit_ticks.load(Ordering::Acquire),
            units_per_token: self.units_per_token.load(Ordering::Acquire),
            burst_units: self.burst_units.load(Ordering::Acquire),
            debt_units: of_bucket(&self.debt_units),
            interval_ns,
            credited_ns,
            window_ns: of_window(&self.window_ns),
            grid_ns: match grid_ns {
                NO_GRID => None,
                begins_ns => Some(begins_ns),
            },
            epoch: of_bucket(&self.epoch),
            since_ns: self.since_ns.load(Ordering::Acquire),
            narrow_span_ns: self.narrow_span_ns.load(Ordering::Acquire),
            handful_units: 0,
            layout: match self.layout.load(Ordering::Acquire) {
                NARROW => Layout::Narrow {
                    base_ns: self.base_ns.load(Ordering::Acquire),
                },
                SHARED => Layout::Shared,
                _ => Layout::Wide,
            },
        }
    }
}

/// Less than the length of a window or of an interval, a grid's beginning is never this.
const NO_GRID: u64 = u64::MAX;

const fn grid(parameters: &Parameters) -> u64 {
    match parameters.grid_ns {
        Some(begins_ns) => begins_ns,
        None => NO_GRID,
    }
}

const NARROW: u64 = 0;
const WIDE: u64 = 1;
const SHARED: u64 = 2;

/// `layout` and `base_ns`.
const fn encoded(layout: Layout) -> (u64, u64) {
    match layout {
        Layout::Narrow { base_ns } => (NARROW, base_ns),
        Layout::Wide => (WIDE, 0),
        Layout::Shared => (SHARED, 0),
    }
}

/// Fills a slot that is not in force.
pub(crate) fn fill(hot: &Hot, cold: &Cold, generation: u64, parameters: &Parameters) {
    hot.tag.store(tag(generation), Ordering::Release);
    hot.store(parameters);
    cold.store(parameters);
}
