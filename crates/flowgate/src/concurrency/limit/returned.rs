use super::ConcurrencyLimit;
use crate::clock::{Clock, Timestamp};
use crate::primitive::{AtomicU64, Ordering};
use crate::queue::{Asker, Event, Facts, Grantee, Queue, Receipt, Supply};
use crate::verdict::Denied;

/// Slots that pass directly from the caller that returns them to the waiters, and stay in use meanwhile.
///
/// ```text
///   a permit ──▶ Returned ──▶ the next in the queue
///                   ╰───────▶ the word: what is too little for the next one, or left over
/// ```
///
/// It is the limit as its queue sees it, for a caller that returns slots.
pub(super) struct Returned<'a> {
    limit: &'a ConcurrencyLimit,
    /// How many slots have not been passed on yet. Used by one thread.
    left: AtomicU64,
}

impl<'a> Returned<'a> {
    pub(super) fn new(limit: &'a ConcurrencyLimit, n: u64) -> Self {
        let left = AtomicU64::new(n);
        Self { limit, left }
    }

    /// Passes `n` of them on, unless fewer are left, or more slots are in use than the limit.
    fn hand_over(&self, n: u64) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let is_enough = n <= left && !self.limit.slots.view().is_over();
        if is_enough {
            self.left.store(left - n, Ordering::Relaxed);
        }
        is_enough
    }

    /// Frees the slots that are left. Returns whether there were any, and there are waiters.
    fn put_down(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
        left > 0 && self.limit.slots.give_back(left)
    }
}

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        if self.put_down() {
            self.limit.queue.serve_changed(self.limit);
        }
    }
}

impl Supply for Returned<'_> {
    fn queue(&self) -> &Queue {
        &self.limit.queue
    }

    fn clock(&self) -> &Clock {
        self.limit.clock()
    }

    fn facts(&self) -> Facts {
        let facts = self.limit.facts();
        let is_left = self.left.load(Ordering::Relaxed) > 0;
        Facts {
            has_more: is_left || facts.has_more,
            ..facts
        }
    }

    fn ask(&self, at: Timestamp, n: u64, asker: Asker) -> Result<(), Denied> {
        self.put_down();
        self.limit.ask(at, n, asker)
    }

    fn grant(&self, at: Timestamp, n: u64, to: Grantee<'_>) -> Result<(), Denied> {
        if self.hand_over(n) {
            return Ok(());
        }
        // The caller that asks is the one that waits.
        self.put_down();
        self.limit.grant(at, n, to)
    }

    fn take_back(&self, at: Timestamp, n: u64, receipts: &[Receipt]) {
        self.limit.take_back(at, n, receipts);
    }

    fn note(&self, event: Event<'_>) {
        self.limit.note(event);
    }
}
