//! The bits of the state, and the words of the parameters.

use crate::algorithm::approximate_window::{State, Window};
use crate::quota::{Quota, QuotaError};
use crate::store::cell;

/// Limits in units are below this, so that a count fits its bits.
pub(super) const LIMIT_END: u64 = 1 << COUNT_BITS;
const COUNT_BITS: u32 = 24;

/// The current quota, in the terms of the algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) window: Window,
    pub(super) units_per_token: u64,
}

impl cell::Parameters<3> for Parameters {
    fn to_words(&self) -> [u64; 3] {
        [
            self.window.limit,
            self.window.length_ns,
            self.units_per_token,
        ]
    }

    #[inline(always)]
    fn from_words([limit, length_ns, units_per_token]: [u64; 3]) -> Self {
        Self {
            window: Window { limit, length_ns },
            units_per_token,
        }
    }
}

/// The parameters of `quota`, if it is one for a window.
pub(super) fn parameters_for(quota: &Quota) -> Result<Parameters, QuotaError> {
    let (limit, length_ns) = quota.window()?;
    let limit = QuotaError::in_range("a window's limit", limit, 1, LIMIT_END - 1)?;
    Ok(Parameters {
        window: Window { limit, length_ns },
        units_per_token: quota.scale(),
    })
}

/// ```text
///  111 ················ 48 47 ········ 24 23 ········· 0
///  start of the window      previous       current
/// ```
#[inline(always)]
pub(super) const fn pack(state: State) -> u128 {
    (state.start as u128) << (2 * COUNT_BITS)
        | (state.previous << COUNT_BITS | state.current) as u128
}

#[inline(always)]
pub(super) const fn unpack(bits: u128) -> State {
    State {
        start: (bits >> (2 * COUNT_BITS)) as u64,
        previous: bits as u64 >> COUNT_BITS & (LIMIT_END - 1),
        current: bits as u64 & (LIMIT_END - 1),
    }
}
