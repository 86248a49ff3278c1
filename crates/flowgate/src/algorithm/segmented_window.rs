//! The segmented window of one segment: two counters.
//!
//! It is the [sliding window](super::sliding_window) with segments as long as the window, of which two count at any time. So
//! the sums are two numbers:
//!
//! ```text
//!      previous       current      counts still
//!   ├─────────────┼─────────────┼─────────────┤
//!                start
//! ```
//!
//! An [approximate window](super::approximate_window) has the same counters, and lets a part of the previous one count.

use super::Ticks;

/// The admissions since `start`, and those in the segment before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters<T> {
    pub(crate) start: T,
    pub(crate) previous: u64,
    pub(crate) current: u64,
}

impl<T: Ticks> Counters<T> {
    /// The counters in the segment that `now` lies in. A `now` before the start counts as the start.
    #[inline(always)]
    pub(crate) fn at(self, now: T, length: T) -> Self {
        if now < self.start || now - self.start < length {
            return self;
        }
        // Once per segment. What was admitted before the last one has no part in this.
        let elapsed = now - self.start;
        Self {
            start: now - elapsed % length,
            previous: if elapsed - length < length {
                self.current
            } else {
                0
            },
            current: 0,
        }
    }

    /// Takes `n` if both counters are then at most the limit, by the counters in the segment of `now`. Otherwise returns the
    /// time until they can be.
    pub(crate) fn take(mut self, now: T, n: u64, limit: u64, length: T) -> Result<Self, T> {
        if self.sum().saturating_add(n) <= limit {
            self.current += n;
            return Ok(self);
        }
        // With the next segment, the previous counter no longer counts; with the one after that, neither does.
        let next = self.start + length;
        match self.current.saturating_add(n) <= limit {
            true => Err(next - now),
            false => Err(next + length - now),
        }
    }

    /// Without `n` that were taken at `then`, as far as they are still counted; `None` if they are in neither counter.
    pub(crate) fn without(mut self, n: u64, then: T, length: T) -> Option<Self> {
        let counter = match then < self.start {
            true if self.start - then <= length => &mut self.previous,
            false if then - self.start < length => &mut self.current,
            _ => return None,
        };
        *counter = counter.saturating_sub(n);
        Some(self)
    }

    /// The first instant at which neither counter counts, by those in the segment of `now`.
    pub(crate) fn idle_at(self, now: T, length: T) -> u128 {
        let segments = match (self.previous, self.current) {
            (0, 0) => return now.into(),
            (_, 0) => 1,
            (_, _) => 2,
        };
        self.start.into() + segments * length.into()
    }

    pub(crate) fn sum(self) -> u64 {
        self.previous.saturating_add(self.current)
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    /// The last of the two windows that an admission is in.
    #[test]
    fn c3_nothing_counts_any_longer_when_its_windows_are_over() {
        let idle_at = |previous, current| {
            let state = Counters {
                start: 1_000_u64,
                previous,
                current,
            };
            state.idle_at(1_030, 100)
        };
        assert_eq!(idle_at(0, 0), 1_030);
        assert_eq!(idle_at(3, 0), 1_100);
        assert_eq!([idle_at(0, 1), idle_at(3, 1)], [1_200; 2]);
    }
}
