//! What happens next: events in the order of their times, and of those at one time, in the order in which they were entered.
//!
//! The times are the digits of a number in base 64, compared with the time of the last event that was taken:
//!
//! ```text
//!   level     2        1        0      the highest digit that differs
//!   slot   ┌─┬─┬─┐  ┌─┬─┬─┐  ┌─┬─┬─┐   the value of that digit
//!          │ │•│•│  │ │ │•│  │ │ │ │   the next event is in the lowest slot of the lowest level that has any
//!          └─┴─┼─┘  └─┴─┴▲┘  └─┴─┴─┘
//!              └─────────┘             that slot is emptied: its events go to lower levels
//! ```
//!
//! An event moves down a few times, each time from the end of one vector to the end of another. In a binary heap, it would be
//! compared with others on as many places of memory as the heap is deep. Events of one time are always in one slot, and move
//! together, so they stay in order.
//!
//! Source: R. K. Ahuja, K. Mehlhorn, J. B. Orlin, R. E. Tarjan, *Faster algorithms for the shortest path problem* (radix heaps), 1990.

use std::collections::VecDeque;

/// The bits of a digit.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;

/// Events to come. None is entered before the last one that was taken.
#[derive(Debug)]
pub(super) struct Calendar<E> {
    /// The time of the next event, if there is one.
    next_ns: u64,
    /// The next event, if it was entered as one before all others. Often it is the only one.
    first: Option<E>,
    /// The time of the last event that was taken out of a slot.
    taken_ns: u64,
    /// The events at that time.
    due: VecDeque<E>,
    /// The levels that have events after that time, and the slots of each level that have any.
    used_levels: u16,
    used_slots: [u64; LEVELS],
    /// By level and slot.
    slots: Vec<Slot<E>>,
    len: usize,
}

#[derive(Debug)]
struct Slot<E> {
    earliest_ns: u64,
    events: Vec<(u64, E)>,
}

impl<E> Calendar<E> {
    pub(super) fn new() -> Self {
        let slot = || Slot {
            earliest_ns: u64::MAX,
            events: Vec::new(),
        };
        Self {
            next_ns: u64::MAX,
            first: None,
            taken_ns: 0,
            due: VecDeque::new(),
            used_levels: 0,
            used_slots: [0; LEVELS],
            slots: std::iter::repeat_with(slot).take(LEVELS * SLOTS).collect(),
            len: 0,
        }
    }

    /// Enters an event that is not before the last one that was taken.
    #[inline]
    pub(super) fn enter(&mut self, at_ns: u64, event: E) {
        debug_assert!(at_ns >= self.taken_ns, "time does not go backward");
        let next_ns = self.next_ns;
        let is_first = self.len == 0 || at_ns < next_ns;
        self.len += 1;
        if !is_first && at_ns > next_ns {
            return self.put(at_ns, event);
        }
        self.next_ns = at_ns;
        match (is_first, self.first.take()) {
            (true, None) => self.first = Some(event),
            (true, Some(first)) => {
                self.first = Some(event);
                self.put(next_ns, first);
            }
            (false, None) => self.put(at_ns, event),
            // Events of one time stay together, so that they stay in order.
            (false, Some(first)) => {
                self.put(at_ns, first);
                self.put(at_ns, event);
            }
        }
    }

    #[inline(always)]
    fn put(&mut self, at_ns: u64, event: E) {
        let differs = at_ns ^ self.taken_ns;
        if differs == 0 {
            return self.due.push_back(event);
        }
        let level = differs.ilog2() / DIGIT_BITS;
        let digit = (at_ns >> (level * DIGIT_BITS)) as usize % SLOTS;
        self.used_levels |= 1 << level;
        self.used_slots[level as usize] |= 1 << digit;
        let slot = &mut self.slots[level as usize * SLOTS + digit];
        slot.earliest_ns = slot.earliest_ns.min(at_ns);
        slot.events.push((at_ns, event));
    }

    /// The level and the digit of the slot that has the next event after `taken_ns`.
    fn next_slot(&self) -> Option<(usize, usize)> {
        if self.used_levels == 0 {
            return None;
        }
        let level = self.used_levels.trailing_zeros() as usize % LEVELS;
        Some((level, self.used_slots[level].trailing_zeros() as usize))
    }

    /// The time of the next event.
    #[inline]
    pub(super) fn next_ns(&self) -> Option<u64> {
        (self.len > 0).then_some(self.next_ns)
    }

    /// Takes the next event, if it is at `at_ns`.
    #[inline]
    pub(super) fn pop_at(&mut self, at_ns: u64) -> Option<E> {
        if self.next_ns() != Some(at_ns) {
            return None;
        }
        let event = match self.first.take().or_else(|| self.due.pop_front()) {
            Some(event) => event,
            None => self.pop_later()?,
        };
        self.len -= 1;
        if !self.due.is_empty() {
            self.next_ns = self.taken_ns;
        } else if let Some((level, digit)) = self.next_slot() {
            self.next_ns = self.slots[level * SLOTS + digit].earliest_ns;
        }
        Some(event)
    }

    /// Goes on to the next slot, and takes the first of its earliest events.
    fn pop_later(&mut self) -> Option<E> {
        let (level, digit) = self.next_slot()?;
        self.used_slots[level] &= !(1 << digit);
        if self.used_slots[level] == 0 {
            self.used_levels &= !(1 << level);
        }
        let index = level * SLOTS + digit;
        let slot = &mut self.slots[index];
        self.taken_ns = std::mem::replace(&mut slot.earliest_ns, u64::MAX);
        if slot.events.len() == 1 {
            return slot.events.pop().map(|(_, event)| event);
        }
        let mut events = std::mem::take(&mut slot.events);
        for (at_ns, event) in events.drain(..) {
            self.put(at_ns, event);
        }
        // Kept for its memory.
        self.slots[index].events = events;
        self.due.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::Calendar;
    use std::collections::BTreeMap;

    fn pop<E>(calendar: &mut Calendar<E>) -> Option<(u64, E)> {
        let at_ns = calendar.next_ns()?;
        Some((at_ns, calendar.pop_at(at_ns)?))
    }

    #[test]
    fn events_come_by_time_and_then_as_entered() {
        let mut calendar = Calendar::new();
        for (at_ns, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (9, 'e'), (3, 'b')] {
            calendar.enter(at_ns, event);
        }
        assert_eq!(calendar.next_ns(), Some(3));
        assert_eq!((calendar.pop_at(2), calendar.pop_at(3)), (None, Some('a')));
        let order: String = std::iter::from_fn(|| Some(pop(&mut calendar)?.1)).collect();
        assert_eq!(order, "bcde");
    }

    /// Compared with a sorted map, over gaps of each number of digits, and with many events at one time.
    #[test]
    fn events_that_are_entered_as_others_are_taken_come_in_order() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut calendar = Calendar::new();
        let mut expected = BTreeMap::new();
        let mut now_ns = 0;
        for number in 0..200_000_u64 {
            if random.u8(..) < 140 {
                let gap_ns = random.u64(..) >> random.u32(1..64);
                let at_ns = match random.u8(..4) {
                    0 => now_ns,
                    _ => u64::saturating_add(now_ns, gap_ns >> 20),
                };
                calendar.enter(at_ns, number);
                expected.insert((at_ns, number), ());
            }
            assert_eq!(calendar.len(), expected.len());
            let next = expected.first_key_value().map(|(key, ())| *key);
            assert_eq!(calendar.next_ns(), next.map(|(at_ns, _)| at_ns));
            if random.bool() {
                assert_eq!(pop(&mut calendar), next);
                expected.pop_first();
                now_ns = next.map_or(now_ns, |(at_ns, _)| at_ns);
            }
        }
        calendar.enter(u64::MAX, 0);
        expected.insert((u64::MAX, 0), ());
        let rest: Vec<_> = std::iter::from_fn(|| pop(&mut calendar)).collect();
        assert!(rest.into_iter().eq(expected.into_keys()));
    }
}
