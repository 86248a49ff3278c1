use super::timetable::{Key, Timetable};
use super::{Alarm, Entry};
use crate::primitive::{AtomicU64, Lock, Ordering};
use alloc::sync::Arc;
use core::task::Waker;

/// The alarms of a clock that somebody moves; whoever moves it rings them.
///
/// While nobody waits, moving the clock takes no lock. What makes that safe is that each side first says what it did,
/// by an exchange on `earliest_ns`, and then looks at what the other did:
///
/// ```text
/// ask:   enter into the table, exchange earliest_ns, read the time      due already? wake
/// move:  change the time,      exchange earliest_ns                     due? lock the table, wake
/// ```
///
/// One exchange comes first. If it is the asker's, the mover sees a time that is not later than the asker's; if it is
/// the mover's, the asker sees the new time.
///
/// | field | read by | written by | guard |
/// |---|---|---|---|
/// | `earliest_ns` | moving the clock | every change of the table | `table` for writing |
/// | `table` | | asking, taking back, ringing | itself; no waker is woken or dropped under it |
#[derive(Debug)]
pub(crate) struct ManualAlarms {
    /// The time of the earliest entry of the table; [`NONE_NS`] if it is empty.
    earliest_ns: AtomicU64,
    table: Lock<Timetable>,
}

/// Nobody waits. It is a time too, the last one: there the table is looked at in vain.
const NONE_NS: u64 = u64::MAX;

impl ManualAlarms {
    /// Has `waker` woken by whoever moves the clock to `at_ns` or later; at once if `now_ns` tells so much already.
    pub(crate) fn ask(
        self: &Arc<Self>,
        at_ns: u64,
        waker: Waker,
        now_ns: impl Fn() -> u64,
    ) -> Alarm {
        let mut table = self.table.lock();
        let key = table.insert(at_ns, waker);
        self.publish(&table);
        if now_ns() < at_ns {
            return Alarm(Entry::Manual(Arc::clone(self), key));
        }
        let waker = table.remove(key);
        self.publish(&table);
        drop(table);
        waker.map_or(Alarm::NOWHERE, Alarm::at_once)
    }

    /// Wakes all that are due, in order, those included that fall due while it does so. It ends, because what is due
    /// when it is asked for is not entered.
    pub(crate) fn ring(&self, now_ns: impl Fn() -> u64) {
        // An exchange that changes nothing. AcqRel: pairs with the one in `publish`.
        while self.earliest_ns.fetch_max(0, Ordering::AcqRel) <= now_ns() {
            let mut table = self.table.lock();
            let due = table.pop_due(now_ns());
            self.publish(&table);
            drop(table);
            match due {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    /// The earliest time for which a waiter has asked.
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        match self.earliest_ns.load(Ordering::Acquire) {
            // Either none, or the last time there is.
            NONE_NS => self.table.lock().earliest_ns(),
            at_ns => Some(at_ns),
        }
    }

    pub(super) fn remove(&self, key: Key) -> Option<Waker> {
        let mut table = self.table.lock();
        let waker = table.remove(key);
        self.publish(&table);
        waker
    }

    /// Only by the holder of `table`.
    fn publish(&self, table: &Timetable) {
        // AcqRel: pairs with the exchange in `ring`.
        self.earliest_ns
            .swap(table.earliest_ns().unwrap_or(NONE_NS), Ordering::AcqRel);
    }
}

impl Default for ManualAlarms {
    fn default() -> Self {
        Self {
            earliest_ns: AtomicU64::new(NONE_NS),
            table: Lock::new(Timetable::new()),
        }
    }
}
