//! A limit with a fractional part.

use core::fmt;

/// How many parts a permit has.
const PARTS: u64 = 1 << 16;
/// The largest number of whole permits.
const MOST: u32 = (1 << 31) - 1;

/// A number of permits with a fractional part, in steps of 1/65,536.
///
/// An [`AdaptiveLimit`](crate::AdaptiveLimit) rounds it to whole permits. Below one permit, it is the share of the time during which one
/// call is in flight.
///
/// ```
/// use flowgate::FineLimit;
///
/// assert_eq!(FineLimit::whole(20).permits(), 20);
/// let quarter = FineLimit::one_in(4);
/// assert_eq!((quarter.permits(), quarter.to_string()), (1, "0.25".to_owned()));
/// assert!(quarter < FineLimit::ONE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FineLimit(u64);

impl FineLimit {
    /// One permit.
    pub const ONE: Self = Self(PARTS);

    /// The smallest limit: one call is in flight for 1/65,536 of the time.
    pub const SMALLEST: Self = Self(1);

    /// The largest limit: 2³¹ − 1 permits.
    pub const LARGEST: Self = Self(MOST as u64 * PARTS);

    /// Creates a limit of `permits` permits, at most 2³¹ − 1. Zero becomes [`SMALLEST`](Self::SMALLEST).
    #[must_use]
    pub const fn whole(permits: u32) -> Self {
        Self::from_parts(permits as u64 * PARTS)
    }

    /// Creates a limit of 1/`k` permits. Zero counts as one.
    ///
    /// One call is in flight for a `k`-th of the time.
    #[must_use]
    pub const fn one_in(k: u32) -> Self {
        let k = if k == 0 { 1 } else { k as u64 };
        Self::from_parts(PARTS / k)
    }

    /// Creates a limit of `parts` 65,536ths, within [`SMALLEST`](Self::SMALLEST) and [`LARGEST`](Self::LARGEST).
    #[must_use]
    pub const fn from_parts(parts: u64) -> Self {
        if parts == 0 {
            Self::SMALLEST
        } else if parts > Self::LARGEST.0 {
            Self::LARGEST
        } else {
            Self(parts)
        }
    }

    /// Returns the limit in 65,536ths of a permit.
    #[must_use]
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// Returns the nearest number of whole permits, and at least 1.
    #[must_use]
    pub const fn permits(self) -> u32 {
        let whole = (self.0 + PARTS / 2) / PARTS;
        // At most `MOST`.
        if whole == 0 { 1 } else { whole as u32 }
    }

    /// Returns the limit times `numerator / denominator`, within the range of limits. A denominator of 0 changes nothing.
    #[must_use]
    pub const fn times(self, numerator: u64, denominator: u64) -> Self {
        if denominator == 0 {
            return self;
        }
        let parts = self.0 as u128 * numerator as u128 / denominator as u128;
        if parts > Self::LARGEST.0 as u128 {
            return Self::LARGEST;
        }
        Self::from_parts(parts as u64)
    }

    /// Returns the limit and `parts` 65,536ths more, up to [`LARGEST`](Self::LARGEST).
    #[must_use]
    pub const fn plus(self, parts: u64) -> Self {
        Self::from_parts(self.0.saturating_add(parts))
    }

    /// Returns the square root of the number of permits, in 65,536ths.
    #[must_use]
    pub const fn sqrt_parts(self) -> u64 {
        // √(p / 2¹⁶) · 2¹⁶ = √(p · 2¹⁶), which fits: p is below 2⁴⁷.
        (self.0 << 16).isqrt()
    }

    /// How much longer than a call its permit is kept after it, in 65,536ths of the call: 0 from one permit on.
    pub(super) const fn rest_parts(self) -> u64 {
        if self.0 >= PARTS {
            return 0;
        }
        PARTS * PARTS / self.0 - PARTS
    }
}

impl fmt::Display for FineLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0 % PARTS;
        write!(f, "{}", self.0 / PARTS)?;
        if parts == 0 {
            return Ok(());
        }
        // Five digits distinguish all parts.
        let digits = (parts * 100_000 + PARTS / 2) / PARTS;
        let (mut digits, mut places) = (digits.max(1), 5);
        while digits % 10 == 0 {
            digits /= 10;
            places -= 1;
        }
        write!(f, ".{digits:0places$}")
    }
}

impl fmt::Debug for FineLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn limits_stay_in_their_range() {
        assert_eq!(FineLimit::whole(0), FineLimit::SMALLEST);
        assert_eq!(FineLimit::whole(u32::MAX), FineLimit::LARGEST);
        assert_eq!(FineLimit::one_in(u32::MAX), FineLimit::SMALLEST);
        assert_eq!(FineLimit::one_in(0), FineLimit::ONE);
        assert_eq!(FineLimit::LARGEST.times(u64::MAX, 1), FineLimit::LARGEST);
        assert_eq!(FineLimit::LARGEST.times(0, 1), FineLimit::SMALLEST);
        assert_eq!(FineLimit::ONE.times(3, 0), FineLimit::ONE);
        assert_eq!(FineLimit::LARGEST.plus(u64::MAX), FineLimit::LARGEST);
        assert_eq!(FineLimit::LARGEST.permits(), MOST);
        assert_eq!(FineLimit::SMALLEST.permits(), 1);
    }

    #[test]
    fn the_text_is_decimal() {
        for (limit, text) in [
            (FineLimit::whole(20), "20"),
            (FineLimit::whole(3).times(1, 2), "1.5"),
            (FineLimit::one_in(3), "0.33333"),
            (FineLimit::SMALLEST, "0.00002"),
            (FineLimit::from_parts(65_535), "0.99998"),
            (FineLimit::whole(1).plus(3277), "1.05"),
        ] {
            assert_eq!(limit.to_string(), text);
        }
    }

    #[test]
    fn square_roots_and_rests_are_those_of_the_number() {
        assert_eq!(FineLimit::whole(25).sqrt_parts(), 5 << 16);
        assert_eq!(FineLimit::one_in(4).sqrt_parts(), 1 << 15);
        assert!(FineLimit::LARGEST.sqrt_parts() < 47_000 << 16);
        assert_eq!(FineLimit::one_in(4).rest_parts(), 3 << 16);
        assert_eq!(FineLimit::ONE.rest_parts(), 0);
        assert_eq!(FineLimit::whole(7).rest_parts(), 0);
    }
}
