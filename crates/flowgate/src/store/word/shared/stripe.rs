//! The local reserves: tokens that have been taken from a limiter for some of the threads.

use crate::clock::Clock;
use crate::primitive::thread_number::step_aside;
use crate::primitive::{AtomicU64, Ordering};
use crate::store::word::layout::{Act, Shared};
use alloc::sync::Arc;
use core::any::Any;
use core::num::NonZeroU64;

/// The stripes of one limiter, a power of two.
#[derive(Debug)]
pub(in crate::store::word) struct Stripes {
    pub(super) clock: Clock,
    /// Takes back all issued tokens, at the [`Word`](super::Word) of these stripes.
    pub(super) take_all_back: TakeAllBack,
    each: Arc<[Stripe]>,
    /// Counts how often the stripes were made to forget their notes that no token is available.
    forgotten: AtomicU64,
}

/// `Word::word_with_nothing_issued` for the type of a word.
pub(super) type TakeAllBack = fn(&dyn Any, tag: u64) -> Option<u128>;

/// See [`super`]. Two cache lines, because they are fetched in pairs.
///
/// ```text
///   63 ···· 38   37 ···· 26   25 ··· 21   20     19 ···· 0
///   turn         version      issued      open   units
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct Stripe {
    word: AtomicU64,
    /// When the stripe last asked the shared state.
    asked_ns: AtomicU64,
    /// The least value of the lower part of an open stripe's word if the stripe has a token. After tokens have changed their
    /// number of units, it is more than that part ever is.
    least: AtomicU64,
    /// Until when it is known that no token is available: the instant × 2, or an odd number that was never here before.
    dry: AtomicU64,
}

/// Stored instead of [`Stripe::least`].
const UNKNOWN: u64 = u64::MAX;

/// What a stripe knew about the lack of tokens before a thread asked the shared state.
#[derive(Clone, Copy)]
pub(super) struct Dry(u64);

/// A stripe's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Units that may be taken, unless the stripe is frozen.
    pub(super) units: u64,
    pub(super) is_frozen: bool,
    /// Portions (`handful_units` each) that it got when it was filled. Its units are at most as many.
    pub(super) issued: u64,
    /// The version of the last command for it.
    pub(super) version: u64,
    /// Counts the commands for it.
    turn: u64,
}

/// A stripe that asks again within this time had too few tokens.
const QUICK_NS: u64 = 250_000;
/// A stripe that asks again after this time had too many tokens.
const SLOW_NS: u64 = 1_000_000;

impl Stripes {
    /// `stripes` is a power of two up to [`Shared::MOST_STRIPES`].
    pub(super) fn new(
        stripes: usize,
        clock: Clock,
        units_per_token: u64,
        take_all_back: TakeAllBack,
    ) -> Self {
        let stripe = |_| Stripe {
            word: AtomicU64::new(Held::OPEN),
            asked_ns: AtomicU64::new(0),
            least: AtomicU64::new(Held::least(units_per_token)),
            dry: AtomicU64::new(1),
        };
        Self {
            clock,
            take_all_back,
            each: (0..stripes).map(stripe).collect(),
            forgotten: AtomicU64::new(1),
        }
    }

    pub(super) fn each(&self) -> &Arc<[Stripe]> {
        &self.each
    }

    pub(in crate::store::word) fn len(&self) -> usize {
        self.each.len()
    }

    pub(super) fn get(&self, index: usize) -> &Stripe {
        // Masked to the number of stripes, whatever the source of `index`.
        &self.each[index & (self.each.len() - 1)]
    }

    /// Returns the first stripe for which `wanted` holds, and what it has.
    pub(super) fn find(&self, wanted: impl Fn(&Held) -> bool) -> Option<(usize, Held)> {
        let held = self.each.iter().map(Stripe::held);
        held.enumerate().find(|(_, held)| wanted(held))
    }

    /// Takes the number of units that `units` returns from any stripe that has them; see [`Stripe::take_some`].
    pub(super) fn take_from_any(&self, units: impl Fn() -> u64) -> bool {
        self.each.iter().any(|stripe| stripe.take_some(&units))
    }

    /// Called after an event that may have changed what is possible, and sooner than the time alone would.
    pub(in crate::store::word) fn forget_dryness(&self) {
        // Different each time, so that a thread that has asked the shared state before does not store what it found.
        let number = self.forgotten.fetch_add(1, Ordering::Relaxed);
        for stripe in self.each.iter() {
            // A read-modify-write, like the note, so that one of them comes first.
            stripe.dry.swap(number << 1 | 1, Ordering::AcqRel);
        }
    }

    /// Called before the quota is replaced, if a token then has `units_per_token` units.
    pub(in crate::store::word) fn tokens_may_be(&self, units_per_token: u64) {
        for stripe in self.each.iter() {
            if stripe.least.load(Ordering::Relaxed) != Held::least(units_per_token) {
                stripe.least.store(UNKNOWN, Ordering::Release);
            }
        }
    }
}

impl Stripe {
    /// Takes one token if the stripe has it, knows its number of units, and no other thread changes the stripe in between.
    #[inline(always)]
    pub(crate) fn take_token(&self) -> bool {
        // Acquire: pairs with the command that has filled it.
        let word = self.word.load(Ordering::Acquire);
        // Read after the word: units that were issued for tokens of another size are then gone when the word is swapped.
        let least = self.least.load(Ordering::Acquire);
        word & Held::TAKEABLE >= least && self.fall(word, least - Held::OPEN).is_ok()
    }

    /// Takes `n` units if the stripe has them.
    #[inline]
    pub(crate) fn take(&self, n: u64) -> bool {
        self.take_some(|| n)
    }

    /// Takes the number of units that `units` returns after the stripe has been read, if the stripe has them.
    pub(crate) fn take_some(&self, units: impl Fn() -> u64) -> bool {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let n = units();
            if word & Held::TAKEABLE < Held::least(n) {
                return false;
            }
            match self.fall(word, n) {
                Ok(_) => return true,
                Err(current) => {
                    // Another thread is changing this stripe. There are more stripes.
                    step_aside();
                    word = current;
                }
            }
        }
    }

    #[inline(always)]
    fn fall(&self, word: u64, n: u64) -> Result<u64, u64> {
        // Release: a thread that finds the stripe empty also sees that this happened before.
        self.word
            .compare_exchange_weak(word, word - n, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Returns the time from now until a token may be available anywhere, if that is known. `ns_until` returns the time until
    /// the clock reaches an instant for the first time. Once the clock has been there, other threads may have taken the tokens
    /// of that time.
    #[inline]
    pub(crate) fn is_dry_for(&self, ns_until: impl FnOnce(u64) -> u64) -> Option<NonZeroU64> {
        let dry = self.dry.load(Ordering::Acquire);
        if dry & 1 != 0 {
            return None;
        }
        NonZeroU64::new(ns_until(dry >> 1))
    }

    pub(super) fn dry(&self) -> Dry {
        Dry(self.dry.load(Ordering::Acquire))
    }

    /// Stores the result of the shared state for a request that was made after `before` had been read.
    pub(super) fn note_dry(&self, before: Dry, until_ns: u64) {
        if until_ns <= u64::MAX >> 1 {
            // Whether it succeeds or not.
            let _ = self.dry.compare_exchange(
                before.0,
                until_ns << 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    pub(super) fn held(&self) -> Held {
        Held::of(self.word.load(Ordering::Acquire))
    }

    /// Replaces `old` by `new`, if the stripe still has `old`.
    pub(super) fn swap(&self, old: Held, new: Held) -> bool {
        let (old, new) = (old.pack(), new.pack());
        self.word
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Returns how many portions to ask for, if the stripe had `issued` of them the last time.
    ///
    /// Twice as many if they were used up quickly, as many if not, and none if they lasted long: the tokens in a stripe are
    /// spent at unknown times.
    pub(super) fn wants(&self, issued: u64, now_ns: u64) -> u64 {
        let asked_ns = self.asked_ns.swap(now_ns, Ordering::Relaxed);
        match now_ns.saturating_sub(asked_ns) {
            since_ns if since_ns > SLOW_NS => 0,
            since_ns if since_ns > QUICK_NS => issued.max(1),
            _ => (2 * issued).clamp(1, Shared::MOST_HANDFULS),
        }
    }
}

impl Held {
    const UNITS: u64 = (1 << 20) - 1;
    /// Set unless the stripe is frozen, so that one comparison shows whether units may be taken.
    const OPEN: u64 = 1 << 20;
    const TAKEABLE: u64 = Self::OPEN | Self::UNITS;
    const ISSUED_SHIFT: u32 = 21;
    const VERSION_SHIFT: u32 = 26;
    const TURN_SHIFT: u32 = 38;

    const fn of(word: u64) -> Self {
        Self {
            units: word & Self::UNITS,
            is_frozen: word & Self::OPEN == 0,
            issued: word >> Self::ISSUED_SHIFT
                & ((1 << (Self::VERSION_SHIFT - Self::ISSUED_SHIFT)) - 1),
            version: word >> Self::VERSION_SHIFT
                & ((1 << (Self::TURN_SHIFT - Self::VERSION_SHIFT)) - 1),
            turn: word >> Self::TURN_SHIFT,
        }
    }

    const fn pack(self) -> u64 {
        self.units
            | if self.is_frozen { 0 } else { Self::OPEN }
            | self.issued << Self::ISSUED_SHIFT
            | self.version << Self::VERSION_SHIFT
            | self.turn << Self::TURN_SHIFT
    }

    /// The least value of the lower part of a word if `n` units may be taken.
    const fn least(n: u64) -> u64 {
        n.saturating_add(Self::OPEN)
    }

    /// Returns whether all tokens that were issued to it are spent.
    pub(super) fn is_spent(&self) -> bool {
        self.units == 0 && self.issued > 0 && !self.is_frozen
    }

    /// The value after the command of the word with `version`.
    pub(super) fn after(self, act: Act, handful_units: u64, version: u64) -> Self {
        let (units, is_frozen, issued) = match act {
            Act::None | Act::Clear => (0, false, 0),
            Act::Freeze => (self.units, true, self.issued),
            Act::Fill(handfuls) => (handfuls * handful_units, false, handfuls),
        };
        Self {
            units,
            is_frozen,
            issued,
            version,
            turn: (self.turn + 1) & (u64::MAX >> Self::TURN_SHIFT),
        }
    }
}

const _: () = assert!(1 << (Held::TURN_SHIFT - Held::VERSION_SHIFT) == Shared::VERSIONS);
const _: () = assert!(Shared::MOST_HANDFULS < 1 << (Held::VERSION_SHIFT - Held::ISSUED_SHIFT));
