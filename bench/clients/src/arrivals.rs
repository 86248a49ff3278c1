//! When requests reached the origin, and what that says about who sent them. Pure: no clock is read
//! here.

use serde::Serialize;

use crate::shared::spread::Tail;

/// The windows in which arrivals are counted.
const WINDOW_NS: u64 = 100_000_000;

/// Every request that one origin saw.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// In ns since the origin started, ascending.
    pub at_ns: Vec<u64>,
    /// How many came over each connection.
    pub by_connection: Vec<u64>,
    /// Those that came after the memory for them was full.
    pub unrecorded: u64,
}

/// How a client kept its rate, seen from the server.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    pub arrivals: u64,
    /// Connections that carried a request.
    pub connections: usize,
    /// |achieved rate − rate| in millionths of the rate, from the first to the last arrival.
    pub rate_error_ppm: f64,
    /// |arrival − its place on the grid|: see [`Arrivals::pace`].
    pub error_us: Tail,
    /// Between neighboring arrivals.
    pub gap_us: Tail,
    pub smallest_gap_us: f64,
    /// The most arrivals in any 100 ms.
    pub busiest: u64,
    /// Share of the 100 ms windows that contain as many arrivals as scheduled, ±1.
    ///
    /// Each window starts with an arrival and ends before the last one.
    pub windows_within_one: f64,
}

impl Arrivals {
    /// What they come to beside an even `rate` per second; none of fewer than two.
    ///
    /// The grid is one arrival each 1/rate, with the phase that suits the arrivals best: the median of
    /// what each says it is. Arrival number k belongs to place k, so what is not sent at all moves all
    /// that come after it.
    pub fn pace(&self, rate: u32) -> Option<Pace> {
        let (first, last) = (*self.at_ns.first()?, *self.at_ns.last()?);
        if last == first {
            return None;
        }
        let period_ns = 1e9 / f64::from(rate);
        let intervals = (self.at_ns.len() - 1) as f64;
        let achieved = intervals * 1e9 / (last - first) as f64;
        let gaps = self.at_ns.windows(2);
        let gaps: Vec<f64> = gaps.map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect();
        let (busiest, windows_within_one) = self.windows(rate);
        Some(Pace {
            arrivals: self.at_ns.len() as u64 + self.unrecorded,
            connections: self.by_connection.iter().filter(|&&n| n > 0).count(),
            rate_error_ppm: (achieved / f64::from(rate) - 1.0).abs() * 1e6,
            error_us: self.errors_us(period_ns),
            smallest_gap_us: gaps.iter().copied().fold(f64::INFINITY, f64::min),
            gap_us: Tail::of(gaps),
            busiest,
            windows_within_one,
        })
    }

    fn errors_us(&self, period_ns: f64) -> Tail {
        let first = self.at_ns.first().copied().unwrap_or_default();
        let places = self.at_ns.iter().enumerate();
        let offsets: Vec<f64> = places
            .map(|(k, at_ns)| (at_ns - first) as f64 - k as f64 * period_ns)
            .collect();
        let phase = Tail::of(offsets.clone()).p50;
        let errors = offsets.iter().map(|offset| (offset - phase).abs() / 1e3);
        Tail::of(errors.collect())
    }

    /// The most in any window, and the share of windows with what is due in them, give or take one.
    fn windows(&self, rate: u32) -> (u64, f64) {
        let due = f64::from(rate) * WINDOW_NS as f64 / 1e9;
        let last = self.at_ns.last().copied().unwrap_or_default();
        let (mut end, mut busiest, mut whole, mut within_one) = (0, 0, 0_u64, 0_u64);
        for (start, &from_ns) in self.at_ns.iter().enumerate() {
            let until_ns = from_ns + WINDOW_NS;
            while self.at_ns.get(end).is_some_and(|&at_ns| at_ns < until_ns) {
                end += 1;
            }
            let count = (end - start) as u64;
            busiest = busiest.max(count);
            if until_ns <= last {
                whole += 1;
                within_one += u64::from((count as f64 - due).abs() <= 1.0);
            }
        }
        (busiest, within_one as f64 / whole.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals at these µs, over one connection.
    fn arrivals(at_us: impl IntoIterator<Item = u64>) -> Arrivals {
        let at_ns: Vec<u64> = at_us.into_iter().map(|us| us * 1_000).collect();
        Arrivals {
            by_connection: vec![at_ns.len() as u64],
            at_ns,
            unrecorded: 0,
        }
    }

    #[test]
    fn an_even_pace_has_no_error_whatever_its_phase() {
        let pace = arrivals((0..1_000).map(|k| 12_345 + k * 1_000)).pace(1_000);
        let pace = pace.expect("there are two");
        assert_eq!((pace.arrivals, pace.connections), (1_000, 1));
        assert_eq!((pace.rate_error_ppm, pace.error_us.max), (0.0, 0.0));
        assert_eq!((pace.smallest_gap_us, pace.gap_us.max), (1_000.0, 1_000.0));
        assert_eq!((pace.busiest, pace.windows_within_one), (100, 1.0));
    }

    #[test]
    fn one_that_is_late_is_the_only_one_with_an_error() {
        let late = |k| if k == 500 { 400 } else { 0 };
        let pace = arrivals((0..1_000).map(|k| k * 1_000 + late(k))).pace(1_000);
        let pace = pace.expect("there are two");
        assert_eq!((pace.error_us.p99, pace.error_us.max), (0.0, 400.0));
        assert_eq!(pace.smallest_gap_us, 600.0);
        assert_eq!(pace.rate_error_ppm, 0.0);
    }

    #[test]
    fn clumps_show_in_the_windows() {
        // Twenty at once, fifty times a second.
        let pace = arrivals((0..1_000).map(|k| k / 20 * 20_000)).pace(1_000);
        let pace = pace.expect("there are two");
        // From the first of a clump on there are five clumps; from its last on, one and four of them.
        assert_eq!(pace.busiest, 100);
        assert!(pace.windows_within_one < 0.2, "{pace:?}");
        assert_eq!((pace.gap_us.p50, pace.smallest_gap_us), (0.0, 0.0));
        assert_eq!(pace.error_us.p50, 5_000.0);
    }

    #[test]
    fn what_was_not_sent_moves_all_that_comes_after_it() {
        // The first half on the grid, then one place is left out.
        let pace = arrivals((0..1_000).map(|k| (k + k / 501) * 1_000)).pace(1_000);
        let pace = pace.expect("there are two");
        assert_eq!((pace.error_us.p50, pace.error_us.p99), (0.0, 1_000.0));
        // 999 intervals took the time of 1,000.
        assert!((pace.rate_error_ppm - 1_000.0).abs() < 0.1, "{pace:?}");
    }

    #[test]
    fn of_one_arrival_nothing_is_said() {
        assert!(arrivals([7]).pace(100).is_none());
        assert!(arrivals([7, 7]).pace(100).is_none());
    }
}
