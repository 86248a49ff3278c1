//! The lower bound of any simulator: the next event leaves a heap, and another one enters it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many events are pending at any time.
const PENDING: u64 = 10_000;

/// Takes `events` events out of the heap, and returns their number.
pub fn run(events: u64) -> u64 {
    let mut state = 1_u64;
    let mut gap = || {
        // Xorshift: fast, and random enough for a heap.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 1_000_000
    };
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> = (0..PENDING)
        .map(|number| Reverse((gap(), number)))
        .collect();
    for number in 0..events {
        let Some(Reverse((at, _))) = heap.pop() else {
            return number;
        };
        heap.push(Reverse((at + gap(), PENDING + number)));
    }
    // So that the work is not optimized away.
    assert_eq!(heap.len() as u64, PENDING);
    events
}
