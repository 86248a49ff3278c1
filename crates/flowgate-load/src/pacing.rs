//! Accuracy of the pacing, from the times of the sends alone.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{PacingMode, Window, nanos};
use crate::spread::{Durations, Spread};

/// Accuracy of the pacing.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Extent, Origin, Pace, PacingLimiter, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let pace = Pace::Under(PacingLimiter::at_most(Quota::per_second(1000)), Extent::Requests(5));
/// let plan = Plan::new(Target::parse(&origin.url())?, pace);
/// let pacing = flowgate_load::run(plan, &Stop::new())?.pacing;
/// assert!(pacing.smallest_gap >= Some(Duration::from_millis(1)));
/// assert_eq!(pacing.gap_error.samples, 4); // between five requests
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacing {
    /// Absolute difference between the gap of two sends and the gap of their scheduled times.
    pub gap_error: Spread,
    /// Shortest gap between two sends; `None` for fewer than two.
    #[serde(rename = "smallest_gap_ns", with = "nanos::option")]
    pub smallest_gap: Option<Duration>,
    /// Most sends in any 100 ms and in any second.
    pub busiest: Vec<Busiest>,
    /// Shortest time that contains a number of sends, from 2 on: the *envelope*.
    ///
    /// If the run has a window limit, one entry is for one send more than the window allows. A run without a rate has
    /// entries for powers of 10 only.
    pub envelope: Vec<Cluster>,
}

/// Most sends in any interval of a length, both ends included.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::{Busiest, Extent, Origin, Pace, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(5)));
/// let pacing = flowgate_load::run(plan, &Stop::new())?.pacing;
/// for Busiest { window, sent } in pacing.busiest {
///     assert!(window <= Duration::from_secs(1));
///     assert!((1..=5).contains(&sent));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busiest {
    /// Length of the interval.
    #[serde(rename = "window_ns", with = "nanos")]
    pub window: Duration,
    /// Number of sends in it.
    pub sent: u64,
}

/// Shortest time that contains a number of sends.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Cluster, Extent, Origin, Pace, PacingLimiter, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let pace = Pace::Under(PacingLimiter::at_most(Quota::per_second(1000)), Extent::Requests(5));
/// let plan = Plan::new(Target::parse(&origin.url())?, pace);
/// let pacing = flowgate_load::run(plan, &Stop::new())?.pacing;
/// // At most one per millisecond: n requests take at least n - 1 ms.
/// for Cluster { sends, within } in pacing.envelope {
///     assert!(within >= Duration::from_millis(sends - 1));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Number of sends.
    pub sends: u64,
    /// Time from the first of them to the last.
    #[serde(rename = "within_ns", with = "nanos")]
    pub within: Duration,
}

/// Lengths of the intervals.
const WINDOWS_NS: [u64; 2] = [100_000_000, 1_000_000_000];
/// Minimum number of remembered sends; more are remembered if a second has more.
const REMEMBERED: usize = 1 << 17;
const MOST_REMEMBERED: usize = 1 << 20;

/// Observes sends in order, in bounded memory: at most 8 MiB.
#[derive(Debug)]
pub(crate) struct Sends {
    /// Times of the last sends; that of send `i` is at `i` modulo the length, a power of two.
    instants: Vec<u64>,
    /// Number of sends that are always remembered.
    remembered: usize,
    count: u64,
    last_scheduled_ns: u64,
    gap_error: Durations,
    smallest_gap_ns: u64,
    busiest: [u64; WINDOWS_NS.len()],
    /// The first send in the interval that ends with the last.
    firsts: [u64; WINDOWS_NS.len()],
    /// Shortest time by number of sends.
    envelope: Vec<(u64, u64)>,
}

/// Returns whether the time of one send more than the window allows can be measured.
pub(crate) fn can_watch(window: &Window) -> bool {
    window.sends < MOST_REMEMBERED as u64
}

impl Sends {
    /// Creates it with the entry that a window limit needs.
    pub(crate) fn new(mode: PacingMode, window: Option<Window>) -> Sends {
        // A run without a rate sends as fast as the machine can, and each entry costs time at each send.
        let digits: &[u64] = match mode {
            PacingMode::Hold | PacingMode::Under => &[1, 2, 3, 5, 7],
            PacingMode::Unpaced => &[1],
        };
        let sizes = |decade| digits.iter().map(move |digit| digit * 10_u64.pow(decade));
        let sizes = (0..6).flat_map(sizes);
        let beyond = window.filter(can_watch).map(|window| window.sends + 1);
        let sizes: BTreeSet<u64> = sizes.chain(beyond).filter(|&size| size > 1).collect();
        Sends {
            instants: vec![0; 1 << 12],
            count: 0,
            last_scheduled_ns: 0,
            gap_error: Durations::new(),
            smallest_gap_ns: u64::MAX,
            busiest: [0; WINDOWS_NS.len()],
            firsts: [0; WINDOWS_NS.len()],
            envelope: sizes.into_iter().map(|size| (size, u64::MAX)).collect(),
            remembered: beyond.map_or(REMEMBERED, |size| REMEMBERED.max(size as usize)),
        }
    }

    /// Records the next send. One that is earlier than the previous send counts at the same time.
    pub(crate) fn push(&mut self, scheduled_ns: u64, sent_ns: u64) {
        let index = self.count;
        self.count += 1;
        let mut sent_ns = sent_ns;
        if index > 0 {
            let before_ns = self.instant(index - 1);
            sent_ns = sent_ns.max(before_ns);
            let gap_ns = sent_ns - before_ns;
            // Requests that were reordered are matched with scheduled times in the order of sending.
            let scheduled_gap_ns = scheduled_ns.saturating_sub(self.last_scheduled_ns);
            self.gap_error.record_ns(gap_ns.abs_diff(scheduled_gap_ns));
            self.smallest_gap_ns = self.smallest_gap_ns.min(gap_ns);
        }
        self.last_scheduled_ns = scheduled_ns;
        self.make_room(index);
        let slot = self.slot(index);
        self.instants[slot] = sent_ns;
        let oldest = self.count.saturating_sub(self.instants.len() as u64);
        for (place, window_ns) in WINDOWS_NS.into_iter().enumerate() {
            let mut first = self.firsts[place].max(oldest);
            while sent_ns - self.instant(first) > window_ns {
                first += 1;
            }
            self.firsts[place] = first;
            self.busiest[place] = self.busiest[place].max(self.count - first);
        }
        for place in 0..self.envelope.len() {
            let size = self.envelope[place].0;
            if size > self.count - oldest {
                break;
            }
            let within_ns = sent_ns - self.instant(self.count - size);
            let shortest_ns = &mut self.envelope[place].1;
            *shortest_ns = within_ns.min(*shortest_ns);
        }
    }

    fn slot(&self, index: u64) -> usize {
        (index & (self.instants.len() as u64 - 1)) as usize
    }

    fn instant(&self, index: u64) -> u64 {
        self.instants[self.slot(index)]
    }

    /// Grows before needed entries would be overwritten.
    fn make_room(&mut self, index: u64) {
        let len = self.instants.len();
        let is_needed = len < self.remembered || self.firsts[1] + len as u64 <= index;
        if index < len as u64 || len == MOST_REMEMBERED || !is_needed {
            return;
        }
        let mut larger = vec![0; 2 * len];
        for old in index - len as u64..index {
            larger[(old & (2 * len as u64 - 1)) as usize] = self.instant(old);
        }
        self.instants = larger;
    }

    pub(crate) fn pacing(&self) -> Pacing {
        let busiest = WINDOWS_NS.into_iter().zip(self.busiest);
        let envelope = self.envelope.iter().filter(|(_, ns)| *ns != u64::MAX);
        Pacing {
            gap_error: self.gap_error.spread(),
            smallest_gap: (self.count > 1).then(|| Duration::from_nanos(self.smallest_gap_ns)),
            busiest: busiest
                .filter(|(_, sent)| *sent > 0)
                .map(|(ns, sent)| Busiest {
                    window: Duration::from_nanos(ns),
                    sent,
                })
                .collect(),
            envelope: envelope
                .map(|&(sends, ns)| Cluster {
                    sends,
                    within: Duration::from_nanos(ns),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the most sends and the shortest intervals from all sends.
    fn by_hand(sent: &[u64]) -> (Vec<u64>, Vec<(u64, u64)>) {
        let most = |window| {
            let within = |&last: &u64| {
                let span = sent.iter().filter(|&&at| at <= last && last - at <= window);
                span.count() as u64
            };
            sent.iter().map(within).max().unwrap_or(0)
        };
        let shortest = |size: usize| {
            let spans = sent.windows(size).map(|span| span[size - 1] - span[0]);
            spans.min().map(|shortest| (size as u64, shortest))
        };
        let sizes = [2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 200, 300, 500, 700];
        (
            WINDOWS_NS.map(most).to_vec(),
            sizes.into_iter().filter_map(shortest).collect(),
        )
    }

    #[test]
    fn the_busiest_spans_are_those_found_by_looking_at_all() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for gap_ns in [0, 3_000_000, 40_000_000, 1_500_000_000] {
            let mut sends = Sends::new(PacingMode::Hold, None);
            let (mut at, mut sent) = (5, Vec::new());
            for index in 0..900 {
                at += random(2 * gap_ns + 1);
                sent.push(at);
                sends.push(index * gap_ns, at);
            }
            let pacing = sends.pacing();
            let (busiest, envelope) = by_hand(&sent);
            let found: Vec<_> = pacing.busiest.iter().map(|busiest| busiest.sent).collect();
            assert_eq!(found, busiest, "{gap_ns}");
            let found: Vec<_> = pacing
                .envelope
                .iter()
                .map(|cluster| (cluster.sends, nanos::of(cluster.within)))
                .collect();
            assert_eq!(found, envelope, "{gap_ns}");
            assert_eq!(pacing.smallest_gap.map(nanos::of), Some(envelope[0].1));
        }
    }

    #[test]
    fn one_more_than_a_window_may_hold_is_watched_however_many_that_are() {
        for sends in [1, 4, 5, 140_000] {
            let span = Duration::from_secs(60);
            let window = Window { sends, span };
            let mut watched = Sends::new(PacingMode::Hold, Some(window));
            // The window is full repeatedly, and once a nanosecond too early.
            let mut at = 0;
            for round in 0..3 {
                at += if round == 2 {
                    59_999_999_999
                } else {
                    60_000_000_000
                };
                (0..sends).for_each(|_| watched.push(at, at));
            }
            let envelope = watched.pacing().envelope;
            let beyond = envelope.iter().find(|cluster| cluster.sends == sends + 1);
            let within = beyond.map(|cluster| cluster.within);
            assert_eq!(
                within,
                Some(Duration::from_nanos(59_999_999_999)),
                "{sends}"
            );
            assert!(envelope.is_sorted_by(|one, other| one.sends < other.sends));
        }
    }

    #[test]
    fn a_second_with_more_sends_than_are_remembered_at_first() {
        let mut sends = Sends::new(PacingMode::Hold, None);
        for index in 0..400_000_u64 {
            sends.push(index * 4_000, index * 4_000);
        }
        let pacing = sends.pacing();
        assert_eq!(pacing.busiest[0].sent, 25_001);
        assert_eq!(pacing.busiest[1].sent, 250_001);
        let largest = pacing.envelope.last().map(|cluster| cluster.sends);
        assert_eq!(largest, Some(200_000));
        assert_eq!(pacing.gap_error.max, Duration::ZERO);
    }

    /// A full batch can split what two streams write concurrently.
    #[test]
    fn sends_that_come_in_the_wrong_order_happen_at_once() {
        let mut sends = Sends::new(PacingMode::Hold, None);
        for at in [10, 20, 10, 30] {
            sends.push(at, at);
        }
        let pacing = sends.pacing();
        assert_eq!(pacing.smallest_gap, Some(Duration::ZERO));
        assert_eq!(pacing.envelope[1].within, Duration::from_nanos(10));
    }

    #[test]
    fn an_even_rate_has_no_gap_errors() {
        let mut sends = Sends::new(PacingMode::Unpaced, None);
        assert_eq!(sends.pacing(), Pacing::default());
        for index in 0..10 {
            sends.push(
                index * 1_000,
                index * 1_000 + if index == 5 { 200 } else { 0 },
            );
        }
        let pacing = sends.pacing();
        assert_eq!(pacing.gap_error.samples, 9);
        assert_eq!(pacing.gap_error.p50, Duration::ZERO);
        assert_eq!(pacing.gap_error.max, Duration::from_nanos(200));
        assert_eq!(pacing.smallest_gap, Some(Duration::from_nanos(800)));
        let sizes: Vec<u64> = pacing
            .envelope
            .iter()
            .map(|cluster| cluster.sends)
            .collect();
        assert_eq!(sizes, [10]);
    }
}
