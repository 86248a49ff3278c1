//! What a server has in work: the ends of services by time, and of those at one time, in the order in which they were entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events to come.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    entered: u64,
}

#[derive(Debug)]
struct Entry<E> {
    /// The time, and below it the number of events that were entered before: one comparison instead of two.
    key: u128,
    event: E,
}

impl<E> Entry<E> {
    fn at_ns(&self) -> u64 {
        (self.key >> 64) as u64
    }
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            entered: 0,
        }
    }

    pub(super) fn enter(&mut self, at_ns: u64, event: E) {
        let key = u128::from(at_ns) << 64 | u128::from(self.entered);
        self.entered += 1;
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// The time of the next event.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.at_ns())
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse(entry) = self.heap.pop()?;
        Some((entry.at_ns(), entry.event))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::Agenda;

    #[test]
    fn events_come_by_time_and_then_as_entered() {
        let mut agenda = Agenda::new();
        for (at_ns, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (9, 'e'), (3, 'b')] {
            agenda.enter(at_ns, event);
        }
        assert_eq!(agenda.next_ns(), Some(3));
        let order: String = std::iter::from_fn(|| Some(agenda.pop()?.1)).collect();
        assert_eq!(order, "abcde");
    }
}
