//! The word: how many slots there are, how many are in use, and whether there are waiters. A slot is the place of one permit.

use crate::primitive::backoff;
use crate::primitive::{AtomicU64, Ordering, const_unless_loom};
use crate::queue::{HOLD, WAITING};
use crate::verdict::Denied;

/// The largest limit.
pub(crate) const MOST: u32 = (1 << LIMIT_BITS) - 1;

const FLAGS: u64 = WAITING | HOLD;
const LIMIT_SHIFT: u32 = 2;
const LIMIT_BITS: u32 = 31;
const IN_FLIGHT_SHIFT: u32 = LIMIT_SHIFT + LIMIT_BITS;

/// The number of slots in use, and the limit.
///
/// Slots are taken by compare-and-swap. They are given back by one subtraction, whose result shows whether there are waiters.
///
/// Every access that changes the word acquires and releases, so a thread that takes a slot sees what its previous holder did.
/// Between the two there are only read-modify-writes of this word, or holds of the queue's lock. Under that lock, a slot
/// passes directly to the next waiter ([`Returned`](super::Returned)) and stays in use here.
#[derive(Debug)]
pub(super) struct Slots {
    /// ```text
    ///   63          33 32          2    1        0
    ///  ├── in flight ─┼─── limit ───┼─ HOLD ─┼─ WAITING ─┤
    /// ```
    ///
    /// The number in flight is at most the largest limit that there was, so it never overflows. The flags are a copy of the
    /// queue's, written under its lock.
    word: AtomicU64,
}

/// The word at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct View(u64);

impl Slots {
    const_unless_loom! {
        /// Creates `limit` slots, at most [`MOST`], all of them free.
        pub(super) const fn new(limit: u32) -> Self {
            Self {
                word: AtomicU64::new((limit as u64) << LIMIT_SHIFT),
            }
        }
    }

    pub(super) fn view(&self) -> View {
        View(self.word.load(Ordering::Acquire))
    }

    /// Takes `n` slots. If fewer are free, or one of the flags in `bar` is up, returns the view that it found instead.
    #[inline(always)]
    pub(super) fn take(&self, n: u64, bar: u64) -> Result<(), View> {
        // A refusal shows nothing of what others did, and a stale view is not swapped.
        let seen = View(self.word.load(Ordering::Relaxed));
        if !seen.has(n, bar) {
            return Err(seen);
        }
        match self.try_take(seen, n) {
            true => Ok(()),
            false => self.take_among_others(n, bar),
        }
    }

    /// [`take`](Self::take), after another thread came first.
    #[cold]
    #[inline(never)]
    fn take_among_others(&self, n: u64, bar: u64) -> Result<(), View> {
        let mut lost = 0;
        loop {
            backoff::pause(lost, 0);
            let seen = View(self.word.load(Ordering::Relaxed));
            if !seen.has(n, bar) {
                return Err(seen);
            }
            if self.try_take(seen, n) {
                return Ok(());
            }
            lost += 1;
        }
    }

    /// Takes `n` slots, of which `seen` has enough, if no other thread has come first.
    #[inline(always)]
    fn try_take(&self, seen: View, n: u64) -> bool {
        let taken = seen.0 + (n << IN_FLIGHT_SHIFT);
        // Acquires what `give_back` releases.
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.word
            .compare_exchange_weak(seen.0, taken, success, failure)
            .is_ok()
    }

    /// Gives back `n` slots that were taken, and returns whether there are waiters.
    #[inline(always)]
    #[must_use]
    pub(super) fn give_back(&self, n: u64) -> bool {
        let before = self
            .word
            // Releases to the `take` that gets them; meets `announce`, see there.
            .fetch_sub(n << IN_FLIGHT_SHIFT, Ordering::AcqRel);
        before & WAITING != 0
    }

    /// Changes the limit, to [`MOST`] at the most.
    pub(super) fn set_limit(&self, limit: u32) {
        self.update(|seen| seen.with_limit(limit));
    }

    /// Removes `n` slots that are in use from the limit.
    pub(super) fn forget(&self, n: u64) {
        self.update(|seen| {
            // Smaller than the limit, so it is one.
            let limit = u64::from(seen.limit()).saturating_sub(n) as u32;
            seen.with_limit(limit) - (n << IN_FLIGHT_SHIFT)
        });
    }

    /// Copies the flags of the queue.
    ///
    /// The next waiter raises `WAITING` here before it asks for slots. If a `give_back` comes before that, the waiter finds
    /// the slots. If the `give_back` comes after that, it sees the flag, and its caller has the waiter served.
    pub(super) fn announce(&self, flags: u64) {
        self.update(|seen| seen.0 & !FLAGS | flags & FLAGS);
    }

    /// Returns what there was before.
    fn update(&self, next: impl Fn(View) -> u64) -> u64 {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            match self.word.compare_exchange_weak(
                seen,
                next(View(seen)),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(before) => return before,
                Err(current) => seen = current,
            }
        }
    }
}

impl View {
    #[inline(always)]
    pub(super) fn limit(self) -> u32 {
        (self.0 >> LIMIT_SHIFT) as u32 & MOST
    }

    #[inline(always)]
    pub(super) fn in_flight(self) -> u64 {
        self.0 >> IN_FLIGHT_SHIFT
    }

    /// Returns the number of free slots: 0 while more are in use than the limit.
    #[inline(always)]
    pub(super) fn free(self) -> u64 {
        u64::from(self.limit()).saturating_sub(self.in_flight())
    }

    /// Whether `n` slots are free, and none of the flags in `bar` is up.
    #[inline(always)]
    fn has(self, n: u64, bar: u64) -> bool {
        self.0 & bar == 0 && n <= self.free()
    }

    /// Whether more slots are in use than the limit.
    pub(super) fn is_over(self) -> bool {
        self.in_flight() > u64::from(self.limit())
    }

    /// Whether there are waiters.
    #[inline(always)]
    pub(super) fn is_awaited(self) -> bool {
        self.0 & WAITING != 0
    }

    /// Whether new requests have to ask the queue: waiters come first, or the limit is closed.
    #[inline(always)]
    pub(super) fn is_held(self) -> bool {
        self.0 & HOLD != 0
    }

    /// Returns why `n` slots, more than are free, could not be taken.
    #[inline(always)]
    pub(super) fn denied(self, n: u64) -> Denied {
        denied(self.limit(), n)
    }

    fn with_limit(self, limit: u32) -> u64 {
        self.0 & !(u64::from(MOST) << LIMIT_SHIFT) | u64::from(limit) << LIMIT_SHIFT
    }
}

/// Returns why `n`, more than are free of `limit`, could not be taken.
#[inline(always)]
pub(crate) fn denied(limit: u32, n: u64) -> Denied {
    if n > u64::from(limit) {
        return denied_for_long(limit, n);
    }
    Denied::busy()
}

#[cold]
fn denied_for_long(limit: u32, n: u64) -> Denied {
    // A limit of 0 is a pause, which ends with any other limit.
    let most = match limit {
        0 => MOST,
        limit => limit,
    };
    if n <= u64::from(most) {
        return Denied::busy();
    }
    Denied::never(n, most.into())
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_is(slots: &Slots, limit: u32, in_flight: u64, flags: u64) {
        let view = slots.view();
        let seen = (view.limit(), view.in_flight(), view.0 & FLAGS);
        assert_eq!(seen, (limit, in_flight, flags));
    }

    #[test]
    fn the_three_parts_of_the_word_do_not_touch_each_other() {
        let slots = Slots::new(MOST);
        assert_is(&slots, MOST, 0, 0);
        slots.announce(FLAGS);
        assert_is(&slots, MOST, 0, FLAGS);
        assert!(slots.take(u64::from(MOST), 0).is_ok());
        assert_is(&slots, MOST, MOST.into(), FLAGS);
        slots.set_limit(0);
        assert_is(&slots, 0, MOST.into(), FLAGS);
        slots.announce(HOLD);
        assert!(!slots.give_back(1));
        assert_is(&slots, 0, u64::from(MOST) - 1, HOLD);
        slots.announce(WAITING);
        assert!(slots.give_back(u64::from(MOST) - 1));
        assert_is(&slots, 0, 0, WAITING);
        slots.announce(!0);
        assert_is(&slots, 0, 0, FLAGS);
    }

    #[test]
    fn no_amount_wraps() {
        for limit in [0, 1, MOST - 1, MOST] {
            let slots = Slots::new(limit);
            for n in [u64::from(limit) + 1, 1 << 31, 1 << 33, 1 << 63, u64::MAX] {
                let seen = slots.take(n, 0).unwrap_err();
                let is_more_than_any = limit != 0 || n > u64::from(MOST);
                assert_eq!(
                    seen.denied(n).is_never(),
                    is_more_than_any,
                    "{n} of {limit}"
                );
            }
            assert_is(&slots, limit, 0, 0);
            assert!(slots.take(limit.into(), 0).is_ok());
            assert_is(&slots, limit, limit.into(), 0);
        }
    }

    #[test]
    fn what_is_forgotten_leaves_the_limit_too() {
        let slots = Slots::new(5);
        assert!(slots.take(4, 0).is_ok());
        slots.forget(3);
        assert_is(&slots, 2, 1, 0);
        slots.set_limit(0);
        slots.forget(1);
        assert_is(&slots, 0, 0, 0);
    }
}
