//! The sliding window, exact or in segments: at most the limit in any window.
//!
//! Source: folklore. The exact form is usually a log of times, and the form in segments a ring of counters.
//!
//! Time is cut into segments. An admission counts in its segment and in the following segments that make up a window:
//!
//! ```text
//!  segment      20       22       23       27       28      now in segment 28, 5 segments
//!  units       110      113      119      120      124      per window: 23 to 28 count
//!                        ▲ the last that has left
//!                        └── 124 − 113 = 11 units in the window
//! ```
//!
//! Segments of a nanosecond are the exact window: an admission counts until one window after its time.
//!
//! The state is a history of [sums](Sum). Each sum is the number of units until the end of its segment. So the units of any run
//! of segments are the difference of two sums, and a search finds the sums that count.

/// The number of units until the end of a segment.
pub(crate) trait Sum: Copy {
    fn segment(self) -> u64;

    /// The units after `older` until and with this.
    fn units_since(self, older: Self) -> u64;

    /// Whether its segment is before `first`, or it represents everything before the known sums.
    fn is_before(self, first: u64) -> bool;

    /// The same, if its units are known.
    #[inline(always)]
    fn is_known_before(self, first: u64) -> bool {
        self.is_before(first)
    }
}

/// The segments that count for a decision, and the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) limit: u64,
    segment_ns: u64,
    /// The number of segments that count beside the segment of the time.
    segments: u64,
    /// The segment of the time: in segments of a nanosecond, the time.
    pub(crate) segment: u64,
    /// The first segment that counts.
    pub(crate) first: u64,
}

impl Window {
    #[inline(always)]
    pub(crate) fn new(limit: u64, segment_ns: u64, segments: u64, segment: u64) -> Self {
        Self {
            limit,
            segment_ns,
            segments,
            segment,
            first: segment.saturating_sub(segments),
        }
    }

    /// The same for an admission with the time `at_ns`, which may be earlier than the time at which it is recorded. The
    /// admissions that count at `at_ns`, and all admissions since, count. So no window holds more than the limit, also by the
    /// times of the grants.
    #[inline(always)]
    pub(crate) fn dated(self, at_ns: u64) -> Self {
        Self {
            first: (at_ns / self.segment_ns).saturating_sub(self.segments),
            ..self
        }
    }

    /// Whether `n` units fit beside `used`.
    #[inline(always)]
    pub(crate) fn fits(&self, n: u64, used: u64) -> bool {
        n <= self.limit && used <= self.limit - n
    }

    /// The time from which `sum` no longer counts.
    #[inline(always)]
    pub(crate) fn leaves_ns(&self, sum: impl Sum) -> u128 {
        (u128::from(sum.segment()) + u128::from(self.segments) + 1) * u128::from(self.segment_ns)
    }

    /// When `rounds` times as many segments as a window has, and one, have passed since `enough_ns`.
    pub(crate) fn rounds_after_ns(&self, enough_ns: u128, rounds: u128) -> u128 {
        let segment_ns = u128::from(self.segment_ns);
        let segments = rounds.saturating_mul(u128::from(self.segments) + 1);
        let segment = (enough_ns / segment_ns).saturating_add(segments);
        segment.saturating_mul(segment_ns)
    }
}

/// The known sums, in order, and the window of a decision.
pub(crate) struct History<'a, S, F> {
    pub(crate) window: &'a Window,
    /// Returns the oldest sum at 0, and the newest one at `end`.
    pub(crate) at: F,
    pub(crate) newest: S,
    pub(crate) end: u64,
    /// Where the last sum that has left the window may be.
    pub(crate) hint: u64,
}

impl<S: Sum, F: Fn(u64) -> S> History<'_, S, F> {
    /// Finds the last sum that has left the window, if `n` units, at most the limit, fit into it. Otherwise returns the time at
    /// which enough has left the window.
    #[inline(always)]
    pub(crate) fn judge(&self, n: u64) -> Result<u64, u128> {
        let room = self.window.limit.saturating_sub(n);
        let is_enough = |sum: S| self.newest.units_since(sum) <= room;
        let too_much_after = |at: u64| !is_enough((self.at)(at));
        let from = match self.last_left() {
            Ok((at, left)) if is_enough(left) => return Ok(at),
            Ok((at, _)) => at,
            Err(oldest) if too_much_after(oldest) => oldest,
            Err(oldest) => return Err(self.window.leaves_ns((self.at)(oldest))),
        };
        let last = last_that(from, self.end, too_much_after);
        Err(self.window.leaves_ns((self.at)(last + 1)))
    }

    /// The number of units that fit.
    pub(crate) fn room(&self) -> u64 {
        self.last_left().map_or(0, |(_, left)| {
            let used = self.newest.units_since(left);
            self.window.limit.saturating_sub(used)
        })
    }

    /// The last sum that has left the window, and its place. If that sum is forgotten, the place of the oldest known one.
    #[inline(always)]
    fn last_left(&self) -> Result<(u64, S), u64> {
        let first = self.window.first;
        if self.newest.is_before(first) {
            return Ok((self.end, self.newest));
        }
        let has_left = |at: u64| (self.at)(at).is_before(first);
        let from = match self.hint {
            hint if hint < self.end && has_left(hint) => hint,
            _ if has_left(0) => 0,
            _ => return Err(0),
        };
        let at = last_that(from, self.end, has_left);
        match (self.at)(at) {
            left if left.is_known_before(first) => Ok((at, left)),
            _ => Err(at + 1),
        }
    }
}

/// The last number before `end` for which `holds` is true. It is true for `from` and all numbers up to the one to find, and for
/// none after it.
///
/// Looks close to `from` first, and in at most 2 · log₂(`end` − `from`) places. If other threads change the results in the
/// meantime, it still ends, with some number from `from` to before `end`.
#[inline(always)]
pub(crate) fn last_that(from: u64, end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut last, mut step) = (from, 1);
    let mut end = loop {
        let next = last + step;
        if next >= end {
            break end;
        }
        if !holds(next) {
            break next;
        }
        last = next;
        step *= 2;
    };
    while last + 1 < end {
        let middle = last + (end - last) / 2;
        if holds(middle) {
            last = middle;
        } else {
            end = middle;
        }
    }
    last
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::last_that;

    #[test]
    fn a_search_finds_every_place_in_few_looks() {
        for end in 1..70 {
            for from in 0..end {
                for last in from..end {
                    let looks = core::cell::Cell::new(0);
                    let holds = |at: u64| {
                        assert!((from..end).contains(&at));
                        looks.set(looks.get() + 1);
                        at <= last
                    };
                    assert_eq!(last_that(from, end, holds), last);
                    assert!(looks.get() <= 2 * (end - from).ilog2() + 2, "{looks:?}");
                }
            }
        }
    }
}
