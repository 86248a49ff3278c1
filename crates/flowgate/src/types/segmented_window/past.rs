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

use alloc::vec::Vec;

/// What a limiter keeps of the time before its last change of quota.
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

/// What was admitted in a segment.
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

    /// What it takes, in bytes.
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
        let Some(room) = self.limit.checked_sub(n) else {
            return self.until_ns;
        };
        let counted = self.counted(known_ns);
        let mut used = counted.iter().fold(0, add);
        if used <= room {
            return known_ns;
        }
        for sum in counted {
            used -= sum.units;
            if used <= room {
                let segments = u128::from(sum.segment) + u128::from(self.count) + 1;
                let leaves_ns = segments * u128::from(self.segment_ns);
                // At most the change.
                return leaves_ns.min(self.until_ns.into()) as u64;
            }
        }
        self.until_ns
    }

    /// The most units that the quota before the change admits at `now_ns`.
    pub(super) fn left(&self, now_ns: u64) -> u64 {
        match now_ns < self.known_ns {
            true => 0,
            false => {
                let used = self.counted(now_ns).iter().fold(0, add);
                self.limit.saturating_sub(used)
            }
        }
    }

    /// Counts `units` that are admitted at `now_ns`.
    pub(super) fn take(&mut self, now_ns: u64, units: u64) {
        let segment = self.segment(now_ns);
        match self.sums.last_mut() {
            Some(newest) if newest.segment == segment => newest.units += units,
            _ => {
                let first = segment.saturating_sub(self.count);
                self.sums.retain(|sum| sum.segment >= first);
                self.sums.push(Sum { segment, units });
            }
        }
    }

    /// The segment that `now_ns` counts in: that of the newest admission, if that is later.
    fn segment(&self, now_ns: u64) -> u64 {
        let newest = self.sums.last().map_or(0, |sum| sum.segment);
        newest.max(now_ns / self.segment_ns)
    }

    /// What counts at `now_ns`.
    fn counted(&self, now_ns: u64) -> &[Sum] {
        let first = self.segment(now_ns).saturating_sub(self.count);
        let left = self.sums.partition_point(|sum| sum.segment < first);
        &self.sums[left..]
    }
}

/// Each less than 2⁴⁴, and at most 1026 of them.
fn add(sum: u64, one: &Sum) -> u64 {
    sum + one.units
}
