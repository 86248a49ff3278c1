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
//! The state is a time in ticks: since the base in the narrow word, and since the clock's origin in the wide word. The
//! algorithm defines its meaning. Every value that a step adds to the state is scaled by 2⁸. So the flags are in bits that no
//! sum of scaled times touches.
//!
//! While the wide word is in use, the narrow word holds only the flags. *Held* means that new requests must ask at the door
//! before they may decide; see [`crate::queue`].
//!
//! ```text
//!  shared, 128 bits   127 ···· 40   39 ···· 29   28 ··· 23   22 · 20   19 ···· 8   7 ····· 1   0
//!                     state         issued       stripe      act       version     generation  0
//! ```
//!
//! The wide word of a limiter with stripes also contains how many portions have been issued to the stripes, and the last
//! command for a stripe; see [`super::shared`].

/// The 64-bit word.
pub(crate) struct Narrow;

impl Narrow {
    const SHIFT: u32 = 8;
    /// A tick, scaled.
    pub(crate) const UNIT: u64 = 1 << Self::SHIFT;
    /// Generation, and whether new requests are held.
    pub(crate) const FLAGS: u64 = Self::UNIT - 1;
    pub(crate) const HELD: u64 = 1;
    pub(crate) const GENERATION_SHIFT: u32 = 1;

    pub(crate) const fn pack(state: u128, generation: u64, held: bool) -> u64 {
        Self::scaled(state) | (generation << 1 & Self::FLAGS) | held as u64
    }

    pub(crate) const fn state(word: u64) -> u128 {
        (word >> Self::SHIFT) as u128
    }

    pub(crate) const fn is_held(word: u64) -> bool {
        word & Self::HELD != 0
    }

    /// Returns whether the word is of the generation that `tag` stands for.
    pub(crate) const fn is_of(word: u64, tag: u64) -> bool {
        (word ^ tag) & (Self::FLAGS & !Self::HELD) == 0
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

    /// Returns whether the word is of the generation that `tag` stands for.
    pub(crate) const fn is_of(word: u128, tag: u64) -> bool {
        (word ^ tag as u128) & Self::FLAGS == 0
    }
}

/// The 128-bit word of a limiter with stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) state: u128,
    /// Portions (`handful_units` each) that are issued to all stripes.
    pub(crate) issued: u64,
    /// The last command, and the stripe that it is for.
    pub(crate) act: Act,
    pub(crate) stripe: usize,
    /// Changes with every change of the word.
    pub(crate) version: u64,
}

/// A command for a stripe. It is done when the stripe has the version of the word that contains the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing.
    None,
    /// Empties the stripe. No units are issued to it any longer.
    Clear,
    /// Fixes the number of its units, which are about to be returned.
    Freeze,
    /// Adds this number of portions: 1, 2, 4, 8 or [`Shared::MOST_HANDFULS`].
    Fill(u64),
}

impl Shared {
    const GENERATION: u128 = Narrow::FLAGS as u128;
    const VERSION_SHIFT: u32 = 8;
    const ACT_SHIFT: u32 = 20;
    const STRIPE_SHIFT: u32 = 23;
    const ISSUED_SHIFT: u32 = 29;
    const STATE_SHIFT: u32 = 40;
    /// The first of the commands that fill.
    const FILL: u64 = 3;

    pub(crate) const STATE_END: u128 = 1 << (u128::BITS - Self::STATE_SHIFT);
    pub(crate) const VERSIONS: u64 = 1 << (Self::ACT_SHIFT - Self::VERSION_SHIFT);
    pub(crate) const MOST_STRIPES: usize = 1 << (Self::ISSUED_SHIFT - Self::STRIPE_SHIFT);
    pub(crate) const MOST_HANDFULS: u64 = 16;

    pub(crate) const fn pack(&self, generation: u64) -> u128 {
        let act = match self.act {
            Act::None => 0,
            Act::Clear => 1,
            Act::Freeze => 2,
            Act::Fill(handfuls) => Self::FILL + handfuls.trailing_zeros() as u64,
        };
        self.state << Self::STATE_SHIFT
            | (self.issued as u128) << Self::ISSUED_SHIFT
            | (self.stripe as u128) << Self::STRIPE_SHIFT
            | (act as u128) << Self::ACT_SHIFT
            | (self.version as u128) << Self::VERSION_SHIFT
            | ((generation << 1) as u128 & Self::GENERATION)
    }

    pub(crate) const fn of(word: u128) -> Self {
        Self {
            state: word >> Self::STATE_SHIFT,
            issued: field(word, Self::ISSUED_SHIFT, Self::STATE_SHIFT),
            act: match field(word, Self::ACT_SHIFT, Self::STRIPE_SHIFT) {
                0 => Act::None,
                1 => Act::Clear,
                2 => Act::Freeze,
                fill => Act::Fill(1 << (fill - Self::FILL)),
            },
            stripe: field(word, Self::STRIPE_SHIFT, Self::ISSUED_SHIFT) as usize,
            version: field(word, Self::VERSION_SHIFT, Self::ACT_SHIFT),
        }
    }

    /// Returns whether the word is of the generation that `tag` stands for.
    pub(crate) const fn is_of(word: u128, tag: u64) -> bool {
        (word ^ tag as u128) & Self::GENERATION == 0
    }
}

/// Returns the bits of the lower half from `shift` up to, but not including, `end`.
const fn field(word: u128, shift: u32, end: u32) -> u64 {
    (word as u64) >> shift & ((1 << (end - shift)) - 1)
}

const _: () = assert!(Narrow::state(Narrow::pack(1 << 55, 300, true)) == 1 << 55);
const _: () = assert!(Narrow::is_of(Narrow::pack(7, 300, true), 300 << 1));
const _: () = assert!(!Narrow::is_of(Narrow::pack(7, 300, true), 301 << 1));
const _: () = assert!(Wide::state(Wide::pack(1 << 112, 1 << 40)) == 1 << 112);
const _: () = assert!(
    Shared::MOST_HANDFULS * (Shared::MOST_STRIPES as u64)
        < (1 << (Shared::STATE_SHIFT - Shared::ISSUED_SHIFT))
);
const _: () = assert!(Shared::FILL + Shared::MOST_HANDFULS.trailing_zeros() as u64 <= 7);
