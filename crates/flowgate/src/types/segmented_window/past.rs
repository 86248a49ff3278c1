//! Times before the last change of quota.
//!
//! A change may cut time into other segments, and by the current limit and window, more fits before the change than the quota
//! before it allowed. A caller that brings such a time (it read the clock before the change, or its clock was set back) is
//! admitted only if both quotas admit it:
//!
//! - the quota before the change, at the time of the caller. What was counted until the change counts, and what callers with
//!   such a time have taken since.
//! - the current quota, at the change. There the caller is recorded.
//!
//! So the wait of a caller that is refused ends when the quota before the change admits it, or at the change, if the current
//! quota admits it there; otherwise when that does. Nothing is known of the times before the change before the last one:
//! callers with such a time are refused until that change.
//!
//! All of this is within the lock of changes, and costs decisions at other times one comparison.

use crate::algorithm::sliding_window::{self, History, Window};
use alloc::vec::Vec;

/// The state of a limiter before its last change of quota.
#[derive(Debug)]
pub(super) struct Past {
    /// The last change; 0: none.
    until_ns: u64,
    /// The change before it.
    known_ns: u64,
    limit: u64,
    segment_ns: u64,
    /// Segments per window.
    count: u64,
    /// The segments that count in the window of the newest, oldest first.
    sums: Vec<Sum>,
}

/// The admissions of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) segment: u64,
    pub(super) units: u64,
}

impl Past {
    /// No change yet, of windows of `count` segments.
    pub(super) fn none(count: u64) -> Self {
        Self {
            until_ns: 0,
            known_ns: 0,
            limit: 0,
            segment_ns: 1,
            count,
            sums: Vec::new(),
        }
    }

    /// The last change; 0: none.
    pub(super) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// The size, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Sum>()
    }

    /// Replaces this by the time before a change at `until_ns`. Until then, `limit` and `segment_ns` are current, and `newest_first`
    /// returns the segments with admissions.
    pub(super) fn replace(
        &mut self,
        until_ns: u64,
        (limit, segment_ns): (u64, u64),
        newest_first: impl Iterator<Item = Sum>,
    ) {
        self.known_ns = self.until_ns;
        self.until_ns = until_ns;
        (self.limit, self.segment_ns) = (limit, segment_ns);
        self.sums.clear();
        // Those in a window, and a new one: decisions allocate nothing.
        self.sums.reserve_exact(self.count as usize + 2);
        let mut oldest = 0;
        for sum in newest_first.filter(|sum| sum.units > 0) {
            if self.sums.is_empty() {
                oldest = sum.segment.saturating_sub(self.count);
            }
            if sum.segment < oldest {
                break;
            }
            self.sums.push(sum);
        }
        self.sums.reverse();
    }

    /// The first instant, not before `now_ns`, at which the quota before the change admits `n` units; at most the change.
    pub(super) fn admits_at_ns(&self, now_ns: u64, n: u64) -> u64 {
        let known_ns = now_ns.max(self.known_ns);
        if n > self.limit {
            return self.until_ns;
        }
        match self.history(&self.window(known_ns)).judge(n) {
            Ok(_) => known_ns,
            // At most the change.
            Err(enough_ns) => enough_ns.min(self.until_ns.into()) as u64,
        }
    }

    /// The most units that the quota before the change admits at `now_ns`.
    pub(super) fn left(&self, now_ns: u64) -> u64 {
        match now_ns < self.known_ns {
            true => 0,
            false => self.history(&self.window(now_ns)).room(),
        }
    }

    /// Counts `units` that are admitted at `now_ns`.
    pub(super) fn take(&mut self, now_ns: u64, units: u64) {
        let Window { segment, first, .. } = self.window(now_ns);
        match self.sums.last_mut() {
            Some(newest) if newest.segment == segment => newest.units += units,
            _ => {
                self.sums.retain(|sum| sum.segment >= first);
                self.sums.push(Sum { segment, units });
            }
        }
    }

    /// The window of `now_ns`, which counts in the segment of the newest admission if that is later.
    fn window(&self, now_ns: u64) -> Window {
        let newest = self.sums.last().map_or(0, |sum| sum.segment);
        let segment = newest.max(now_ns / self.segment_ns);
        Window::new(self.limit, self.segment_ns, self.count, segment)
    }

    fn history<'a>(&'a self, window: &'a Window) -> History<'a, Until, impl Fn(u64) -> Until> {
        let until = |count: u64| {
            let sums = self.sums.iter().take(count as usize);
            Until {
                segment: sums.clone().next_back().map(|sum| sum.segment),
                // Each less than 2⁴⁴, and at most 1026 of them.
                units: sums.map(|sum| sum.units).sum(),
            }
        };
        let end = self.sums.len() as u64;
        History {
            window,
            at: until,
            newest: until(end),
            end,
            hint: 0,
        }
    }
}

/// The admissions of the first known segments, and nothing before them.
#[derive(Clone, Copy)]
struct Until {
    segment: Option<u64>,
    units: u64,
}

impl sliding_window::Sum for Until {
    fn segment(self) -> u64 {
        self.segment.unwrap_or(0)
    }

    fn units_since(self, older: Self) -> u64 {
        self.units - older.units
    }

    fn is_before(self, first: u64) -> bool {
        self.segment.is_none_or(|segment| segment < first)
    }
}
