use alloc::collections::BTreeMap;
use core::task::Waker;

/// Wakers with their times: ordered by time, and by the order of the requests among equal times.
///
/// The timetable neither wakes nor drops a waker that it hands out. Its owner does so after releasing the lock that guards it,
/// because both run foreign code.
#[derive(Debug)]
pub(super) struct Timetable {
    wakers: BTreeMap<Key, Waker>,
    /// Number of entries ever made.
    entered: u64,
}

/// Position of an entry, by which it is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    at_ns: u64,
    number: u64,
}

impl Timetable {
    pub(super) const fn new() -> Self {
        Self {
            wakers: BTreeMap::new(),
            entered: 0,
        }
    }

    pub(super) fn insert(&mut self, at_ns: u64, waker: Waker) -> Key {
        let number = self.entered;
        // One entry per nanosecond fills 64 bits after 584 years.
        self.entered += 1;
        let key = Key { at_ns, number };
        self.wakers.insert(key, waker);
        key
    }

    /// Removes the entry, and returns its waker; `None` if the entry has been removed already.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        self.wakers.remove(&key)
    }

    /// Returns the time of the earliest entry.
    pub(super) fn earliest_ns(&self) -> Option<u64> {
        self.wakers.keys().next().map(|key| key.at_ns)
    }

    /// Removes the earliest entry, if its time has come.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waker> {
        let earliest = self.wakers.first_entry()?;
        (earliest.key().at_ns <= now_ns).then(|| earliest.remove())
    }

    /// Returns the number of entries ever made, which shows whether one has been added since.
    #[cfg(all(feature = "std", not(any(flowgate_loom, flowgate_shuttle))))]
    pub(super) fn entered(&self) -> u64 {
        self.entered
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::Timetable;
    use crate::clock::alarm::tests::Journal;
    use std::vec::Vec;

    #[test]
    fn what_is_due_comes_out_by_time_and_then_by_order_of_asking() {
        let journal = Journal::new();
        let mut table = Timetable::new();
        for (name, at_ns) in [(0, 30), (1, 10), (2, 20), (3, 10), (4, u64::MAX), (5, 0)] {
            table.insert(at_ns, journal.waker(name));
        }
        assert_eq!(table.earliest_ns(), Some(0));
        while let Some(waker) = table.pop_due(20) {
            waker.wake();
        }
        assert_eq!(journal.names(), [5, 1, 3, 2]);
        assert_eq!(table.earliest_ns(), Some(30));
        while let Some(waker) = table.pop_due(u64::MAX) {
            waker.wake();
        }
        assert_eq!(journal.names(), [5, 1, 3, 2, 0, 4]);
        assert_eq!(table.earliest_ns(), None);
        assert!(table.pop_due(u64::MAX).is_none());
    }

    #[test]
    fn what_is_removed_does_not_come_out_and_is_removed_once() {
        let journal = Journal::new();
        let mut table = Timetable::new();
        let keys: Vec<_> = (0..4)
            .map(|name| table.insert(10, journal.waker(name)))
            .collect();
        assert!(table.remove(keys[0]).is_some());
        assert!(table.remove(keys[2]).is_some());
        assert!(table.remove(keys[2]).is_none());
        while let Some(waker) = table.pop_due(10) {
            waker.wake();
        }
        assert_eq!(journal.names(), [1, 3]);
        assert!(table.remove(keys[1]).is_none(), "it has come out");
    }

    #[test]
    fn ten_thousand_in_any_order_come_out_in_order() {
        let journal = Journal::new();
        let mut table = Timetable::new();
        let mut random = fastrand::Rng::with_seed(1);
        let times: Vec<u64> = (0..10_000).map(|_| random.u64(0..1_000)).collect();
        let keys: Vec<_> = times
            .iter()
            .zip(0..)
            .map(|(&at_ns, name)| table.insert(at_ns, journal.waker(name)))
            .collect();
        for key in keys.iter().step_by(3) {
            assert!(table.remove(*key).is_some());
        }
        while let Some(waker) = table.pop_due(u64::MAX) {
            waker.wake();
        }
        let mut expected: Vec<usize> = (0..times.len()).filter(|name| name % 3 != 0).collect();
        expected.sort_by_key(|&name| (times[name], name));
        assert_eq!(journal.names(), expected);
    }
}
