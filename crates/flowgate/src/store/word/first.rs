//! The parameters of generation 0.

use super::parameters::{Layout, Parameters};
use super::rule::Rule;

/// The parameters that a plain limiter is built with, in as few bytes as possible. They never change.
///
/// Plain [`Parameters`] have no grid and no interval, share with no stripes, and count the 64-bit state from the clock's
/// origin. A limiter with other parameters is changed to them when it is built.
#[derive(Debug)]
pub(super) struct First {
    ticks_per_ns: u64,
    unit_ticks: u64,
    units_per_token: u64,
    burst_units: u64,
    /// In a window its length in nanoseconds, and otherwise the debt in units: a rule has one of them.
    window_ns_or_debt_units: u64,
    /// 0: the layout is wide.
    narrow_span_ns: u64,
}

impl First {
    /// The plain part of `parameters`.
    pub(super) const fn new(parameters: &Parameters) -> Self {
        Self {
            ticks_per_ns: parameters.ticks_per_ns,
            unit_ticks: parameters.unit_ticks,
            units_per_token: parameters.units_per_token,
            burst_units: parameters.burst_units,
            window_ns_or_debt_units: match parameters.window_ns {
                0 => parameters.debt_units,
                window_ns => window_ns,
            },
            narrow_span_ns: parameters.narrow_span_ns,
        }
    }

    /// Returns whether the plain part is all of `parameters`.
    pub(super) fn is_all_of(parameters: &Parameters) -> bool {
        parameters.interval_ns == 0
            && parameters.grid_ns.is_none()
            && parameters.epoch == 0
            && parameters.since_ns == 0
            && parameters.handful_units == 0
            && parameters.layout == layout(parameters.narrow_span_ns)
    }

    #[inline(always)]
    pub(super) fn parameters<R: Rule>(&self) -> Parameters {
        let (window_ns, debt_units) = match R::HAS_WINDOWS {
            true => (self.window_ns_or_debt_units, 0),
            false => (0, self.window_ns_or_debt_units),
        };
        Parameters {
            ticks_per_ns: self.ticks_per_ns,
            unit_ticks: self.unit_ticks,
            units_per_token: self.units_per_token,
            burst_units: self.burst_units,
            debt_units,
            window_ns,
            narrow_span_ns: self.narrow_span_ns,
            layout: layout(self.narrow_span_ns),
            ..Parameters::PLAIN
        }
    }

    pub(super) fn units_per_token(&self) -> u64 {
        self.units_per_token
    }
}

#[inline(always)]
const fn layout(narrow_span_ns: u64) -> Layout {
    match narrow_span_ns {
        0 => Layout::Wide,
        _ => Layout::Narrow { base_ns: 0 },
    }
}
