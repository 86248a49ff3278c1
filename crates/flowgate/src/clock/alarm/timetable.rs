use alloc::vec::Vec;
use core::task::Waker;

/// Wakers with their times: ordered by time, and by the order of the requests among equal times.
///
/// The timetable neither wakes nor drops a waker that it hands out. Its owner does so after releasing the lock that guards it,
/// because both run foreign code.
///
/// It is a binary heap, in which each waker knows its position. Deadlines mostly come in order, and then an entry moves no
/// other one.
///
/// ```text
///   entries   0 ─┬─ 1 ─┬─ 3        no entry is earlier than the one before it on its path
///                │     ╰─ 4
///                ╰─ 2              entry.place ──▶ places[..].position
/// ```
#[derive(Debug)]
pub(super) struct Timetable {
    entries: Vec<Entry>,
    places: Vec<Place>,
    vacant: Vec<usize>,
    /// Number of entries ever made.
    entered: u64,
}

/// Identity of an entry, by which it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    place: usize,
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at_ns: u64,
    number: u64,
    place: usize,
}

/// A waker keeps its place while its entry moves.
#[derive(Debug)]
struct Place {
    number: u64,
    position: usize,
    /// `None` if the place is vacant.
    waker: Option<Waker>,
}

/// A table of at most this number of places is kept when it is empty.
const KEPT: usize = 64;

impl Timetable {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            places: Vec::new(),
            vacant: Vec::new(),
            entered: 0,
        }
    }

    pub(super) fn insert(&mut self, at_ns: u64, waker: Waker) -> Key {
        let number = self.entered;
        // One entry per nanosecond fills 64 bits after 584 years.
        self.entered += 1;
        let position = self.entries.len();
        let new = Place {
            number,
            position,
            waker: Some(waker),
        };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.places[place] = new;
                place
            }
            None => {
                self.places.push(new);
                self.places.len() - 1
            }
        };
        let entry = Entry {
            at_ns,
            number,
            place,
        };
        self.entries.push(entry);
        self.rise(position, entry);
        Key { place, number }
    }

    /// Removes the entry, and returns its waker; `None` if the entry has been removed already.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        let place = self.places.get(key.place)?;
        let is_there = place.number == key.number && place.waker.is_some();
        is_there
            .then_some(place.position)
            .and_then(|at| self.take(at))
    }

    /// Returns the time of the earliest entry.
    pub(super) fn earliest_ns(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.at_ns)
    }

    /// Removes the earliest entry, if its time has come.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waker> {
        let is_due = self.earliest_ns()? <= now_ns;
        is_due.then_some(0).and_then(|first| self.take(first))
    }

    /// Removes the entry at `position`, and returns its waker.
    fn take(&mut self, position: usize) -> Option<Waker> {
        let Entry { place, .. } = self.entries[position];
        let last = self.entries.pop()?;
        if position < self.entries.len() {
            self.sink(position, last);
        }
        let waker = self.places[place].waker.take();
        self.vacant.push(place);
        if self.entries.is_empty() && self.places.capacity() > KEPT {
            self.entries = Vec::new();
            self.places = Vec::new();
            self.vacant = Vec::new();
        }
        waker
    }

    /// Puts `entry` at `position`, or further up if it is earlier than those there.
    fn rise(&mut self, mut position: usize, entry: Entry) {
        while position > 0 {
            let above = (position - 1) / 2;
            if self.entries[above] < entry {
                break;
            }
            self.put(position, self.entries[above]);
            position = above;
        }
        self.put(position, entry);
    }

    /// Puts `entry`, the last one, at `position`, or further down if it is later than those there, or further up.
    fn sink(&mut self, mut position: usize, entry: Entry) {
        loop {
            let (left, right) = (2 * position + 1, 2 * position + 2);
            let Some(mut below) = self.entries.get(left).map(|_| left) else {
                break;
            };
            if self
                .entries
                .get(right)
                .is_some_and(|right| *right < self.entries[left])
            {
                below = right;
            }
            if entry < self.entries[below] {
                break;
            }
            self.put(position, self.entries[below]);
            position = below;
        }
        self.rise(position, entry);
    }

    fn put(&mut self, position: usize, entry: Entry) {
        self.entries[position] = entry;
        self.places[entry.place].position = position;
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
