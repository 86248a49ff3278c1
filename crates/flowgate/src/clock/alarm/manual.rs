use super::timetable::{Key, Timetable};
use super::{Alarm, Entry};
use crate::primitive::{AtomicU64, Lock, Ordering};
use alloc::sync::Arc;
use core::task::Waker;

/// The alarms of a clock that a caller moves. The thread that moves the clock rings them.
///
/// If there are no waiters, moving the clock takes no lock. This is safe, because each side does two things in this order. It
/// publishes its change by an exchange on `earliest_ns`, and then it reads the change of the other side:
///
/// ```text
/// ask:   enter into the table, exchange earliest_ns, read the time      due already? wake
/// move:  change the time,      exchange earliest_ns                     due? lock the table, wake
/// ```
///
/// One exchange comes first. If it is the waiter's, the mover sees a time that is not later than the waiter's. If it is the
/// mover's, the waiter sees the new time.
///
/// An entry behind an earlier one changes no `earliest_ns`, and needs no exchange: the one for the earlier entry stands for both.
/// If it is the mover's that comes first, the waiter sees the new time through the lock. If not, the mover locks the table. It
/// does so after the waiter, and finds the entry, or before it, and the waiter sees the new time.
///
/// | field | read by | written by | guard |
/// |---|---|---|---|
/// | `earliest_ns` | moving the clock | every change of the table | `table` for writing |
/// | `table` | | asking, canceling, ringing | itself; no waker is woken or dropped under it |
#[derive(Debug)]
pub(crate) struct ManualAlarms {
    /// The time of the earliest entry of the table; [`NONE_NS`] if it is empty.
    earliest_ns: AtomicU64,
    table: Lock<Timetable>,
}

/// There are no waiters. The value is also the last time: when the clock shows it, the table is read in vain.
const NONE_NS: u64 = u64::MAX;

impl ManualAlarms {
    /// Makes the thread that moves the clock to `at_ns` or later wake `waker`. Wakes it immediately if `now_ns` has reached
    /// that time.
    pub(crate) fn ask(
        self: &Arc<Self>,
        at_ns: u64,
        waker: Waker,
        now_ns: impl Fn() -> u64,
    ) -> Alarm {
        let key = self.enter(at_ns, now_ns, |table| table.insert(at_ns, waker));
        key.map_or(Alarm::NOWHERE, |key| {
            Alarm(Entry::Manual(Arc::clone(self), key))
        })
    }

    /// Moves `alarm` to `at_ns`, as if it had been dropped and asked for again. `waker` makes its waker if that has been woken; it
    /// is called under the lock.
    pub(crate) fn move_to(
        self: &Arc<Self>,
        mut alarm: Alarm,
        at_ns: u64,
        waker: impl FnOnce() -> Waker,
        now_ns: impl Fn() -> u64,
    ) -> Alarm {
        let Entry::Manual(_, key) = &mut alarm.0 else {
            return self.ask(at_ns, waker(), now_ns);
        };
        let moved = self.enter(at_ns, now_ns, |table| {
            let waker = table.remove(*key).unwrap_or_else(waker);
            table.insert(at_ns, waker)
        });
        match moved {
            Some(moved) => *key = moved,
            None => alarm.0 = Entry::Nowhere,
        }
        alarm
    }

    /// Returns the new entry, unless `now_ns` has reached its time: then its waker has been woken.
    fn enter(
        &self,
        at_ns: u64,
        now_ns: impl Fn() -> u64,
        insert: impl FnOnce(&mut Timetable) -> Key,
    ) -> Option<Key> {
        let mut table = self.table.lock();
        let key = insert(&mut table);
        self.publish(&table);
        if now_ns() < at_ns {
            return Some(key);
        }
        let waker = table.remove(key);
        self.publish(&table);
        drop(table);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    /// Wakes all waiters whose time has come, in order. This includes those whose time comes during the call. The loop ends,
    /// because an alarm whose time has come when it is requested is not entered.
    pub(crate) fn ring(&self, now_ns: impl Fn() -> u64) {
        // An exchange that changes nothing. AcqRel: pairs with the one in `publish`.
        let mut is_any_due = self.earliest_ns.fetch_max(0, Ordering::AcqRel) <= now_ns();
        while is_any_due {
            let mut table = self.table.lock();
            let now_ns = now_ns();
            let due = table.pop_due(now_ns);
            is_any_due = table.earliest_ns().is_some_and(|at_ns| at_ns <= now_ns);
            self.publish(&table);
            drop(table);
            if let Some(waker) = due {
                waker.wake();
            }
        }
    }

    /// Returns the earliest time for which a waiter has asked.
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        match self.earliest_ns.load(Ordering::Acquire) {
            // Either there are no entries, or the earliest is at the last possible time.
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

    /// Called only by the holder of `table`.
    fn publish(&self, table: &Timetable) {
        let earliest_ns = table.earliest_ns().unwrap_or(NONE_NS);
        // Only the holder of the lock writes it.
        if self.earliest_ns.load(Ordering::Relaxed) != earliest_ns {
            // AcqRel: pairs with the exchange in `ring`.
            self.earliest_ns.swap(earliest_ns, Ordering::AcqRel);
        }
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
