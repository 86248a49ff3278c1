//! The algorithms: pure steps from (state, now, cost) to (state, verdict).
//!
//! They use no atomics, no clock, no input or output. Whatever stores a limiter's state, such as a word, a table or a
//! simulator, runs the steps that are written here, and no others.

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

/// A number of ticks: a length of time, or an instant as the time since the clock's origin. Ticks are so short that a
/// nanosecond and a token are both whole numbers of ticks.
///
/// The steps are generic, so that one text serves the 64-bit and the 128-bit word.
pub(crate) trait Ticks:
    Copy + Ord + Add<Output = Self> + Sub<Output = Self> + Rem<Output = Self> + Into<u128>
{
    /// No time at all.
    const ZERO: Self;

    /// The remainder of dividing by a power of two.
    fn remainder_of_power(self, power: Self) -> Self;
}

/// The change of the state that a step requests.
pub(crate) enum Step<R> {
    /// No change.
    Stay(R),
    /// This state instead.
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
