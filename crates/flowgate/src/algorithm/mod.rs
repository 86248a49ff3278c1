//! The algorithms: pure steps from (state, now, cost) to (state, verdict).
//!
//! No atomics, no clock, no input or output. Whatever stores a limiter's state, in one word, in a
//! table, in a simulator, runs the step that is written here and nowhere else.

pub(crate) mod approximate_window;
pub(crate) mod decaying_bucket;
pub(crate) mod dual_token_bucket;
pub(crate) mod fixed_window;
pub(crate) mod half_life;
pub(crate) mod mul_div;
pub(crate) mod segmented_window;
pub(crate) mod sliding_window;
pub(crate) mod token_bucket;
pub(crate) mod warm_up;

use core::ops::{Add, Rem, Sub};

/// A number of ticks: a span of time, or an instant as the span since the clock's origin, counted in a
/// unit fine enough that a nanosecond and a token are both whole numbers of it.
///
/// The steps are generic so that one text serves the 64-bit and the 128-bit word.
pub(crate) trait Ticks:
    Copy + Ord + Add<Output = Self> + Sub<Output = Self> + Rem<Output = Self> + Into<u128>
{
    /// No time at all.
    const ZERO: Self;

    /// The remainder of dividing by a power of two.
    fn remainder_of_power(self, power: Self) -> Self;
}

/// What a step wants done to the state.
pub(crate) enum Step<R> {
    /// Nothing.
    Stay(R),
    /// This in its place.
    Move(u128, R),
}

impl Ticks for u64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn remainder_of_power(self, power: Self) -> Self {
        self & (power - 1)
    }
}

impl Ticks for u128 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn remainder_of_power(self, power: Self) -> Self {
        self & (power - 1)
    }
}
