//! The bits of the state, and the words of the parameters.

use crate::algorithm::decaying_bucket::{Bucket, State};
use crate::algorithm::half_life::{HalfLife, LEVEL_END};
use crate::clock::saturating_nanos;
use crate::quota::QuotaError;
use crate::store::cell;
use core::time::Duration;

/// Of which a level in ticks takes 48 bits.
const MAX_CAPACITY: u64 = (1 << 32) - 1;
/// 292 years.
const MAX_HALF_LIFE_NS: u64 = i64::MAX as u64;

/// The current settings, in the terms of the algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters(pub(super) Bucket);

impl cell::Parameters<4> for Parameters {
    fn to_words(&self) -> [u64; 4] {
        let Bucket {
            capacity_ticks,
            unit_shift,
            half_life,
        } = self.0;
        [
            capacity_ticks,
            unit_shift as u64,
            half_life.ns,
            half_life.reciprocal,
        ]
    }

    #[inline(always)]
    fn from_words([capacity_ticks, unit_shift, ns, reciprocal]: [u64; 4]) -> Self {
        Self(Bucket {
            capacity_ticks,
            unit_shift: unit_shift as u32,
            half_life: HalfLife { ns, reciprocal },
        })
    }
}

/// The parameters of a bucket's settings, if they are in range.
pub(super) fn checked(capacity: u64, half_life: Duration) -> Result<(u64, HalfLife), QuotaError> {
    let capacity = QuotaError::in_range("a capacity", capacity, 1, MAX_CAPACITY)?;
    let ns = saturating_nanos(half_life);
    let ns = QuotaError::in_range("a half-life in nanoseconds", ns, 1, MAX_HALF_LIFE_NS)?;
    Ok((capacity, HalfLife::new(ns)))
}

const LEVEL_BITS: u32 = LEVEL_END.trailing_zeros();

/// ```text
///  111 ················· 48 47 ········· 0
///  time of the level        level
/// ```
#[inline(always)]
pub(super) const fn pack(state: State) -> u128 {
    (state.time_ns as u128) << LEVEL_BITS | state.level as u128
}

#[inline(always)]
pub(super) const fn unpack(bits: u128) -> State {
    State {
        time_ns: (bits >> LEVEL_BITS) as u64,
        level: bits as u64 & (LEVEL_END - 1),
    }
}
