//! The quota in force, and the one before.
//!
//! Who changes it fills the place that is not in force and then names the next generation. A reader loads numbers, and looks
//! at the generation again: the place in force is not written to before that has changed. The place of the generation before
//! is, and that is announced in `begun`. All are stored with Release and loaded with Acquire, so that who has read a new number
//! sees the announcement too. No lock is taken, and no number is used that does not belong to the others.

use super::entry::Reading;
use super::keys::ticks;
use super::rule::{Change, Rule, Terms};
use crate::primitive::{AtomicU64, Lock, LockGuard, Ordering};
use crate::quota::Quota;

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct InForce {
    generation: AtomicU64,
    /// The generation in force, or the one after it, whose numbers are being stored.
    begun: AtomicU64,
    places: [Numbers; 2],
    /// As of when the generation is in force, and as of when the one before was.
    changed_ns: AtomicU64,
    before_ns: AtomicU64,
    /// Who decides at this time or later need not care what was in force before: neither have the table's terms changed since,
    /// nor has any key come into them from others.
    unsettled_ns: AtomicU64,
    /// The same for those who decide by the clock without more ado; [`NEVER`] until somebody has decided by the clock with more care.
    settled_ns: AtomicU64,
    /// Taken by who changes either of these.
    settling: Lock<()>,
    /// Taken by who changes it.
    quota: Lock<Quota>,
}

/// [`Terms`], one number after the other.
#[derive(Debug)]
struct Numbers {
    unit: Halves,
    /// What a token costs.
    token: Halves,
    span: Halves,
    most: AtomicU64,
    scale: AtomicU64,
    count_bits: AtomicU64,
}

/// The low and the high half of a number.
#[derive(Debug)]
struct Halves([AtomicU64; 2]);

/// The last change of quota, as those see it who meet an entry from before or a time before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastChange {
    pub(crate) change: Change,
    /// When the change before it was: what was in force before that, nobody knows any longer.
    pub(crate) before: u128,
}

impl InForce {
    pub(crate) fn new(quota: Quota, terms: &Terms) -> Self {
        Self {
            generation: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            places: [Numbers::new(terms), Numbers::new(terms)],
            changed_ns: AtomicU64::new(0),
            before_ns: AtomicU64::new(0),
            unsettled_ns: AtomicU64::new(0),
            settled_ns: AtomicU64::new(NEVER),
            settling: Lock::new(()),
            quota: Lock::new(quota),
        }
    }

    /// The terms in force.
    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        self.read(Numbers::load)
    }

    /// The terms in force, as it takes to take `n` of their units or a token. Of a bucket, a token is one unit of these, which needs
    /// neither a multiplication nor a look at the most.
    #[inline(always)]
    pub(crate) fn terms_to_take<R: Rule>(&self, n: Option<u64>) -> Terms {
        self.read(|numbers, generation| match (R::FLOWS, n) {
            (true, None) => Terms {
                unit: numbers.token.load(),
                most: u64::MAX,
                scale: 1,
                span: numbers.span.load(),
                count_bits: 0,
                reading: Reading::of_table(generation),
            },
            _ => numbers.load(generation),
        })
    }

    #[inline(always)]
    fn read(&self, load: impl Fn(&Numbers, u64) -> Terms) -> Terms {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let terms = load(&self.places[parity(generation)], generation);
            if self.generation.load(Ordering::Acquire) == generation {
                return terms;
            }
            core::hint::spin_loop();
        }
    }

    /// The last change; none if the next one has begun, before which all entries were restated.
    pub(crate) fn changed(&self) -> Option<LastChange> {
        let generation = self.generation.load(Ordering::Acquire);
        let before = generation.wrapping_sub(1);
        let changed = LastChange {
            change: Change {
                from: self.places[parity(before)].load(before),
                to: self.places[parity(generation)].load(generation),
                at: ticks(self.changed_ns.load(Ordering::Acquire)),
            },
            before: ticks(self.before_ns.load(Ordering::Acquire)),
        };
        (self.begun.load(Ordering::Acquire) == generation).then_some(changed)
    }

    /// See the field.
    #[inline(always)]
    pub(crate) fn settled_ns(&self) -> u64 {
        self.settled_ns.load(Ordering::Acquire)
    }

    /// See the field.
    pub(crate) fn unsettled_ns(&self) -> u64 {
        self.unsettled_ns.load(Ordering::Acquire)
    }

    /// Announces that something is not settled before `ns`. To be done before it can be seen.
    pub(crate) fn settle(&self, ns: u64) {
        let _settling = self.settling.lock();
        self.unsettled_ns.fetch_max(ns, Ordering::AcqRel);
        if self.goes_by_clock() {
            self.settled_ns
                .fetch_max(ns.min(NEVER - 1), Ordering::AcqRel);
        }
    }

    /// Whether anybody has decided by the clock, and not by times of a caller's alone.
    pub(crate) fn goes_by_clock(&self) -> bool {
        self.settled_ns() != NEVER
    }

    /// Somebody decides by the clock. To be said before that can be seen.
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

    /// The quota; to be held while it is changed.
    pub(crate) fn quota(&self) -> LockGuard<'_, Quota> {
        self.quota.lock()
    }

    /// Puts `terms` in force as of `now_ns`. No entry may be left from the generation before this one.
    pub(crate) fn change(
        &self,
        quota: &mut LockGuard<'_, Quota>,
        new: Quota,
        terms: &Terms,
        now_ns: u64,
    ) {
        let next = self.generation.load(Ordering::Relaxed) + 1;
        self.begun.store(next, Ordering::Release);
        self.places[parity(next)].store(terms);
        self.settle(now_ns);
        let before_ns = self.changed_ns.load(Ordering::Relaxed);
        self.before_ns.store(before_ns, Ordering::Release);
        self.changed_ns.store(now_ns, Ordering::Release);
        self.generation.store(next, Ordering::Release);
        **quota = new;
    }
}

fn parity(generation: u64) -> usize {
    (generation % 2) as usize
}

impl Numbers {
    fn new(terms: &Terms) -> Self {
        Self {
            unit: Halves::new(terms.unit),
            token: Halves::new(terms.cost(terms.scale)),
            span: Halves::new(terms.span),
            most: AtomicU64::new(terms.most),
            scale: AtomicU64::new(terms.scale),
            count_bits: AtomicU64::new(terms.count_bits.into()),
        }
    }

    /// Each with Release: who reads one of these numbers sees what was announced before.
    fn store(&self, terms: &Terms) {
        self.unit.store(terms.unit);
        self.token.store(terms.cost(terms.scale));
        self.span.store(terms.span);
        self.most.store(terms.most, Ordering::Release);
        self.scale.store(terms.scale, Ordering::Release);
        self.count_bits
            .store(terms.count_bits.into(), Ordering::Release);
    }

    #[inline]
    fn load(&self, generation: u64) -> Terms {
        Terms {
            unit: self.unit.load(),
            span: self.span.load(),
            most: self.most.load(Ordering::Acquire),
            scale: self.scale.load(Ordering::Acquire),
            count_bits: self.count_bits.load(Ordering::Acquire) as u32,
            reading: Reading::of_table(generation),
        }
    }
}

impl Halves {
    fn new(number: u128) -> Self {
        Self(halves(number).map(AtomicU64::new))
    }

    fn store(&self, number: u128) {
        for (half, value) in self.0.iter().zip(halves(number)) {
            half.store(value, Ordering::Release);
        }
    }

    #[inline]
    fn load(&self) -> u128 {
        let [low, high] = self.0.each_ref().map(|half| half.load(Ordering::Acquire));
        u128::from(high) << 64 | u128::from(low)
    }
}

fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}
