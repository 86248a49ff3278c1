//! The [`Parameters`] as words, for all decisions that the 64-bit step does not make.

use super::parameters::{Layout, Parameters};
use super::rule::Rule;
use crate::primitive::versioned;

pub(super) type Version = versioned::Version<WORDS>;

const TICKS_PER_NS: usize = 0;
const UNIT_TICKS: usize = 1;
pub(super) const UNITS_PER_TOKEN: usize = 2;
const BURST_UNITS: usize = 3;
const DEBT_UNITS: usize = 4;
const INTERVAL_NS: usize = 5;
const CREDITED_NS: usize = 6;
const WINDOW_NS: usize = 7;
/// [`NO_GRID`]: none.
const GRID_NS: usize = 8;
const EPOCH: usize = 9;
const SINCE_NS: usize = 10;
const NARROW_SPAN_NS: usize = 11;
const HANDFUL_UNITS: usize = 12;
/// [`NARROW`], [`WIDE`] or [`SHARED`].
const LAYOUT: usize = 13;
const BASE_NS: usize = 14;
pub(super) const WORDS: usize = 15;

/// The beginning of a grid is less than the length of a window or of an interval, so it is never this.
const NO_GRID: u64 = u64::MAX;

const NARROW: u64 = 0;
const WIDE: u64 = 1;
const SHARED: u64 = 2;

pub(super) const fn words(parameters: &Parameters) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[TICKS_PER_NS] = parameters.ticks_per_ns;
    words[UNIT_TICKS] = parameters.unit_ticks;
    words[UNITS_PER_TOKEN] = parameters.units_per_token;
    words[BURST_UNITS] = parameters.burst_units;
    words[DEBT_UNITS] = parameters.debt_units;
    words[INTERVAL_NS] = parameters.interval_ns;
    words[CREDITED_NS] = parameters.credited_ns;
    words[WINDOW_NS] = parameters.window_ns;
    words[GRID_NS] = match parameters.grid_ns {
        Some(begins_ns) => begins_ns,
        None => NO_GRID,
    };
    words[EPOCH] = parameters.epoch;
    words[SINCE_NS] = parameters.since_ns;
    words[NARROW_SPAN_NS] = parameters.narrow_span_ns;
    words[HANDFUL_UNITS] = parameters.handful_units;
    (words[LAYOUT], words[BASE_NS]) = match parameters.layout {
        Layout::Narrow { base_ns } => (NARROW, base_ns),
        Layout::Wide => (WIDE, 0),
        Layout::Shared => (SHARED, 0),
    };
    words
}

/// Returns the parameters, which may be mixed until the caller has compared the tag.
///
/// Words that `R` or the layout does not use are not loaded.
#[inline(always)]
pub(super) fn parameters<R: Rule>(version: &Version) -> Parameters {
    let of_window = |index| match R::HAS_WINDOWS {
        true => version.word(index),
        false => 0,
    };
    let of_bucket = |index| match R::HAS_WINDOWS {
        true => 0,
        false => version.word(index),
    };
    let interval_ns = of_bucket(INTERVAL_NS);
    // Continuous time has neither.
    let (credited_ns, grid_ns) = match interval_ns {
        0 if !R::HAS_WINDOWS => (0, NO_GRID),
        _ => (of_bucket(CREDITED_NS), version.word(GRID_NS)),
    };
    let layout = match version.word(LAYOUT) {
        NARROW => Layout::Narrow {
            base_ns: version.word(BASE_NS),
        },
        SHARED => Layout::Shared,
        _ => Layout::Wide,
    };
    Parameters {
        ticks_per_ns: version.word(TICKS_PER_NS),
        unit_ticks: version.word(UNIT_TICKS),
        units_per_token: version.word(UNITS_PER_TOKEN),
        burst_units: version.word(BURST_UNITS),
        debt_units: of_bucket(DEBT_UNITS),
        interval_ns,
        credited_ns,
        window_ns: of_window(WINDOW_NS),
        grid_ns: match grid_ns {
            NO_GRID => None,
            begins_ns => Some(begins_ns),
        },
        epoch: of_bucket(EPOCH),
        since_ns: version.word(SINCE_NS),
        narrow_span_ns: version.word(NARROW_SPAN_NS),
        handful_units: match layout {
            Layout::Narrow { .. } => 0,
            Layout::Wide | Layout::Shared => version.word(HANDFUL_UNITS),
        },
        layout,
    }
}
