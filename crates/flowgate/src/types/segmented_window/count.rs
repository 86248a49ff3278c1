//! The one word that a decision changes, in 128 bits, and how it changes.

use crate::algorithm::sliding_window::Sum;

/// The sum of units until the end of a segment.
///
/// ```text
///  127                     64 63                  20 19     8 7     1   0
/// ┌──────────────────────────┬──────────────────────┬─────────┬───────┬───┐
/// │ segment                  │ units                │ place   │ epoch │ ! │
/// └──────────────────────────┴──────────────────────┴─────────┴───────┴───┘
/// ```
///
/// Segments are counted from the clock's origin. Units are counted from when the limiter was built, modulo 2⁴⁴, which is more
/// than a ring of full segments. The place is the position in the ring where the word goes when its segment is closed, modulo
/// 2¹². The epoch counts changes of quota and refunds, modulo 2⁷.
///
/// The last bit has two meanings. In the word, it means that a change is in progress. In the ring, it means that the tally
/// represents everything before it:
///
/// - nothing (`ORIGIN`);
/// - admissions that are forgotten (`FORGOTTEN`);
/// - forgotten admissions, if some of the units after them are made up (`MADE_UP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally(pub(super) u128);

const MARKED: u64 = 1;
const EPOCH_SHIFT: u32 = 1;
const EPOCH: u64 = 0x7F << EPOCH_SHIFT;
const PLACE_SHIFT: u32 = 8;
const PLACE: u64 = 0xFFF << PLACE_SHIFT;
const UNITS_SHIFT: u32 = 20;
const UNITS: u64 = !0 << UNITS_SHIFT;

/// The values in the place of the segment.
const ORIGIN: u64 = 0;
const FORGOTTEN: u64 = 1;
const MADE_UP: u64 = 2;

/// What was before the units that a change of the segments' length keeps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    Nothing,
    /// Something, but nothing more is known.
    Forgotten,
    /// Something, and the number of units to keep is not known either. They are the most that there could be.
    MadeUp,
}

impl Tally {
    /// Sums below this are distinguished.
    pub(super) const UNITS_END: u64 = 1 << (64 - UNITS_SHIFT);

    const fn with(segment: u64, low: u64) -> Self {
        Self((segment as u128) << 64 | low as u128)
    }

    /// No units, in the segment at the clock's origin.
    pub(super) const NONE: Self = Self::with(0, 0);
    /// Before everything.
    pub(super) const ORIGIN: Self = Self::with(ORIGIN, MARKED);

    /// In the ring: all that was before the last `units` of this.
    pub(super) const fn all_before(self, units: u64, before: Before) -> Self {
        let units = (self.low() & UNITS).wrapping_sub(units << UNITS_SHIFT);
        let segment = match before {
            Before::Nothing => ORIGIN,
            Before::Forgotten => FORGOTTEN,
            Before::MadeUp => MADE_UP,
        };
        Self::with(segment, units | self.low() & EPOCH | MARKED)
    }

    #[inline(always)]
    const fn low(self) -> u64 {
        self.0 as u64
    }

    #[inline(always)]
    pub(super) const fn place(self) -> u64 {
        (self.low() & PLACE) >> PLACE_SHIFT
    }

    /// `n` units more, in the same segment.
    #[inline(always)]
    pub(super) fn plus(self, n: u64) -> Self {
        Self::with(self.segment(), self.low().wrapping_add(n << UNITS_SHIFT))
    }

    /// `n` units less, which it has; never a tally that existed before.
    pub(super) fn less(self, n: u64) -> Self {
        Self::with(self.segment(), self.low().wrapping_sub(n << UNITS_SHIFT)).next_epoch()
    }

    /// The same in a later segment, and so at the next place.
    pub(super) const fn in_segment(self, segment: u64) -> Self {
        let place = self.low().wrapping_add(1 << PLACE_SHIFT) & PLACE;
        Self::with(segment, self.low() & !PLACE | place)
    }

    /// In the ring: the sum until `segment`, at the place before this; the last `units` came later.
    pub(super) const fn previous(self, units: u64, segment: u64) -> Self {
        let place = self.low().wrapping_sub(1 << PLACE_SHIFT) & PLACE;
        let counted = (self.low() & UNITS).wrapping_sub(units << UNITS_SHIFT);
        Self::with(segment, counted | place | self.low() & EPOCH)
    }

    /// The same with its segment counted anew.
    pub(super) const fn recounted(self, segment: u64) -> Self {
        Self::with(segment, self.low())
    }

    pub(super) fn next_epoch(self) -> Self {
        let epoch = self.low().wrapping_add(1 << EPOCH_SHIFT) & EPOCH;
        Self::with(self.segment(), self.low() & !EPOCH | epoch)
    }

    pub(super) fn frozen(self) -> Self {
        Self::with(self.segment(), self.low() | MARKED)
    }

    #[inline(always)]
    pub(super) const fn is_frozen(self) -> bool {
        self.low() & MARKED != 0
    }

    /// In the ring: whether nothing was before it.
    pub(super) fn is_origin(self) -> bool {
        self.is_marked() && self.segment() == ORIGIN
    }

    /// In the ring: whether of the units after it, some may be made up.
    pub(super) fn is_before_made_up(self) -> bool {
        self.is_marked() && self.segment() == MADE_UP
    }

    /// In the ring: whether it represents everything before it.
    #[inline(always)]
    pub(super) const fn is_marked(self) -> bool {
        self.low() & MARKED != 0
    }
}

impl Sum for Tally {
    #[inline(always)]
    fn segment(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline(always)]
    fn units_since(self, older: Self) -> u64 {
        (self.low() & UNITS).wrapping_sub(older.low() & UNITS) >> UNITS_SHIFT
    }

    #[inline(always)]
    fn is_before(self, first: u64) -> bool {
        self.is_marked() || self.segment() < first
    }
}
