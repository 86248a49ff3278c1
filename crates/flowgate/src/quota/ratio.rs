//! A quota's rate as a fraction in lowest terms.

/// `units` accrue in every `nanos` nanoseconds, in lowest terms.
///
/// One tick is 1/`units` of a nanosecond; a unit is earned in exactly `nanos` ticks. So every
/// instant at which a unit is complete falls on a whole tick, whatever the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    /// Units earned per `nanos`: 1 to 2³¹. Also the number of ticks in a nanosecond.
    pub(crate) units: u64,
    /// Nanoseconds in which `units` are earned: 1 to 2⁶³ − 1. Also the price of a unit, in ticks.
    pub(crate) nanos: u64,
}

/// The greatest `Ratio::units` accepted.
pub(crate) const MAX_UNITS: u64 = 1 << 31;
/// The greatest `Ratio::nanos` accepted.
pub(crate) const MAX_NANOS: u64 = (1 << 63) - 1;
/// The most units that a token can be divided into.
pub(super) const MAX_SCALE: u64 = 1 << 32;
/// A full bucket, in ticks, is less than this.
pub(crate) const TICKS_END: u128 = 1 << 93;

/// `units` per `nanos`, divided by what they have in common. `nanos` is not zero.
pub(crate) const fn lowest_terms(units: u128, nanos: u64) -> (u128, u64) {
    let g = gcd(nanos, (units % nanos as u128) as u64);
    (units / g as u128, nanos / g)
}

/// The greatest common divisor; `gcd(a, 0)` is `a`.
pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
