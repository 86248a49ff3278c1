//! A histogram of times.

use super::stripes::Stripes;
use std::time::Duration;

/// Upper bounds in nanoseconds, and as the page shows them in seconds.
pub(super) const BOUNDS: [(u64, &str); 12] = [
    (250, "0.00000025"),
    (500, "0.0000005"),
    (1_000, "0.000001"),
    (2_500, "0.0000025"),
    (5_000, "0.000005"),
    (10_000, "0.00001"),
    (100_000, "0.0001"),
    (1_000_000, "0.001"),
    (5_000_000, "0.005"),
    (20_000_000, "0.02"),
    (100_000_000, "0.1"),
    (1_000_000_000, "1"),
];
/// The counter of times beyond all bounds, and that of the sum.
const LONGER: usize = BOUNDS.len();
const SUM: usize = LONGER + 1;

/// How often it took how long.
#[derive(Debug, Default)]
pub(super) struct Seconds(Stripes<{ SUM + 1 }>);

impl Seconds {
    pub(super) fn add(&self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.iter().position(|(most, _)| time_ns <= *most);
        self.0.add(place.unwrap_or(LONGER), 1);
        self.0.add(SUM, time_ns);
    }

    /// Returns for each bound how many times were at most that long.
    pub(super) fn up_to(&self) -> [u64; BOUNDS.len()] {
        let mut sum = 0;
        std::array::from_fn(|place| {
            sum += self.0.sum(place);
            sum
        })
    }

    /// Returns how many there are beyond all bounds.
    pub(super) fn longer(&self) -> u64 {
        self.0.sum(LONGER)
    }

    pub(super) fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.sum(SUM))
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, Seconds};
    use std::time::Duration;

    #[test]
    fn a_time_counts_from_the_first_bound_that_it_fits() {
        let seconds = Seconds::default();
        for nanoseconds in [0, 250, 251, 1_000_000_000, 1_000_000_001] {
            seconds.add(Duration::from_nanos(nanoseconds));
        }
        let up_to = seconds.up_to();
        assert_eq!((up_to[0], up_to[1], up_to[10], up_to[11]), (2, 3, 3, 4));
        assert_eq!(seconds.longer(), 1);
        assert_eq!(seconds.sum(), Duration::from_nanos(2_000_000_502));
    }

    #[test]
    fn the_bounds_are_shown_in_seconds() {
        for (nanoseconds, shown) in BOUNDS {
            let seconds: f64 = shown.parse().unwrap();
            assert_eq!((seconds * 1e9).round() as u64, nanoseconds);
        }
        assert!(BOUNDS.is_sorted());
    }
}
