//! Delays by the number of a request in its window, instead of refusals.

/// The first requests of a window are prompt. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delays {
    /// Number of prompt requests.
    pub(crate) free: u64,
    /// Delay of the first request after these.
    pub(crate) first: f64,
    /// By how much each further delay is longer than the one before.
    pub(crate) step: f64,
    /// The longest delay; infinite if it was not reached.
    pub(crate) longest: f64,
}

/// A delayed request: its number in the window, counted from 1, and how much longer it took than a prompt one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delayed {
    pub(crate) number: u64,
    pub(crate) by: f64,
}

/// A timer fires up to this much early.
const EARLY: f64 = 2e6;

/// A response that is later than this, and than the share of the delay, has another cause.
const LATE: f64 = 5e6;
const LATE_SHARE: f64 = 0.02;

impl Delays {
    /// Returns the delay of the request with this number in its window.
    pub(crate) fn delay(&self, number: u64) -> f64 {
        match number.checked_sub(self.free + 1) {
            Some(further) => (self.first + self.step * further as f64).min(self.longest),
            None => 0.0,
        }
    }

    /// Returns by how much a response was later than this model has it; negative if it was earlier.
    pub(crate) fn off(&self, delayed: &Delayed) -> f64 {
        delayed.by - self.delay(delayed.number)
    }

    /// Counts the responses that cannot be right. On a busy machine, any may be late by `busy` more.
    pub(crate) fn unexplained(&self, all: &[Delayed], busy: f64) -> u64 {
        let is_wrong = |delayed: &&Delayed| {
            let most = LATE.max(LATE_SHARE * self.delay(delayed.number)) + busy;
            // What is usual may be late, too.
            let least = -EARLY - busy;
            !(least..=most).contains(&self.off(delayed))
        };
        all.iter().filter(is_wrong).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_grows_with_the_number_up_to_the_longest() {
        let model = Delays {
            free: 5,
            first: 100e6,
            step: 50e6,
            longest: 220e6,
        };
        let delays = [1, 5, 6, 7, 8, 9, 1_000].map(|number| model.delay(number) / 1e6);
        assert_eq!(delays, [0.0, 0.0, 100.0, 150.0, 200.0, 220.0, 220.0]);
    }

    #[test]
    fn a_response_may_be_a_little_late_and_hardly_early() {
        let model = Delays {
            free: 1,
            first: 100e6,
            step: 0.0,
            longest: f64::INFINITY,
        };
        for (by, expected) in [(97.0, 1), (98.5, 0), (104.5, 0), (106.0, 1)] {
            let delayed = Delayed {
                number: 9,
                by: by * 1e6,
            };
            assert_eq!(model.unexplained(&[delayed], 0.0), expected, "{by}");
        }
    }
}
