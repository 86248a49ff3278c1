use super::{Room, Supply, WAITING};
use crate::primitive::Ordering;

/// Something is being done at a limiter that its line has to know of; until this is dropped.
#[must_use = "to be held while the limiter is changed"]
pub(crate) struct Change<'a> {
    room: &'a Room,
    supply: &'a dyn Supply,
    /// Whether what can ever be granted changes.
    reconfigures: bool,
    has_frozen: bool,
}

impl<'a> Change<'a> {
    pub(super) fn begin(room: &'a Room, supply: &'a dyn Supply, reconfigures: bool) -> Self {
        let has_frozen = room.flags.load(Ordering::Acquire) & WAITING != 0;
        if has_frozen {
            let line = room.line(supply.clock());
            let state = line.lock();
            let now_ns = supply.clock().now().as_nanos();
            let mut state = line.serve(state, supply, now_ns, None);
            state.freeze();
            line.end(state);
        }
        Self {
            room,
            supply,
            reconfigures,
            has_frozen,
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // A read-modify-write; see the room.
        let is_waiting = self.room.flags.fetch_or(0, Ordering::AcqRel) & WAITING != 0;
        if !self.has_frozen && !is_waiting {
            return;
        }
        let line = self.room.line(self.supply.clock());
        let mut state = line.lock();
        let now_ns = self.supply.clock().now().as_nanos();
        state.changed(now_ns);
        if self.has_frozen {
            state.thaw();
        }
        if self.reconfigures {
            state.restate(self.supply, now_ns);
        }
        let state = line.serve(state, self.supply, now_ns, None);
        line.end(state);
    }
}
