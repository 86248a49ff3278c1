//! The two leases of a limiter, and how they are spent.
//!
//! The *first* lease is the [`Word`] that decisions spend from. The *second* one waits under the lock of the [`Books`]. A
//! decision that finds too little in the first takes the lock. It spends the rest of the first and what is missing of the second,
//! which takes the place of the first. The two are never merged: no unit outlives its own lease.
//!
//! | field | read by | written by | guard |
//! |---|---|---|---|
//! | `word` | every decision | decisions and refunds (CAS); replacing the first lease (CAS) | replacing: `books` |
//! | `mark` | every decision | the queue (`HELD`); the rest under `books` | see there |
//! | `origin_ns` | every decision | a lease beyond the range of the word | `books`; only while the word is empty |
//! | `second_units` | decisions that find too little | a change of the second lease | `books` |
//! | `denied_until_ns` | refusals | the filler | none: one word |
//! | `limit` | requests that are not admitted by the first lease | the filler | none: one word |
//! | `refused`, `largest` | the filler | refusals | none: counts |
//! | `books` | decisions that find too little; refunds; the filler | the same | itself; taken after the queue's lock |
//!
//! # The origin
//!
//! The end of the lease in the word is counted from `origin_ns`. The origin only moves forward, and only while the word is
//! empty: the word is emptied first, then the origin is written, then the new lease. A decision loads the origin before the
//! word. If it combines an old origin with a new word, the lease seems to have ended, and the decision takes the lock.

use super::word::{MAX_END_NS, MAX_UNITS, Word, whole_ticks_ns};
use crate::clock::Clock;
use crate::clock::alarm::wake;
use crate::primitive::{AtomicU64, Lock, LockGuard, Ordering};
use core::task::Waker;

/// In `mark`: waiters come first, so that every decision asks at the door.
const HELD: u64 = 1 << 63;

/// In `denied_until_ns`: the filler is cut off from what it asks.
const CUT_OFF: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub struct Leases {
    word: AtomicU64,
    /// A decision that would leave fewer units than this in the word takes the long way. It is [`HELD`] and, as long as the
    /// filler watches, a low-water mark of at least 1.
    mark: AtomicU64,
    origin_ns: AtomicU64,
    /// The units of the second lease; 0: there is none.
    second_units: AtomicU64,
    /// Until when there is known to be nothing; [`CUT_OFF`]: nothing is known.
    denied_until_ns: AtomicU64,
    /// What has been refused since the filler last looked.
    refused: AtomicU64,
    /// The largest request among that.
    largest: AtomicU64,
    /// The most units that one request can take.
    limit: AtomicU64,
    /// The clock of the limiter.
    pub(super) clock: Clock,
    books: Lock<Books>,
}

/// A number of units, to be spent before an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) units: u64,
    pub(super) until_ns: u64,
}

/// What the filler of a limiter is told of its use; see [`LeaseUse`](super::LeaseUse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) admitted: u64,
    pub(super) refused: u64,
    pub(super) largest: u64,
    pub(super) unspent: u64,
}

/// Why there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// The authority has none until this instant.
    Until(u64),
    /// The authority is asked, or will be.
    Asked,
    /// The authority cannot be asked.
    CutOff,
}

#[derive(Debug)]
struct Books {
    /// The units that the first lease had when it came into the word.
    first_units: u64,
    /// When that was.
    first_since_ns: u64,
    second: Option<Held>,
    /// Units of earlier leases that were spent since the filler last looked.
    spent: u64,
    /// Units among these, and of the first lease, that it has been told of.
    told: u64,
    /// Units that ended unspent since it last looked.
    unspent: u64,
    /// The low-water mark, and the filler's waker.
    watch: Option<(u64, Waker)>,
}

impl Leases {
    pub(super) fn new(limit: u64, clock: Clock) -> Self {
        Self {
            word: AtomicU64::new(Word::EMPTY.0),
            mark: AtomicU64::new(0),
            origin_ns: AtomicU64::new(0),
            second_units: AtomicU64::new(0),
            denied_until_ns: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            clock,
            books: Lock::new(Books {
                first_units: 0,
                first_since_ns: 0,
                second: None,
                spent: 0,
                told: 0,
                unspent: 0,
                watch: None,
            }),
        }
    }

    /// Returns the largest request.
    pub(super) fn limit(&self) -> u64 {
        // Relaxed: no other memory depends on it.
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Spends `n` units of the first lease, if no waiter comes first and the filler need not be woken.
    #[inline(always)]
    pub(super) fn spend_first(&self, now_ns: u64, n: u64) -> bool {
        let reserve = n.saturating_add(self.mark.load(Ordering::Relaxed));
        let now_ns = self.since_origin(now_ns);
        let mut seen = self.first();
        while seen.units() >= reserve && seen.is_open(now_ns) {
            match self.swap(seen, seen.minus(n)) {
                Ok(()) => return true,
                Err(current) => seen = current,
            }
        }
        false
    }

    /// Spends `min` to `max` units. Returns how many; `None` if there are fewer than `min`.
    pub(super) fn spend(&self, now_ns: u64, min: u64, max: u64) -> Option<u64> {
        let relative_ns = self.since_origin(now_ns);
        let mut seen = self.first();
        loop {
            let left = seen.left(relative_ns);
            if left < max {
                // Acquire: pairs with the Release of a change of the second lease, which follows that of the word.
                let is_more = self.second_units.load(Ordering::Acquire) > 0;
                if is_more || seen.units() > left {
                    return self.spend_both(now_ns, min, max);
                }
                let current = self.first();
                if current != seen {
                    // Perhaps by the second lease, which is not a second one any more.
                    seen = current;
                    continue;
                }
                if left < min || left == 0 {
                    return (min == 0).then_some(0);
                }
            }
            let spent = left.min(max);
            match self.swap(seen, seen.minus(spent)) {
                Ok(()) => return Some(spent),
                Err(current) => seen = current,
            }
        }
    }

    /// [`spend`](Self::spend), of both leases.
    #[cold]
    #[inline(never)]
    fn spend_both(&self, now_ns: u64, min: u64, max: u64) -> Option<u64> {
        let mut books = self.books.lock();
        self.end_second(&mut books, now_ns);
        loop {
            let seen = self.first();
            let left = seen.left(self.since_origin(now_ns));
            let second = books.second;
            let more = second.map_or(0, |second| second.units);
            let spent = Some(max.min(left + more)).filter(|&spent| spent >= min);
            let of_second = spent.unwrap_or(0).saturating_sub(left);
            let is_done = if of_second > 0 || left == 0 {
                let next = second.map(|second| second.minus(of_second));
                let is_done = self.replace_first(&mut books, (seen, left), next, now_ns);
                if is_done {
                    // It was granted with what has just been spent of it.
                    books.first_units += of_second;
                    self.set_second(&mut books, None);
                }
                is_done
            } else {
                spent.is_none_or(|spent| self.swap(seen, seen.minus(spent)).is_ok())
            };
            if is_done {
                return spent;
            }
        }
    }

    /// Adds a lease of `units` until `until_ns`, rounded down to whole ticks. Returns how many units that are.
    ///
    /// There is room for two. Of the two that are there, the one with fewer units makes room for a third.
    pub(super) fn grant(&self, units: u64, until_ns: u64, now_ns: u64) -> u64 {
        self.denied_until_ns.store(0, Ordering::Relaxed);
        let lease = Held {
            units: units.min(MAX_UNITS),
            until_ns: whole_ticks_ns(until_ns),
        };
        let mut books = self.books.lock();
        if lease.units == 0 || lease.until_ns <= now_ns {
            books.unspent += lease.units;
            return 0;
        }
        self.end_second(&mut books, now_ns);
        loop {
            let seen = self.first();
            let left = seen.left(self.since_origin(now_ns));
            let second = books.second;
            let is_smaller = |second: Held| second.units < left;
            if left > 0 && second.is_none_or(is_smaller) {
                books.unspent += second.map_or(0, |second| second.units);
                self.set_second(&mut books, Some(lease));
                break;
            }
            let first = second.unwrap_or(lease);
            if self.replace_first(&mut books, (seen, 0), Some(first), now_ns) {
                self.set_second(&mut books, second.map(|_| lease));
                break;
            }
        }
        lease.units
    }

    /// Notes that there is nothing until `then_ns`, beyond what has been granted.
    pub(super) fn deny_until(&self, then_ns: u64) {
        let then_ns = then_ns.min(CUT_OFF - 1);
        self.denied_until_ns.store(then_ns, Ordering::Relaxed);
    }

    /// Notes that it is not known whether there is more than what has been granted.
    pub(super) fn cut_off(&self) {
        self.denied_until_ns.store(CUT_OFF, Ordering::Relaxed);
    }

    /// Why there is no more at `now_ns` than what has been granted.
    pub(super) fn shortage(&self, now_ns: u64) -> Shortage {
        match self.denied_until_ns.load(Ordering::Relaxed) {
            CUT_OFF => Shortage::CutOff,
            until_ns if until_ns > now_ns => Shortage::Until(until_ns),
            _ => Shortage::Asked,
        }
    }

    /// Returns up to `n` units to the first lease, if it has not ended at the time that `now_ns` returns, and if it was there at
    /// `spent_ns`. Returns how many; never more than have been spent of this lease.
    pub(super) fn refund(
        &self,
        n: u64,
        spent_ns: Option<u64>,
        now_ns: impl FnOnce() -> u64,
    ) -> u64 {
        let books = self.books.lock();
        let now_ns = self.since_origin(now_ns());
        if spent_ns.is_some_and(|spent_ns| spent_ns < books.first_since_ns) {
            return 0;
        }
        loop {
            let seen = self.first();
            let back = n.min(books.first_units - seen.units());
            if back == 0 || !seen.is_open(now_ns) {
                return 0;
            }
            if self.swap(seen, seen.plus(back)).is_ok() {
                return back;
            }
        }
    }

    /// The units of both leases at `now_ns`, and the later of their ends; none: 0, and `now_ns`.
    pub(super) fn held(&self, now_ns: u64) -> Held {
        let books = self.books.lock();
        let seen = self.first();
        let origin_ns = self.origin_ns.load(Ordering::Acquire);
        let first = Held {
            units: seen.left(self.since_origin(now_ns)),
            until_ns: origin_ns + seen.end_ns(),
        };
        let leases = [Some(first), books.second];
        let open = |lease: &Held| lease.units > 0 && lease.until_ns > now_ns;
        let none = Held {
            units: 0,
            until_ns: now_ns,
        };
        let both = |sum: Held, lease: Held| Held {
            units: sum.units + lease.units,
            until_ns: sum.until_ns.max(lease.until_ns),
        };
        leases.into_iter().flatten().filter(open).fold(none, both)
    }

    /// Returns what has happened since the last call.
    pub(super) fn take_used(&self) -> Used {
        let mut books = self.books.lock();
        let spent = books.spent + (books.first_units - self.first().units());
        let admitted = spent.saturating_sub(books.told);
        // What was told and has come back since is subtracted from what comes next.
        (books.told, books.spent) = (books.told.max(spent) - books.spent, 0);
        Used {
            admitted,
            unspent: core::mem::take(&mut books.unspent),
            refused: self.refused.swap(0, Ordering::AcqRel),
            largest: self.largest.swap(0, Ordering::AcqRel),
        }
    }

    /// Counts a request for `n` units that was refused.
    pub(super) fn note_refused(&self, n: u64) {
        self.refused.fetch_add(n, Ordering::SeqCst);
        if self.largest.load(Ordering::Relaxed) < n {
            self.largest.fetch_max(n, Ordering::Relaxed);
        }
    }

    /// Makes every decision ask at the door, or no longer.
    pub(super) fn hold_decisions(&self, is_held: bool) {
        if is_held {
            self.mark.fetch_or(HELD, Ordering::AcqRel);
        } else {
            self.mark.fetch_and(!HELD, Ordering::AcqRel);
        }
    }

    /// Wakes `waker` once: when a request is refused, or fewer than `low` units are left. If `is_short`, or either has happened
    /// since the filler last looked, it does so before it returns.
    pub(super) fn watch(&self, low: u64, waker: Waker, is_short: bool) {
        let mut books = self.books.lock();
        let old = books.watch.replace((low, waker));
        self.set_mark(&books);
        drop(books);
        drop(old);
        let is_short = is_short || self.refused.load(Ordering::SeqCst) > 0;
        self.wake_if_low(is_short);
    }

    /// Wakes the filler if it watches and fewer units are left than it wants; or anyway, if `is_short`.
    pub(super) fn wake_if_low(&self, is_short: bool) {
        if self.mark.load(Ordering::SeqCst) & !HELD == 0 {
            return;
        }
        let mut books = self.books.lock();
        let left = self.first().units() + self.second_units.load(Ordering::Relaxed);
        let watch = books.watch.take_if(|(low, _)| is_short || left < *low);
        self.set_mark(&books);
        drop(books);
        if let Some((_, waker)) = watch {
            wake::one(waker);
        }
    }

    #[inline(always)]
    fn first(&self) -> Word {
        // Acquire: see the origin.
        Word(self.word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn since_origin(&self, now_ns: u64) -> u64 {
        // Acquire: pairs with the Release of a new origin, so that the word that was emptied before is not seen any more.
        now_ns.saturating_sub(self.origin_ns.load(Ordering::Acquire))
    }

    /// Swaps the word. Returns the present one as an error, if that is another.
    #[inline(always)]
    fn swap(&self, seen: Word, next: Word) -> Result<(), Word> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        (self.word)
            .compare_exchange_weak(seen.0, next.0, success, failure)
            .map(drop)
            .map_err(Word)
    }

    /// Puts `next` in the place of the first lease, which is `seen`, and of which `spent` units are spent and the rest is lost.
    /// Returns `false`, and changes nothing, if the word is another.
    fn replace_first(
        &self,
        books: &mut LockGuard<'_, Books>,
        (seen, spent): (Word, u64),
        next: Option<Held>,
        now_ns: u64,
    ) -> bool {
        let mut origin_ns = self.origin_ns.load(Ordering::Relaxed);
        let in_range = |origin_ns: u64| {
            next.is_none_or(|next| next.until_ns.saturating_sub(origin_ns) <= MAX_END_NS)
        };
        let is_in_range = in_range(origin_ns);
        let until_ns = next.map_or(0, |next| next.until_ns);
        if !is_in_range {
            // In the middle, as a clock may be set back.
            origin_ns = whole_ticks_ns(until_ns - MAX_END_NS / 2);
        }
        let word = next.map_or(Word::EMPTY, |next| {
            Word::new(next.units, until_ns.saturating_sub(origin_ns))
        });
        let at_first = if is_in_range { word } else { Word::EMPTY };
        if self.swap(seen, at_first).is_err() {
            return false;
        }
        if !is_in_range {
            self.origin_ns.store(origin_ns, Ordering::Release);
            // No other thread changes a word without units except under this lock.
            self.word.store(word.0, Ordering::Release);
        }
        let unspent = seen.units() - spent;
        books.spent += books.first_units - unspent;
        books.unspent += unspent;
        books.first_units = word.units();
        books.first_since_ns = now_ns;
        true
    }

    /// Removes the second lease, if it has ended.
    fn end_second(&self, books: &mut LockGuard<'_, Books>, now_ns: u64) {
        if let Some(ended) = books.second.filter(|second| second.until_ns <= now_ns) {
            books.unspent += ended.units;
            self.set_second(books, None);
        }
    }

    /// Sets the second lease, and the mark that goes with it.
    fn set_second(&self, books: &mut LockGuard<'_, Books>, second: Option<Held>) {
        books.second = second.filter(|second| second.units > 0);
        let units = books.second.map_or(0, |second| second.units);
        self.second_units.store(units, Ordering::Release);
        self.set_mark(books);
    }

    /// Sets the mark of the word: what the second lease has need not be left in the first.
    fn set_mark(&self, books: &LockGuard<'_, Books>) {
        let second_units = self.second_units.load(Ordering::Relaxed);
        let low = |(low, _): &(u64, Waker)| low.saturating_sub(second_units).clamp(1, MAX_UNITS);
        let low = books.watch.as_ref().map_or(0, low);
        let mut mark = self.mark.load(Ordering::Relaxed);
        while let Err(current) = self.mark.compare_exchange_weak(
            mark,
            mark & HELD | low,
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            mark = current;
        }
    }
}

impl Held {
    fn minus(self, n: u64) -> Self {
        let units = self.units - n;
        Self { units, ..self }
    }
}
