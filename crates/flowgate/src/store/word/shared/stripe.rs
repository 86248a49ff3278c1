//! What some of the threads have of a limiter: tokens that its centre has taken for them.

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
    /// Takes back what is issued, at the [`Word`](super::Word) of these stripes.
    pub(super) take_all_back: TakeAllBack,
    each: Arc<[Stripe]>,
    /// Counts what makes the stripes forget that there is nothing.
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
    /// When it last asked the centre.
    asked_ns: AtomicU64,
    /// What the lower part of the word of an open stripe is at least if it has a token; more than it ever is once
    /// tokens have become something else.
    least: AtomicU64,
    /// Until when it is known that there is not one token: the instant × 2; or an odd number that was never here
    /// before.
    dry: AtomicU64,
}

/// In place of [`Stripe::least`].
const UNKNOWN: u64 = u64::MAX;

/// What a stripe knew about there being nothing, before somebody asked the centre.
#[derive(Clone, Copy)]
pub(super) struct Dry(u64);

/// A stripe's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// What may be taken, unless it is frozen.
    pub(super) units: u64,
    pub(super) is_frozen: bool,
    /// Handfuls that it got when it was filled: its units are not more than these.
    pub(super) issued: u64,
    /// Of the last act on it.
    pub(super) version: u64,
    /// Counts the acts on it.
    turn: u64,
}

/// Who asks again within this had too little.
const QUICK_NS: u64 = 250_000;
/// Who asks again after this had too much.
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
        // As many as there are, however a word came by its index.
        &self.each[index & (self.each.len() - 1)]
    }

    /// The first for which `wanted` holds, and what it has.
    pub(super) fn find(&self, wanted: impl Fn(&Held) -> bool) -> Option<(usize, Held)> {
        let held = self.each.iter().map(Stripe::held);
        held.enumerate().find(|(_, held)| wanted(held))
    }

    /// Takes as many units as `units` says from whichever has them; see [`Stripe::take_some`].
    pub(super) fn take_from_any(&self, units: impl Fn() -> u64) -> bool {
        self.each.iter().any(|stripe| stripe.take_some(&units))
    }

    /// After something that may have made more possible, or less, sooner than the time alone.
    pub(in crate::store::word) fn forget_dryness(&self) {
        // Different each time, so that who has asked the centre before does not tell what it found there.
        let number = self.forgotten.fetch_add(1, Ordering::Relaxed);
        for stripe in self.each.iter() {
            // A read-modify-write, like the note, so that one comes first.
            stripe.dry.swap(number << 1 | 1, Ordering::AcqRel);
        }
    }

    /// Before tokens of so many units are put in force.
    pub(in crate::store::word) fn tokens_may_be(&self, units_per_token: u64) {
        for stripe in self.each.iter() {
            if stripe.least.load(Ordering::Relaxed) != Held::least(units_per_token) {
                stripe.least.store(UNKNOWN, Ordering::Release);
            }
        }
    }
}

impl Stripe {
    /// Takes one token if the stripe has it, knows how many units that is, and is not in somebody else's hands.
    #[inline(always)]
    pub(crate) fn take_token(&self) -> bool {
        // Acquire: pairs with the act that has filled it.
        let word = self.word.load(Ordering::Acquire);
        // After the word: what was issued when tokens were something else is then gone when the word is swapped.
        let least = self.least.load(Ordering::Acquire);
        word & Held::TAKEABLE >= least && self.fall(word, least - Held::OPEN).is_ok()
    }

    /// Takes `n` units if it has them.
    #[inline]
    pub(crate) fn take(&self, n: u64) -> bool {
        self.take_some(|| n)
    }

    /// Takes as many units as `units` says after the stripe has been looked at, if it has them.
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
                    // Somebody else is here. There are more stripes.
                    step_aside();
                    word = current;
                }
            }
        }
    }

    #[inline(always)]
    fn fall(&self, word: u64, n: u64) -> Result<u64, u64> {
        // Release: who finds it empty knows that this was before.
        self.word
            .compare_exchange_weak(word, word - n, Ordering::AcqRel, Ordering::Acquire)
    }

    /// How long it is from now until there may be a token anywhere, as far as is known. `ns_until` returns how long it is
    /// until the clock reaches an instant for the first time: once it has been there, whatever there was may be taken.
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

    /// What the centre said to somebody who asked after `before` had been read.
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

    /// Puts `new` in place of `old`, if that is still what it has.
    pub(super) fn swap(&self, old: Held, new: Held) -> bool {
        let (old, new) = (old.pack(), new.pack());
        self.word
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// How many handfuls to ask for, if it had `issued` of them the last time.
    ///
    /// Twice as many as long as they are used up at once, and none if they last: what lies in a stripe is spent at
    /// times that nobody knows.
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
    /// Set unless it is frozen, so that one comparison tells whether units may be taken.
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

    /// What the lower part of a word is at least, if `n` units may be taken.
    const fn least(n: u64) -> u64 {
        n.saturating_add(Self::OPEN)
    }

    /// Whether all that it was issued is spent.
    pub(super) fn is_spent(&self) -> bool {
        self.units == 0 && self.issued > 0 && !self.is_frozen
    }

    /// After the act of the word with `version`.
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
