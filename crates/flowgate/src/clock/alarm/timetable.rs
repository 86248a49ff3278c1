use alloc::vec::Vec;
use core::task::Waker;

/// Wakers with their times: ordered by time, and by the order of the requests among equal times.
///
/// The timetable neither wakes nor drops a waker that it hands out. Its owner does so after releasing the lock that guards it,
/// because both run foreign code.
///
/// Deadlines mostly come in order. An entry that is not earlier than the last one of a list goes to its end, and leaves it from
/// anywhere: both cost the same however many there are. The other entries are in a binary heap, in which each waker knows its
/// position.
///
/// ```text
///   list      first ── · ── · ── last     by time
///
///   entries   0 ─┬─ 1 ─┬─ 3               no entry is earlier than the one before it on its path
///                │     ╰─ 4
///                ╰─ 2                     entry.place ──▶ places[..].position
/// ```
#[derive(Debug)]
pub(super) struct Timetable {
    entries: Vec<Entry>,
    /// The places of the first and the last waker of the list.
    first: usize,
    last: usize,
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
    at_ns: u64,
    number: u64,
    position: Position,
    /// `None` if the place is vacant.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
enum Position {
    InHeap(usize),
    /// Between the wakers at these places.
    InList {
        ahead: usize,
        behind: usize,
    },
}

/// There is no such place.
const NONE: usize = usize::MAX;

/// A table of at most this number of places is kept when it is empty.
const KEPT: usize = 64;

impl Timetable {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            first: NONE,
            last: NONE,
            places: Vec::new(),
            vacant: Vec::new(),
            entered: 0,
        }
    }

    pub(super) fn insert(&mut self, at_ns: u64, waker: Waker) -> Key {
        let number = self.entered;
        // One entry per nanosecond fills 64 bits after 584 years.
        self.entered += 1;
        let last = self.places.get(self.last);
        let is_last = last.is_none_or(|last| last.at_ns <= at_ns);
        let new = Place {
            at_ns,
            number,
            position: match is_last {
                true => Position::InList {
                    ahead: self.last,
                    behind: NONE,
                },
                false => Position::InHeap(self.entries.len()),
            },
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
        if is_last {
            self.link(self.last, place);
            self.last = place;
        } else {
            let entry = Entry {
                at_ns,
                number,
                place,
            };
            self.entries.push(entry);
            self.rise(self.entries.len() - 1, entry);
        }
        Key { place, number }
    }

    /// Removes the entry, and returns its waker; `None` if the entry has been removed already.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        let place = self.places.get(key.place)?;
        let is_there = place.number == key.number && place.waker.is_some();
        is_there
            .then_some(key.place)
            .and_then(|place| self.take(place))
    }

    /// Returns the time of the earliest entry.
    pub(super) fn earliest_ns(&self) -> Option<u64> {
        self.earliest().map(|entry| entry.at_ns)
    }

    fn earliest(&self) -> Option<Entry> {
        let in_list = self.places.get(self.first).map(|first| Entry {
            at_ns: first.at_ns,
            number: first.number,
            place: self.first,
        });
        match (in_list, self.entries.first()) {
            (Some(one), Some(other)) => Some(one.min(*other)),
            (one, other) => one.or(other.copied()),
        }
    }

    /// Removes the earliest entry, if its time has come.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waker> {
        let first = self.earliest().filter(|first| first.at_ns <= now_ns)?;
        self.take(first.place)
    }

    /// Removes the entry of the waker at `place`, and returns the waker.
    fn take(&mut self, place: usize) -> Option<Waker> {
        match self.places[place].position {
            Position::InList { ahead, behind } => self.unlink(ahead, behind),
            Position::InHeap(position) => {
                let last = self.entries.pop()?;
                if position < self.entries.len() {
                    self.sink(position, last);
                }
            }
        }
        let waker = self.places[place].waker.take();
        self.vacant.push(place);
        if self.vacant.len() == self.places.len() && self.places.capacity() > KEPT {
            self.entries = Vec::new();
            self.places = Vec::new();
            self.vacant = Vec::new();
        }
        waker
    }

    /// Has the waker at `place` come behind the one at `ahead` in the list, or first.
    fn link(&mut self, ahead: usize, place: usize) {
        match self.places.get_mut(ahead).map(|ahead| &mut ahead.position) {
            Some(Position::InList { behind, .. }) => *behind = place,
            _ => self.first = place,
        }
    }

    /// Takes the waker between these two out of the list.
    fn unlink(&mut self, before: usize, after: usize) {
        self.link(before, after);
        match self.places.get_mut(after).map(|after| &mut after.position) {
            Some(Position::InList { ahead, .. }) => *ahead = before,
            _ => self.last = before,
        }
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
        self.places[entry.place].position = Position::InHeap(position);
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
