use super::jitter::Jitter;
use super::{Adapt, AdaptReport};
use crate::clock::Timestamp;
use crate::concurrency::adaptive::fine_limit::FineLimit;
use crate::concurrency::adaptive::window::AdaptWindow;

/// The highest rate is looked for in this number of windows.
const RATES: usize = 10;
/// A drained measurement comes after this number of windows, and up to `MEASURE_JITTER` more.
const MEASURE_EVERY: u64 = 100;
const MEASURE_JITTER: u64 = 16;
const NANOS: u128 = 1_000_000_000;

/// A limit by the highest rate times the lowest latency, as in TCP BBR.
///
/// By Little's law, a service that completes `rate` calls per second in `latency` seconds without a queue has `rate × latency` of them in
/// flight. The limit is that product and a margin of twice its square root, and grows further while the rate does. The lowest latency is measured again about every 100
/// windows, at nine tenths of the product, where the queue drains.
///
/// It needs no tolerance, and a service that becomes slower by itself does not starve: its rate falls as its latency rises. After a loss of
/// capacity it takes ten windows until the old rate is forgotten.
///
/// ```
/// use flowgate::{AdaptiveLimit, Bdp};
///
/// let limit = AdaptiveLimit::new(Bdp::default());
/// assert_eq!(limit.limit().permits(), 20);
/// ```
///
/// Sources: N. Cardwell and others, *BBR: congestion-based congestion control*, 2016; the `auto` limiter of Apache brpc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bdp {
    initial: FineLimit,
    /// 0: not known yet.
    latency_ns: u64,
    /// Calls per 2¹⁶ seconds, of the last windows.
    rates: [u64; RATES],
    windows: u64,
    measure_at: u64,
    phase: Phase,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Track,
    /// Cut, and calls from before still end.
    Drain,
    Measure,
}

impl Default for Bdp {
    /// Starts at 20 permits.
    fn default() -> Self {
        Self::starting_at(FineLimit::whole(20))
    }
}

impl Bdp {
    /// Creates the algorithm with this limit to start with.
    #[must_use]
    pub const fn starting_at(initial: FineLimit) -> Self {
        Self {
            initial,
            latency_ns: 0,
            rates: [0; RATES],
            windows: 0,
            measure_at: MEASURE_EVERY / 4,
            phase: Phase::Track,
            jitter: Jitter::new(0),
        }
    }

    /// Sets the seed of the jitter between measurements (default: 0).
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.jitter = Jitter::new(seed);
        self
    }

    /// The calls in flight without a queue.
    fn product(&self) -> FineLimit {
        let rate = self.rates.iter().copied().max().unwrap_or(0);
        let parts = u128::from(rate) * u128::from(self.latency_ns) / NANOS;
        FineLimit::from_parts(u64::try_from(parts).unwrap_or(u64::MAX))
    }

    fn learn(&mut self, window: &AdaptWindow) {
        let calls = u128::from(window.successes) * u128::from(window.stride);
        let rate = (calls << 16) * NANOS / u128::from(window.length_ns.max(1));
        let slot = (self.windows % RATES as u64) as usize;
        self.rates[slot] = u64::try_from(rate).unwrap_or(u64::MAX);
        self.windows += 1;
    }
}

impl Adapt for Bdp {
    fn initial(&self) -> FineLimit {
        self.initial
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        let cut = window.cut_for_overloads().unwrap_or(FineLimit::LARGEST);
        if window.successes == 0 || window.mean_latency_ns == 0 {
            return cut.min(window.limit);
        }
        self.learn(window);
        let latency_ns = window.mean_latency_ns;
        match self.phase {
            Phase::Drain => {
                self.phase = Phase::Measure;
                return cut.min(window.limit);
            }
            Phase::Measure => {
                self.phase = Phase::Track;
                self.latency_ns = latency_ns;
                self.measure_at = self.windows + MEASURE_EVERY + self.jitter.below(MEASURE_JITTER);
            }
            Phase::Track if self.latency_ns == 0 => self.latency_ns = latency_ns,
            // An eighth of the way: single windows are noisy.
            Phase::Track if latency_ns < self.latency_ns => {
                self.latency_ns -= (self.latency_ns - latency_ns) / 8;
            }
            Phase::Track => {}
        }
        let product = self.product();
        if self.windows >= self.measure_at && window.is_full() {
            self.phase = Phase::Drain;
            return cut.min(product.times(9, 10)).min(window.limit);
        }
        let margin = product.sqrt_parts().saturating_mul(2);
        // While the rate grows with the limit, the product does not bound it.
        let aim = product.plus(margin);
        cut.min(aim)
    }

    fn min_outcomes(&self, _: FineLimit, usual: u64) -> u64 {
        match self.phase {
            Phase::Drain => 1,
            _ => usual,
        }
    }

    fn report(&self) -> AdaptReport {
        AdaptReport {
            baseline_ns: Some(self.latency_ns).filter(|ns| *ns > 0),
            gradient_permille: None,
            is_measuring: self.phase != Phase::Track,
        }
    }
}
