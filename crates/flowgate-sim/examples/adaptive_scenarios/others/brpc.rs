//! The `auto` limiter of Apache brpc.

use super::{Call, MAX, MILLISECOND_NS, MIN, Other, SECOND_NS};

const WINDOW_NS: u64 = SECOND_NS;
const MIN_CALLS: u32 = 100;
const MAX_CALLS: u32 = 200;
/// At most one call in this time is a sample.
const SAMPLE_EVERY_NS: u64 = MILLISECOND_NS / 10;
const LATENCY_WEIGHT: f64 = 0.1;
const RATE_WEIGHT: f64 = 0.01;
/// How far above the product the limit goes to look for more.
const MOST_EXPLORED: f64 = 0.3;
const LEAST_EXPLORED: f64 = 0.06;
const EXPLORE_STEP: f64 = 0.02;
/// A latency is measured anew after between half of this time and all of it.
const MEASURE_EVERY_NS: u64 = 50 * SECOND_NS;
const MEASURE_AT: f64 = 0.9;

/// The lowest latency times the highest rate.
#[derive(Debug)]
pub struct Brpc {
    limit: f64,
    /// 0: none yet.
    lowest: f64,
    /// Per nanosecond.
    rate: f64,
    explore: f64,
    window: Window,
    sampled_ns: Option<u64>,
    measure_ns: Option<u64>,
    /// Calls that end earlier do not count; then the lowest latency is measured.
    drained_ns: Option<u64>,
    random: fastrand::Rng,
}

#[derive(Debug, Default)]
struct Window {
    began_ns: Option<u64>,
    successes: u32,
    failures: u32,
    /// Of successes and failures.
    sum: f64,
    /// All successes, and not only samples.
    served: u32,
}

impl Brpc {
    pub fn new(seed: u64) -> Self {
        Self {
            limit: 40.0,
            lowest: 0.0,
            rate: 0.0,
            explore: MOST_EXPLORED,
            window: Window::default(),
            sampled_ns: None,
            measure_ns: None,
            drained_ns: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn next_measure_ns(&mut self, now_ns: u64) -> u64 {
        now_ns + MEASURE_EVERY_NS / 2 + self.random.u64(..MEASURE_EVERY_NS / 2)
    }

    fn sample(&mut self, call: &Call) {
        let now_ns = call.ended_ns;
        if let Some(drained_ns) = self.drained_ns {
            if now_ns < drained_ns {
                return;
            }
            self.drained_ns = None;
            self.lowest = 0.0;
            self.window = Window::default();
            self.measure_ns = Some(self.next_measure_ns(now_ns));
        }
        if self.measure_ns.is_none() {
            self.measure_ns = Some(self.next_measure_ns(now_ns));
        }
        let began_ns = *self.window.began_ns.get_or_insert(now_ns);
        match call.is_overload {
            true => self.window.failures += 1,
            false => self.window.successes += 1,
        }
        self.window.sum += call.latency;
        let calls = self.window.successes + self.window.failures;
        let is_over = now_ns - began_ns >= WINDOW_NS;
        if is_over && calls < MIN_CALLS {
            self.window = Window::default();
        } else if calls >= MAX_CALLS || is_over {
            let window = std::mem::take(&mut self.window);
            self.window.began_ns = Some(now_ns);
            self.update(&window, now_ns);
        }
    }

    fn update(&mut self, window: &Window, now_ns: u64) {
        if window.successes == 0 {
            self.limit = (self.limit / 2.0).max(MIN);
            return;
        }
        // Failures lengthen the latency of the successes.
        let latency = window.sum / f64::from(window.successes);
        let length_ns = now_ns - window.began_ns.unwrap_or(now_ns);
        let rate = f64::from(window.served) / length_ns.max(1) as f64;
        if self.lowest == 0.0 {
            self.lowest = latency;
        } else if latency < self.lowest {
            self.lowest += (latency - self.lowest) * LATENCY_WEIGHT;
        }
        match rate >= self.rate {
            true => self.rate = rate,
            false => self.rate += (rate - self.rate) * RATE_WEIGHT,
        }
        if self.measure_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.drained_ns = Some(now_ns + (2.0 * latency) as u64);
            self.limit = (self.rate * self.lowest * MEASURE_AT).ceil();
        } else {
            let is_free = latency <= self.lowest * (1.0 + LEAST_EXPLORED)
                || rate <= self.rate / (1.0 + LEAST_EXPLORED);
            self.explore = match is_free {
                true => (self.explore + EXPLORE_STEP).min(MOST_EXPLORED),
                false => (self.explore - EXPLORE_STEP).max(LEAST_EXPLORED),
            };
            self.limit = self.lowest * self.rate * (1.0 + self.explore);
        }
        self.limit = self.limit.clamp(MIN, MAX);
    }
}

impl Other for Brpc {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, call: &Call) {
        self.window.served += u32::from(!call.is_overload);
        let next_ns = self.sampled_ns.map_or(0, |at_ns| at_ns + SAMPLE_EVERY_NS);
        if call.ended_ns >= next_ns {
            self.sampled_ns = Some(call.ended_ns);
            self.sample(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    /// A window of 200 calls, one per millisecond from `from_ms` on.
    fn window(brpc: &mut Brpc, from_ms: u64, latency_ms: u64) {
        for at_ms in from_ms..from_ms + 200 {
            brpc.ended(&call(at_ms, latency_ms, 40));
        }
    }

    #[test]
    fn the_limit_is_the_product_and_what_it_explores() {
        let mut brpc = Brpc::new(1);
        window(&mut brpc, 0, 20);
        // 200 calls in 199 ms, of 20 ms each.
        let product = 20.0 * 200.0 / 199.0;
        assert!((brpc.limit - product * 1.3).abs() < 1e-9, "{}", brpc.limit);
        // The latency is longer, and the rate the highest: it explores less. The rate is that of 200 calls in 200 ms.
        window(&mut brpc, 200, 30);
        let rate = 200.0 / 199.0 + (1.0 - 200.0 / 199.0) * 0.01;
        let expected = 20.0 * rate * 1.28;
        assert!((brpc.limit - expected).abs() < 1e-9, "{}", brpc.limit);
        // A shorter latency counts for a tenth.
        window(&mut brpc, 400, 10);
        assert!((brpc.lowest - 19e6).abs() < 1e-3);
    }

    #[test]
    fn failures_alone_halve_the_limit() {
        let mut brpc = Brpc::new(1);
        for at_ms in 0..200 {
            brpc.ended(&Call {
                is_overload: true,
                ..call(at_ms, 10, 40)
            });
        }
        assert_eq!(brpc.limit, 20.0);
    }

    #[test]
    fn a_measurement_is_drained_at_nine_tenths() {
        let mut brpc = Brpc::new(1);
        window(&mut brpc, 0, 20);
        brpc.measure_ns = Some(0);
        window(&mut brpc, 200, 20);
        assert_eq!(brpc.limit, 19.0, "20.1 · 0.9 = 18.1");
        // 40 ms do not count, and then the lowest latency is a new one.
        window(&mut brpc, 400, 60);
        assert_eq!((brpc.limit, brpc.lowest), (19.0, 0.0));
        window(&mut brpc, 600, 60);
        assert_eq!(brpc.lowest, 60e6);
    }
}
