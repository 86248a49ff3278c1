use super::{CHANGED, Queue, Supply, WAITING};
use crate::primitive::Ordering;

/// A change at a limiter that its queue has to know of; it ends when this is dropped.
#[must_use = "to be held while the limiter is changed"]
pub(crate) struct Change<'a> {
    queue: &'a Queue,
    supply: &'a dyn Supply,
    /// Whether what can ever be granted changes.
    reconfigures: bool,
    has_frozen: bool,
}

impl<'a> Change<'a> {
    pub(super) fn begin(queue: &'a Queue, supply: &'a dyn Supply, reconfigures: bool) -> Self {
        let has_frozen = queue.flags.load(Ordering::Acquire) & WAITING != 0;
        if has_frozen {
            let active = queue.active(supply);
            let state = active.lock();
            let now_ns = supply.clock().now().as_nanos();
            let mut state = active.serve(state, supply, now_ns, None);
            state.freeze();
            active.end(state);
        }
        Self {
            queue,
            supply,
            reconfigures,
            has_frozen,
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // A read-modify-write; see the queue.
        let flags = self.queue.flags.fetch_add(CHANGED, Ordering::AcqRel);
        let is_waiting = flags & WAITING != 0;
        if !self.has_frozen && !is_waiting {
            return;
        }
        let active = self.queue.active(self.supply);
        let mut state = active.lock();
        let now_ns = self.supply.clock().now().as_nanos();
        state.changed(now_ns);
        if self.has_frozen {
            state.thaw();
        }
        if self.reconfigures {
            state.restate(self.supply, now_ns);
        }
        let state = active.serve(state, self.supply, now_ns, None);
        active.end(state);
    }
}
