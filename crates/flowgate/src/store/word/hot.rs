//! The words that the 64-bit step uses, already scaled for it.
//!
//! They are next to the 64-bit state, in one version. So a decision loads one cache line of the limiter, and the clock.

use super::layout::Narrow;
use super::parameters::{Layout, Parameters};
use crate::primitive::versioned;

pub(super) type Version = versioned::Version<WORDS>;

pub(super) const TICKS_PER_NS: usize = 0;
pub(super) const UNIT_TICKS: usize = 1;
pub(super) const TOKEN_TICKS: usize = 2;
pub(super) const BURST_TICKS: usize = 3;
/// The time from which the 64-bit state is counted.
pub(super) const BASE_NS: usize = 4;
/// How far past the base the step may be used; 0 if it may not be used at all.
pub(super) const SPAN_NS: usize = 5;
pub(super) const WORDS: usize = 6;

/// All words are zero if the 64-bit step does not apply.
pub(super) const fn words(parameters: &Parameters) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    if let (Layout::Narrow { base_ns }, 0) = (parameters.layout, parameters.interval_ns) {
        // Values below the narrow bounds are below 2⁵⁶, so scaling loses nothing.
        words[TICKS_PER_NS] = Narrow::scaled(parameters.ticks_per_ns as u128);
        words[UNIT_TICKS] = Narrow::scaled(parameters.unit_ticks as u128);
        words[TOKEN_TICKS] = Narrow::scaled(parameters.token_ticks());
        words[BURST_TICKS] = Narrow::scaled(parameters.burst_ticks());
        words[BASE_NS] = base_ns;
        words[SPAN_NS] = parameters.narrow_span_ns;
    }
    words
}
