//! What a slot of the ring holds, in 128 bits.

use crate::algorithm::sliding_window::Sum;

/// A slot's contents.
///
/// ```text
///  127                     64 63                       12 11      2 1    0
/// ┌──────────────────────────┬───────────────────────────┬─────────┬──────┐
/// │ time, in ns              │ units until and with it   │ lap     │ kind │
/// └──────────────────────────┴───────────────────────────┴─────────┴──────┘
/// ```
///
/// The units are counted from when the limiter was built, modulo 2⁵². A ring's records lie less than that apart: there are 2²⁶
/// of less than 2²⁶ units each. The lap is how often the ring had been filled before, modulo 2¹⁰. Together with the slot's
/// index, it gives the record's position.
///
/// | kind | represents | time | units |
/// |---|---|---|---|
/// | `BEFORE` | nothing, before the first admission | – | 0 |
/// | `ADMISSION` | an admission | its own | with its own |
/// | `BLANK` | something that is forgotten | limiter time when it was | a number never used before |
/// | `FROZEN` | a change in progress | – | – |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record(pub(super) u128);

const BEFORE: u64 = 0;
const ADMISSION: u64 = 1;
const BLANK: u64 = 2;
const FROZEN: u64 = 3;

const KIND: u64 = 0b11;
const LAP_SHIFT: u32 = 2;
const UNITS_SHIFT: u32 = LAP_SHIFT + Record::LAP_BITS;
const UNITS: u64 = !0 << UNITS_SHIFT;

impl Record {
    pub(super) const LAP_BITS: u32 = 10;
    const LAP: u64 = (1 << Self::LAP_BITS) - 1;

    const fn pack(time_ns: u64, units: u64, lap: u64, kind: u64) -> Self {
        let low = units << UNITS_SHIFT | (lap & Self::LAP) << LAP_SHIFT | kind;
        Self((time_ns as u128) << 64 | low as u128)
    }

    pub(super) const fn before(lap: u64) -> Self {
        Self::pack(0, 0, lap, BEFORE)
    }

    /// The content of the lap before `lap` is forgotten. `serial` distinguishes this blank from all others.
    pub(super) const fn blank(time_ns: u64, serial: u64, lap: u64) -> Self {
        Self::pack(time_ns, serial, lap.wrapping_sub(1), BLANK)
    }

    pub(super) const fn frozen(lap: u64) -> Self {
        Self::pack(0, 0, lap.wrapping_sub(1), FROZEN)
    }

    /// The admission of `n` units at `time_ns`, on `lap`, after this.
    #[inline(always)]
    pub(super) const fn followed_by(self, n: u64, time_ns: u64, lap: u64) -> Self {
        let units = (self.low() & UNITS).wrapping_add(n << UNITS_SHIFT);
        let low = units | (lap & Self::LAP) << LAP_SHIFT | ADMISSION;
        Self((time_ns as u128) << 64 | low as u128)
    }

    /// The same admission with `n` units less, of which it has more.
    pub(super) const fn less(self, n: u64) -> Self {
        let low = self.low().wrapping_sub(n << UNITS_SHIFT);
        Self((self.time_ns() as u128) << 64 | low as u128)
    }

    #[inline(always)]
    const fn low(self) -> u64 {
        self.0 as u64
    }

    #[inline(always)]
    pub(super) const fn time_ns(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline(always)]
    pub(super) const fn lap(self) -> u64 {
        self.low() >> LAP_SHIFT & Self::LAP
    }

    /// Whether this was written on `lap`, and not on the one before it.
    #[inline(always)]
    pub(super) const fn is_of(self, lap: u64) -> bool {
        (self.low() >> LAP_SHIFT ^ lap) & Self::LAP == 0
    }

    #[inline(always)]
    pub(super) const fn is_frozen(self) -> bool {
        self.low() & KIND == FROZEN
    }

    #[inline(always)]
    pub(super) const fn is_blank(self) -> bool {
        self.low() & KIND == BLANK
    }

    pub(super) const fn is_admission(self) -> bool {
        self.low() & KIND == ADMISSION
    }
}

impl Sum for Record {
    #[inline(always)]
    fn segment(self) -> u64 {
        self.time_ns()
    }

    #[inline(always)]
    fn units_since(self, older: Self) -> u64 {
        (self.low() & UNITS).wrapping_sub(older.low() & UNITS) >> UNITS_SHIFT
    }

    /// Forgotten are only the oldest.
    #[inline(always)]
    fn is_before(self, first_ns: u64) -> bool {
        !self.is_admission() || self.time_ns() < first_ns
    }

    #[inline(always)]
    fn is_known_before(self, first_ns: u64) -> bool {
        let kind = self.low() & KIND;
        kind == BEFORE || kind == ADMISSION && self.time_ns() < first_ns
    }
}
