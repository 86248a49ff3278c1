//! The bits of the two words.
//!
//! ```text
//!  narrow, 64 bits    63 ···················· 8   7 ········ 1   0
//!                     state                       generation     held
//!
//!  wide, 128 bits     127 ·················· 15   14 ······· 1   0
//!                     state                       generation     0
//! ```
//!
//! The state is a time in ticks, in the narrow word since the base, in the wide one since the clock's
//! origin; what it means is the algorithm's business. Because everything that a step adds to it is scaled
//! by 2⁸, the flags ride along in bits that no sum of scaled times touches.
//!
//! While the wide word is in use, the narrow one holds the flags alone. Held means that newcomers may not decide
//! before they have asked at the door; see [`crate::room`].

/// The 64-bit word.
pub(crate) struct Narrow;

impl Narrow {
    const SHIFT: u32 = 8;
    /// A tick, scaled.
    pub(crate) const UNIT: u64 = 1 << Self::SHIFT;
    /// Generation, and whether it is held.
    pub(crate) const FLAGS: u64 = Self::UNIT - 1;
    pub(crate) const HELD: u64 = 1;

    pub(crate) const fn pack(state: u128, generation: u64, held: bool) -> u64 {
        Self::scaled(state) | (generation << 1 & Self::FLAGS) | held as u64
    }

    pub(crate) const fn state(word: u64) -> u128 {
        (word >> Self::SHIFT) as u128
    }

    pub(crate) const fn is_held(word: u64) -> bool {
        word & Self::HELD != 0
    }

    /// Whether the word is of the generation that `tag` stands for.
    pub(crate) const fn is_of(word: u64, tag: u64) -> bool {
        (word ^ tag) & (Self::FLAGS & !Self::HELD) == 0
    }

    /// Which of the two slots holds the word's parameters.
    pub(crate) const fn slot(word: u64) -> usize {
        (word >> 1 & 1) as usize
    }

    pub(crate) const fn scaled(ticks: u128) -> u64 {
        (ticks << Self::SHIFT) as u64
    }
}

/// The 128-bit word.
pub(crate) struct Wide;

impl Wide {
    const SHIFT: u32 = 15;
    const FLAGS: u128 = (1 << Self::SHIFT) - 1;

    pub(crate) const fn pack(state: u128, generation: u64) -> u128 {
        state << Self::SHIFT | ((generation as u128) << 1 & Self::FLAGS)
    }

    pub(crate) const fn state(word: u128) -> u128 {
        word >> Self::SHIFT
    }

    /// Whether the word is of the generation that `tag` stands for.
    pub(crate) const fn is_of(word: u128, tag: u64) -> bool {
        (word ^ tag as u128) & Self::FLAGS == 0
    }
}

const _: () = assert!(Narrow::state(Narrow::pack(1 << 55, 300, true)) == 1 << 55);
const _: () = assert!(Narrow::is_of(Narrow::pack(7, 300, true), 300 << 1));
const _: () = assert!(!Narrow::is_of(Narrow::pack(7, 300, true), 301 << 1));
const _: () = assert!(Wide::state(Wide::pack(1 << 112, 1 << 40)) == 1 << 112);
