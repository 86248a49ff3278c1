//! The most that was admitted in any window of a length, as the run goes on.
//!
//! ```text
//!   admissions, by time        ╷ ╷  ╷╷      ╷ ╷╷╷   ╷
//!   entries                         ├───────────────┤    those of the longest window
//!   a shorter window                        ├───────┤    has a place where it begins, a sum, and a sum for each key
//! ```

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::bound::AdmissionBound;
use crate::time::nanos;

/// The most admissions that are kept.
const MOST_ENTRIES: usize = 1 << 22;

/// The most that was admitted in any window of a length.
///
/// A window is half-open: of two admissions that are exactly its length apart, it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorstWindow {
    /// The length of the window.
    pub window: Duration,
    /// The window with the most tokens.
    pub worst: Peak,
    /// The window of one key with the most tokens of that key.
    pub worst_of_key: Peak,
    /// What the policy guarantees, if it has such a guarantee.
    pub bound: Option<AdmissionBound>,
    /// Whether there are no worse windows. If not, too many admissions were in one window to keep all of them.
    pub is_exact: bool,
}

/// The most tokens that were admitted in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// The tokens.
    pub cost: u64,
    /// When the last of them were admitted, since the start.
    pub at: Duration,
    /// The key of the last of them.
    pub key: u64,
}

impl WorstWindow {
    /// Returns whether no window had more than the policy guarantees. It is `None` without a guarantee.
    pub fn is_kept(&self) -> Option<bool> {
        let bound = self.bound?;
        let worst = if bound.is_per_key {
            self.worst_of_key
        } else {
            self.worst
        };
        Some(worst.cost <= bound.tokens)
    }
}

#[derive(Debug)]
pub(crate) struct Windows {
    entries: VecDeque<Admission>,
    /// The number of admissions that are no longer among the entries.
    dropped: u64,
    watches: Vec<Watch>,
    most_entries: usize,
}

#[derive(Clone, Copy, Debug)]
struct Admission {
    at_ns: u64,
    key: u64,
    cost: u64,
}

#[derive(Debug)]
struct Watch {
    length_ns: u64,
    /// The number of the first admission in the window.
    first: u64,
    sum: u64,
    /// Without zeros.
    sums: HashMap<u64, u64>,
    found: WorstWindow,
}

impl Windows {
    pub(crate) fn new(
        lengths: &[Duration],
        bound: impl Fn(Duration) -> Option<AdmissionBound>,
    ) -> Self {
        let watches = lengths.iter().map(|length| Watch {
            length_ns: nanos(*length),
            first: 0,
            sum: 0,
            sums: HashMap::new(),
            found: WorstWindow {
                window: *length,
                worst: Peak::default(),
                worst_of_key: Peak::default(),
                bound: bound(*length),
                is_exact: true,
            },
        });
        Self {
            entries: VecDeque::new(),
            dropped: 0,
            watches: watches.collect(),
            most_entries: MOST_ENTRIES,
        }
    }

    /// Notes an admission. Times do not decrease.
    pub(crate) fn admit(&mut self, at_ns: u64, key: u64, cost: u64) {
        if self.watches.is_empty() {
            return;
        }
        let is_full = self.entries.len() >= self.most_entries;
        self.entries.push_back(Admission { at_ns, key, cost });
        for watch in &mut self.watches {
            // The newest admission is always in the window.
            let length_ns = watch.length_ns;
            let is_within =
                |entry: &Admission| entry.at_ns == at_ns || at_ns - entry.at_ns < length_ns;
            while let Some(&entry) = self.entries.get((watch.first - self.dropped) as usize) {
                let is_lost = is_full && watch.first == self.dropped;
                if is_within(&entry) && !is_lost {
                    break;
                }
                watch.found.is_exact &= !is_lost || !is_within(&entry);
                watch.forget(entry.key, entry.cost);
                watch.first += 1;
            }
            watch.note(at_ns, key, cost);
        }
        let first = self.watches.iter().map(|watch| watch.first).min();
        while first.is_some_and(|first| self.dropped < first) {
            self.entries.pop_front();
            self.dropped += 1;
        }
    }

    pub(crate) fn worst(&self) -> Vec<WorstWindow> {
        self.watches.iter().map(|watch| watch.found).collect()
    }
}

impl Watch {
    fn note(&mut self, at_ns: u64, key: u64, cost: u64) {
        let at = Duration::from_nanos(at_ns);
        self.sum = self.sum.saturating_add(cost);
        let of_key = self.sums.entry(key).or_default();
        *of_key = of_key.saturating_add(cost);
        let found = &mut self.found;
        for (worst, cost) in [
            (&mut found.worst, self.sum),
            (&mut found.worst_of_key, *of_key),
        ] {
            if cost > worst.cost {
                *worst = Peak { cost, at, key };
            }
        }
    }

    fn forget(&mut self, key: u64, cost: u64) {
        self.sum = self.sum.saturating_sub(cost);
        if let Some(of_key) = self.sums.get_mut(&key) {
            *of_key = of_key.saturating_sub(cost);
            if *of_key == 0 {
                self.sums.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(lengths_ns: &[u64]) -> Windows {
        let lengths: Vec<Duration> = lengths_ns
            .iter()
            .map(|ns| Duration::from_nanos(*ns))
            .collect();
        Windows::new(&lengths, |_| None)
    }

    /// Every window, by the definition.
    fn plain(admissions: &[(u64, u64, u64)], length_ns: u64, key: Option<u64>) -> u64 {
        let sum = |last: &(u64, u64, u64)| -> u64 {
            let within = admissions.iter().filter(|(at, of, _)| {
                *at <= last.0 && last.0 - at < length_ns && key.is_none_or(|key| key == *of)
            });
            within.map(|(_, _, cost)| cost).sum()
        };
        admissions.iter().map(sum).max().unwrap_or(0)
    }

    #[test]
    fn the_worst_is_that_of_all_windows() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let mut at = 0;
            let admissions: Vec<_> = (0..100)
                .map(|_| {
                    at += random.u64(0..8);
                    (at, random.u64(0..3), random.u64(0..4))
                })
                .collect();
            let mut windows = windows(&[1, 10, 50]);
            for (at, key, cost) in &admissions {
                windows.admit(*at, *key, *cost);
            }
            for found in windows.worst() {
                let length_ns = found.window.as_nanos() as u64;
                let of_keys = (0..3).map(|key| plain(&admissions, length_ns, Some(key)));
                assert_eq!(found.worst.cost, plain(&admissions, length_ns, None));
                assert_eq!(Some(found.worst_of_key.cost), of_keys.max());
                assert!(found.is_exact);
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_a_lower_bound_is_left() {
        let mut windows = windows(&[1_000, 10]);
        windows.most_entries = 100;
        for at_ns in 0..5_000 {
            windows.admit(at_ns, 0, 1);
            assert!(windows.entries.len() <= 100);
        }
        let worst = windows.worst();
        assert_eq!((worst[0].worst.cost, worst[0].is_exact), (100, false));
        assert_eq!((worst[1].worst.cost, worst[1].is_exact), (10, true));
    }
}
