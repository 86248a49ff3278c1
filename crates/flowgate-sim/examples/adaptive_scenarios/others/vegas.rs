//! `VegasLimit` of Netflix's concurrency-limits.

use super::{Call, MAX, MIN, Other, log10};

/// Windows, or calls, per permit between two measurements.
const PROBE_EVERY: f64 = 30.0;

/// A queue of 3 to 6 times the logarithm of the limit.
///
/// It is estimated as `limit × (1 − lowest latency / latency)`.
#[derive(Debug)]
pub struct Vegas {
    limit: f64,
    /// 0: none yet.
    lowest: f64,
    samples: f64,
    /// 0.5 to 1.
    jitter: f64,
    random: fastrand::Rng,
}

impl Vegas {
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            limit: 20.0,
            lowest: 0.0,
            samples: 0.0,
            jitter: 0.5 + random.f64() / 2.0,
            random,
        }
    }
}

impl Other for Vegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, call: &Call) {
        self.samples += 1.0;
        if self.samples >= self.jitter * PROBE_EVERY * self.limit {
            self.jitter = 0.5 + self.random.f64() / 2.0;
            self.samples = 0.0;
            self.lowest = call.latency;
            return;
        }
        if self.lowest == 0.0 || call.latency < self.lowest {
            self.lowest = call.latency;
            return;
        }
        let step = log10(self.limit);
        let queue = (self.limit * (1.0 - self.lowest / call.latency)).ceil();
        let change = if call.is_overload {
            -step
        } else if f64::from(call.in_flight) * 2.0 < self.limit {
            0.0
        } else if queue <= step {
            6.0 * step
        } else if queue < 3.0 * step {
            step
        } else if queue > 6.0 * step {
            -step
        } else {
            0.0
        };
        self.limit = (self.limit + change).clamp(MIN, MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn the_limit_moves_with_the_queue() {
        let mut vegas = Vegas::new(1);
        let mut next = |latency_ms| {
            vegas.ended(&call(0, latency_ms, 40));
            vegas.limit
        };
        assert_eq!(next(100), 20.0, "the lowest latency");
        assert_eq!(
            next(105),
            26.0,
            "20 · (1 − 100/105) = 0.95: one call in the queue"
        );
        assert_eq!(next(108), 27.0, "26 · (1 − 100/108) = 1.9: two calls");
        assert_eq!(next(120), 27.0, "27 · (1 − 100/120) = 4.5: five calls");
        assert_eq!(next(150), 26.0, "27 · (1 − 100/150) = 9 calls");
        assert_eq!(next(90), 26.0, "a lower latency");
    }

    #[test]
    fn an_overload_costs_one_step() {
        let mut vegas = Vegas::new(1);
        vegas.ended(&call(0, 100, 40));
        vegas.ended(&Call {
            is_overload: true,
            ..call(0, 100, 40)
        });
        assert_eq!(vegas.limit, 19.0);
    }
}
