//! The gradient controller of Envoy's adaptive concurrency filter.

use super::{Call, MAX, MILLISECOND_NS, Other, SECOND_NS, quantile};

/// The limit while the lowest latency is measured, and the smallest one.
const MIN_CONCURRENCY: f64 = 3.0;
const MEASURED_CALLS: usize = 50;
const MEASURE_EVERY_NS: u64 = 60 * SECOND_NS;
/// As a share of `MEASURE_EVERY_NS`.
const JITTER: f64 = 0.15;
const UPDATE_EVERY_NS: u64 = 100 * MILLISECOND_NS;
const BUFFER: f64 = 0.25;
const QUANTILE: f64 = 0.5;
/// After this number of updates at the smallest limit, the latency is measured again.
const MOST_AT_MIN: u32 = 5;

/// A gradient to a lowest latency, and a headroom of the square root.
///
/// The lowest latency is measured at three permits.
#[derive(Debug)]
pub struct Envoy {
    limit: f64,
    /// The limit to return to; while it is known, the lowest latency is measured.
    measuring: Option<f64>,
    /// Calls that began earlier do not count.
    epoch_ns: u64,
    lowest: f64,
    samples: Vec<f64>,
    update_ns: u64,
    measure_ns: u64,
    at_min: u32,
    random: fastrand::Rng,
}

impl Envoy {
    pub fn new(seed: u64) -> Self {
        Self {
            limit: MIN_CONCURRENCY,
            measuring: Some(MIN_CONCURRENCY),
            epoch_ns: 0,
            lowest: 0.0,
            samples: Vec::new(),
            update_ns: 0,
            measure_ns: 0,
            at_min: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn begin_measuring(&mut self, now_ns: u64) {
        self.measuring = Some(self.limit);
        self.limit = MIN_CONCURRENCY;
        self.epoch_ns = now_ns;
        self.at_min = 0;
        self.samples.clear();
    }

    fn end_measuring(&mut self, before: f64, now_ns: u64) {
        self.lowest = quantile(&mut self.samples, QUANTILE);
        self.samples.clear();
        self.measuring = None;
        self.limit = before;
        self.update_ns = now_ns + UPDATE_EVERY_NS;
        let jitter = self.random.f64() * JITTER * MEASURE_EVERY_NS as f64;
        self.measure_ns = now_ns + MEASURE_EVERY_NS + jitter as u64;
    }

    fn update(&mut self) {
        if self.samples.is_empty() {
            return;
        }
        let latency = quantile(&mut self.samples, QUANTILE);
        self.samples.clear();
        let gradient = (self.lowest * (1.0 + BUFFER) / latency).clamp(0.5, 2.0);
        let limit = self.limit * gradient;
        self.limit = (limit + limit.sqrt()).floor().clamp(MIN_CONCURRENCY, MAX);
        self.at_min = match self.limit > MIN_CONCURRENCY {
            true => 0,
            false => self.at_min + 1,
        };
    }
}

impl Other for Envoy {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, call: &Call) {
        // A call without an answer has no latency.
        if call.began_ns < self.epoch_ns || call.is_overload {
            return;
        }
        self.samples.push(call.latency);
        if let Some(before) = self.measuring
            && self.samples.len() >= MEASURED_CALLS
        {
            self.end_measuring(before, call.ended_ns);
        }
    }

    fn elapsed(&mut self, now_ns: u64) {
        if self.measuring.is_some() {
            return;
        }
        if now_ns >= self.update_ns {
            self.update();
            self.update_ns = now_ns + UPDATE_EVERY_NS;
        }
        if now_ns >= self.measure_ns || self.at_min >= MOST_AT_MIN {
            self.begin_measuring(now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    /// Measured: 100 ms.
    fn measured() -> Envoy {
        let mut envoy = Envoy::new(1);
        for _ in 0..MEASURED_CALLS {
            envoy.ended(&call(1_000, 100, 3));
        }
        assert_eq!((envoy.measuring, envoy.lowest), (None, 100e6));
        envoy
    }

    #[test]
    fn the_limit_is_the_gradient_and_a_square_root() {
        let mut envoy = measured();
        envoy.ended(&call(1_050, 50, 3));
        envoy.elapsed(1_099 * MILLISECOND_NS);
        assert_eq!(envoy.limit, 3.0, "it is not time yet");
        envoy.elapsed(1_100 * MILLISECOND_NS);
        // 3 · 2 + √6 = 8.4.
        assert_eq!(envoy.limit, 8.0);
        envoy.ended(&call(1_350, 250, 3));
        envoy.elapsed(1_400 * MILLISECOND_NS);
        // 8 · 125/250 + √4.
        assert_eq!(envoy.limit, 6.0);
    }

    #[test]
    fn five_updates_at_the_smallest_limit_measure_anew() {
        let mut envoy = measured();
        for update in 1..=5 {
            let now_ms = 1_000 + 100 * update;
            assert_eq!(envoy.measuring, None);
            envoy.ended(&call(now_ms, 1_000_000, 3));
            envoy.elapsed(now_ms * MILLISECOND_NS);
        }
        assert_eq!(envoy.measuring, Some(3.0));
        // Of before.
        envoy.ended(&call(1_501, 10, 3));
        assert!(envoy.samples.is_empty());
    }
}
