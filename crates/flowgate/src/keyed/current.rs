//! The current quota, and the one before.
//!
//! The terms of both are [`Versioned`], announced by `generation`. A change overwrites the terms of the
//! generation before the current one. A reader that needs both therefore compares both tags: it gets
//! nothing once the next change has begun. Such a reader retries later.

use super::entry::{Reading, ticks};
use super::rule::{Change, Terms};
use crate::primitive::versioned::{Version, Versioned};
use crate::primitive::{AtomicU64, Lock, LockGuard, Ordering};

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct InForce<Q> {
    /// The generation of the table's terms.
    pub(super) generation: AtomicU64,
    pub(super) terms: Versioned<WORDS>,
    /// A decision at this time or later need not consider earlier terms: since this time, the table's terms have not changed, and
    /// no key has changed to them from others.
    unsettled_ns: AtomicU64,
    /// The same for the fast path of decisions by the clock; [`NEVER`] until the slow path has decided by the clock.
    pub(super) settled_ns: AtomicU64,
    /// The lock of a thread that changes either of these times.
    settling: Lock<()>,
    /// The current quota, locked by a thread that changes it.
    quota: Lock<Q>,
}

/// The last change of quota, for a thread that finds an entry or a time from before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastChange {
    pub(crate) change: Change,
    /// When the change before it was. The quota before that time is no longer known.
    pub(crate) before: u128,
}

impl<Q> InForce<Q> {
    pub(crate) fn new(quota: Q, terms: &Terms) -> Self {
        Self {
            generation: AtomicU64::new(0),
            terms: Versioned::new(&words(terms, 0)),
            unsettled_ns: AtomicU64::new(0),
            settled_ns: AtomicU64::new(NEVER),
            settling: Lock::new(()),
            quota: Lock::new(quota),
        }
    }

    /// Returns the current terms.
    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        self.read(terms)
    }

    #[inline(always)]
    fn read<T>(&self, load: impl Fn(&Version<WORDS>, u64) -> T) -> T {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let read = |version: &_| load(version, generation);
            if let Some(value) = self.terms.read(generation, read) {
                return value;
            }
            core::hint::spin_loop();
        }
    }

    /// Returns the time from which the terms are current. For the first terms, it is 0 unless [`begin`](Self::begin) sets it.
    pub(crate) fn current_from_ns(&self) -> u64 {
        self.read(|version, _| version.word(CURRENT_FROM_NS))
    }

    /// Records that the quota before `from_ns` is not known. This comes before all decisions, and before the first change.
    pub(crate) fn begin(&self, from_ns: u64) {
        let generation = self.generation.load(Ordering::Relaxed);
        let words = words(&self.terms(), from_ns);
        for known in [generation, generation.wrapping_sub(1)] {
            self.terms.fill(known, &words);
        }
    }

    /// Returns the last change. Returns `None` if the next one has begun, before which all entries were restated.
    pub(crate) fn changed(&self) -> Option<LastChange> {
        let to = self.generation.load(Ordering::Acquire);
        let from = to.wrapping_sub(1);
        let read = |generation| {
            let read = |version: &_| (terms(version, generation), version.word(CURRENT_FROM_NS));
            self.terms.read(generation, read)
        };
        let ((to, to_ns), (from, from_ns)) = (read(to)?, read(from)?);
        Some(LastChange {
            change: Change {
                from,
                to,
                at: ticks(to_ns),
            },
            before: ticks(from_ns),
        })
    }

    /// Returns the time from which everything is settled; see the field.
    pub(crate) fn unsettled_ns(&self) -> u64 {
        self.unsettled_ns.load(Ordering::Acquire)
    }

    /// Announces that something is not settled before `ns`. This comes before the change itself becomes visible.
    pub(crate) fn settle(&self, ns: u64) {
        let _settling = self.settling.lock();
        self.unsettled_ns.fetch_max(ns, Ordering::AcqRel);
        if self.goes_by_clock() {
            self.settled_ns
                .fetch_max(ns.min(NEVER - 1), Ordering::AcqRel);
        }
    }

    /// Returns whether any decision was made by the clock, and not only by explicit timestamps.
    pub(crate) fn goes_by_clock(&self) -> bool {
        self.settled_ns.load(Ordering::Acquire) != NEVER
    }

    /// Announces a decision by the clock. This comes before the decision becomes visible.
    pub(crate) fn go_by_clock(&self) {
        if self.goes_by_clock() {
            return;
        }
        let _settling = self.settling.lock();
        if !self.goes_by_clock() {
            let unsettled_ns = self.unsettled_ns().min(NEVER - 1);
            self.settled_ns.store(unsettled_ns, Ordering::Release);
        }
    }

    /// Returns the quota, locked. The lock is held while the quota changes.
    pub(crate) fn quota(&self) -> LockGuard<'_, Q> {
        self.quota.lock()
    }

    /// Makes `terms` current as of `now_ns`. No entry may remain from the generation before the current one.
    pub(crate) fn change(&self, quota: &mut LockGuard<'_, Q>, new: Q, terms: &Terms, now_ns: u64) {
        let next = self.generation.load(Ordering::Relaxed) + 1;
        self.terms.fill(next, &words(terms, now_ns));
        self.settle(now_ns);
        self.generation.store(next, Ordering::Release);
        **quota = new;
    }
}

const UNIT: usize = 0;
/// The cost of a token.
pub(super) const TOKEN: usize = 2;
pub(super) const SPAN: usize = 4;
const MOST: usize = 6;
const SCALE: usize = 7;
const COUNT_BITS: usize = 8;
/// The time from which these terms are current.
const CURRENT_FROM_NS: usize = 9;
pub(super) const WORDS: usize = 10;

fn words(terms: &Terms, from_ns: u64) -> [u64; WORDS] {
    // This number has no meaning if units have no price.
    let token = terms.unit.wrapping_mul(terms.scale.into());
    let [unit, token, span] =
        [terms.unit, token, terms.span].map(|number| [number as u64, (number >> 64) as u64]);
    let mut words = [0; WORDS];
    words[UNIT..][..2].copy_from_slice(&unit);
    words[TOKEN..][..2].copy_from_slice(&token);
    words[SPAN..][..2].copy_from_slice(&span);
    words[MOST] = terms.most;
    words[SCALE] = terms.scale;
    words[COUNT_BITS] = terms.count_bits.into();
    words[CURRENT_FROM_NS] = from_ns;
    words
}

/// Returns the terms, which may be mixed until the tag has been compared.
#[inline]
pub(super) fn terms(version: &Version<WORDS>, generation: u64) -> Terms {
    Terms {
        unit: version.double_word(UNIT),
        span: version.double_word(SPAN),
        most: version.word(MOST),
        scale: version.word(SCALE),
        count_bits: version.word(COUNT_BITS) as u32,
        reading: Reading::of_table(generation),
    }
}
