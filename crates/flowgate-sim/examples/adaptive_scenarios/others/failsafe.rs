//! The adaptive limiter of failsafe-go.

use std::collections::VecDeque;

use super::{Call, MAX, MIN, Other, SECOND_NS, log10, quantile};

const SHORTEST_NS: u64 = SECOND_NS;
const LONGEST_NS: u64 = 30 * SECOND_NS;
const MIN_CALLS: usize = 50;
const QUANTILE: f64 = 0.9;
const MEDIAN_OF: usize = 5;
const RECENT_AGE: f64 = 5.0;
const BASELINE_AGE: f64 = 10.0;
const CORRELATED: usize = 50;
/// Means are plain ones, and correlations are not known, until there is this number of values.
const WARM_UP: usize = 10;
/// A correlation needs at least this variation.
const LEAST_VARIATION: f64 = 0.01;
/// The limit over the most calls in flight.
const MOST_OVER_IN_FLIGHT: f64 = 5.0;

/// Vegas with a moving baseline, and correlations against its drift.
#[derive(Debug)]
pub struct Failsafe {
    limit: f64,
    update_ns: u64,
    latencies: Vec<f64>,
    max_in_flight: u32,
    quantiles: VecDeque<f64>,
    recent: Mean,
    baseline: Mean,
    throughput: Pairs,
    latency: Pairs,
}

/// An exponential mean, and of the first values the plain one.
#[derive(Debug)]
struct Mean {
    weight: f64,
    count: usize,
    value: f64,
}

impl Mean {
    fn of_age(age: f64) -> Self {
        Self {
            weight: 2.0 / (age + 1.0),
            count: 0,
            value: 0.0,
        }
    }

    fn add(&mut self, value: f64) -> f64 {
        self.count += 1;
        let weight = match self.count <= WARM_UP {
            true => 1.0 / self.count as f64,
            false => self.weight,
        };
        self.value += (value - self.value) * weight;
        self.value
    }
}

/// The last values of calls in flight, each with another value.
#[derive(Debug, Default)]
struct Pairs(VecDeque<[f64; 2]>);

impl Pairs {
    /// Adds a pair, and returns the correlation and the variation of the second values.
    fn add(&mut self, pair: [f64; 2]) -> [f64; 2] {
        self.0.push_back(pair);
        if self.0.len() > CORRELATED {
            self.0.pop_front();
        }
        if self.0.len() < WARM_UP {
            return [0.0, 0.0];
        }
        let mean_of = |value: &dyn Fn(&[f64; 2]) -> f64| {
            self.0.iter().map(value).sum::<f64>() / self.0.len() as f64
        };
        let means = [0, 1].map(|of| mean_of(&|pair| pair[of]));
        let deviations = [0, 1].map(|of| mean_of(&|pair| (pair[of] - means[of]).powi(2)).sqrt());
        let variations = [0, 1].map(|of| deviations[of] / means[of]);
        if variations[0] < LEAST_VARIATION || variations[1] < LEAST_VARIATION {
            return [0.0, variations[1]];
        }
        let covariance = mean_of(&|pair| (pair[0] - means[0]) * (pair[1] - means[1]));
        [covariance / (deviations[0] * deviations[1]), variations[1]]
    }
}

impl Failsafe {
    pub fn new() -> Self {
        Self {
            limit: 20.0,
            update_ns: 0,
            latencies: Vec::new(),
            max_in_flight: 0,
            quantiles: VecDeque::new(),
            recent: Mean::of_age(RECENT_AGE),
            baseline: Mean::of_age(BASELINE_AGE),
            throughput: Pairs::default(),
            latency: Pairs::default(),
        }
    }

    /// The median of the last five values; the value itself while there are fewer.
    fn median(&mut self, value: f64) -> f64 {
        self.quantiles.push_back(value);
        if self.quantiles.len() > MEDIAN_OF {
            self.quantiles.pop_front();
        }
        if self.quantiles.len() < MEDIAN_OF {
            return value;
        }
        quantile(&mut self.quantiles.iter().copied().collect::<Vec<_>>(), 0.5)
    }

    fn update(&mut self, is_full: bool) {
        let high = quantile(&mut self.latencies, QUANTILE);
        let median = self.median(high);
        let recent = self.recent.add(median);
        let baseline = self.baseline.add(recent);
        let queue = (self.limit * (1.0 - baseline / recent)).ceil();
        let in_flight = f64::from(self.max_in_flight);
        // By Little's law, and not what was counted.
        let [of_throughput, variation] = self.throughput.add([in_flight, in_flight / recent]);
        let [of_latency, _] = self.latency.add([in_flight, recent]);
        let is_slowed = of_throughput < 0.0
            || of_throughput < 0.3 && of_latency > 0.5
            || variation < 0.2 && of_latency > 0.5;
        let step = log10(self.limit);
        let change = if queue > 6.0 * step || is_full && is_slowed {
            -step
        } else if queue < 3.0 * step {
            step
        } else {
            0.0
        };
        let most = in_flight * MOST_OVER_IN_FLIGHT;
        let next = match self.limit + change {
            next if next <= most => next,
            _ if self.limit > most => self.limit - step,
            _ => most,
        };
        self.limit = next.clamp(MIN, MAX);
    }
}

impl Other for Failsafe {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, call: &Call) {
        // A call that is dropped has no latency.
        if !call.is_overload {
            self.latencies.push(call.latency);
            self.max_in_flight = self.max_in_flight.max(call.in_flight);
        }
        if call.ended_ns <= self.update_ns || self.latencies.len() < MIN_CALLS {
            return;
        }
        self.update(call.is_full);
        let lowest = self.latencies.iter().copied().fold(f64::MAX, f64::min);
        let length_ns = (2.0 * lowest) as u64;
        self.update_ns = call.ended_ns + length_ns.clamp(SHORTEST_NS, LONGEST_NS);
        self.latencies.clear();
        self.max_in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn it_grows_by_one_for_each_second_without_a_queue() {
        let mut failsafe = Failsafe::new();
        for second in 1..=5 {
            for _ in 0..MIN_CALLS {
                failsafe.ended(&call(second * 1_001, 10, 20));
            }
        }
        assert_eq!(failsafe.limit, 25.0);
    }

    #[test]
    fn a_long_queue_shrinks_it() {
        let mut failsafe = Failsafe::new();
        for (second, latency_ms) in [(1, 10), (2, 30)] {
            for _ in 0..MIN_CALLS {
                failsafe.ended(&call(second * 1_001, latency_ms, 20));
            }
        }
        // Recent: (10 + 30) / 2 = 20. Baseline: (10 + 20) / 2 = 15. Queue: 21 · (1 − 15/20) = 5.25, so 6: neither.
        assert_eq!(failsafe.limit, 21.0);
        for _ in 0..MIN_CALLS {
            failsafe.ended(&call(3_003, 110, 20));
        }
        // Recent: (10 + 30 + 110) / 3 = 50. Baseline: (10 + 20 + 50) / 3. Queue: 21 · (1 − 26.7/50) = 9.8.
        assert_eq!(failsafe.limit, 20.0);
    }

    #[test]
    fn it_is_at_most_five_times_what_is_in_flight() {
        let mut failsafe = Failsafe::new();
        for _ in 0..MIN_CALLS {
            failsafe.ended(&call(1_001, 10, 2));
        }
        assert_eq!(
            failsafe.limit, 19.0,
            "10 at most, and one step for each second"
        );
    }

    #[test]
    fn a_correlation_is_that_of_pearson() {
        let mut pairs = Pairs::default();
        let mut last = [0.0; 2];
        for x in 1..=10 {
            last = pairs.add([f64::from(x), 20.0 - f64::from(x)]);
        }
        assert!((last[0] + 1.0).abs() < 1e-9);
        // √8.25 / 14.5.
        assert!((last[1] - 8.25_f64.sqrt() / 14.5).abs() < 1e-9);
    }
}
