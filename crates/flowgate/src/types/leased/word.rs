//! The bits of the lease that is being spent.
//!
//! ```text
//!  63 ·························· 22 21 ············ 0
//!  end, in ticks from the origin    units
//! ```
//!
//! A tick is 65,536 ns, so ends reach 9 years beyond the origin. Equal words give equal rights: a compare-and-swap that finds
//! the word unchanged may spend its units, whatever has happened to the word in between.

const UNIT_BITS: u32 = 22;
const TICK_BITS: u32 = 16;

/// The most units of a lease.
pub(super) const MAX_UNITS: u64 = (1 << UNIT_BITS) - 1;
/// The last end, counted from the origin.
pub(super) const MAX_END_NS: u64 = whole_ticks_ns(u64::MAX >> (UNIT_BITS - TICK_BITS));

/// A time in nanoseconds, rounded down to whole ticks.
pub(super) const fn whole_ticks_ns(ns: u64) -> u64 {
    ns >> TICK_BITS << TICK_BITS
}

/// Times are counted from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// No lease.
    pub(super) const EMPTY: Self = Self(0);

    /// `units`, to be spent before `end_ns`: whole ticks, at most [`MAX_END_NS`].
    pub(super) const fn new(units: u64, end_ns: u64) -> Self {
        Self(end_ns >> TICK_BITS << UNIT_BITS | units)
    }

    /// The units that have not been spent, even if the lease has ended.
    #[inline(always)]
    pub(super) const fn units(self) -> u64 {
        self.0 & MAX_UNITS
    }

    /// The first instant at which nothing can be spent.
    pub(super) const fn end_ns(self) -> u64 {
        self.0 >> UNIT_BITS << TICK_BITS
    }

    /// Whether units can be spent at `now_ns`.
    #[inline(always)]
    pub(super) const fn is_open(self, now_ns: u64) -> bool {
        now_ns >> TICK_BITS < self.0 >> UNIT_BITS
    }

    /// The units that can be spent at `now_ns`.
    #[inline(always)]
    pub(super) const fn left(self, now_ns: u64) -> u64 {
        if self.is_open(now_ns) {
            self.units()
        } else {
            0
        }
    }

    /// The same lease, with `n` units less, of those that it has.
    #[inline(always)]
    pub(super) const fn minus(self, n: u64) -> Self {
        Self(self.0 - n)
    }

    /// The same lease, with `n` units more, up to [`MAX_UNITS`] in all.
    pub(super) const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}
