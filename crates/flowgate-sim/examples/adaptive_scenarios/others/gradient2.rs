//! `Gradient2Limit` of Netflix's concurrency-limits.

use super::{Call, MAX, MIN, Other};

const AGE: f64 = 600.0;
const WARM_UP: f64 = 10.0;
const TOLERANCE: f64 = 1.5;
const SMOOTHING: f64 = 0.2;
const HEADROOM: f64 = 4.0;

/// The gradient is that of a long mean to the latest latency. Overloads are not looked at.
#[derive(Debug)]
pub struct Gradient2 {
    limit: f64,
    samples: f64,
    /// An exponential mean, and of the first samples the plain one.
    long: f64,
}

impl Gradient2 {
    pub fn new() -> Self {
        Self {
            limit: 20.0,
            samples: 0.0,
            long: 0.0,
        }
    }
}

impl Other for Gradient2 {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn ended(&mut self, call: &Call) {
        self.samples += 1.0;
        let weight = match self.samples <= WARM_UP {
            true => 1.0 / self.samples,
            false => 2.0 / (AGE + 1.0),
        };
        self.long += (call.latency - self.long) * weight;
        if self.long / call.latency > 2.0 {
            self.long *= 0.95;
        }
        if f64::from(call.in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * self.long / call.latency).clamp(0.5, 1.0);
        let next = self.limit * gradient + HEADROOM;
        let smoothed = self.limit * (1.0 - SMOOTHING) + next * SMOOTHING;
        self.limit = smoothed.clamp(MIN, MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn it_goes_a_fifth_of_the_way() {
        let mut gradient = Gradient2::new();
        gradient.ended(&call(0, 100, 20));
        assert_eq!(gradient.limit, 20.8, "20 · 0.8 + (20 + 4) · 0.2");
        // The mean of 100 and 500 is 300: a gradient of 1.5 · 300/500 = 0.9.
        gradient.ended(&call(0, 500, 20));
        assert!((gradient.limit - (20.8 * 0.8 + (20.8 * 0.9 + 4.0) * 0.2)).abs() < 1e-9);
        let before = gradient.limit;
        gradient.ended(&call(0, 100, 10));
        assert_eq!(gradient.limit, before, "less than half of it is used");
    }

    #[test]
    fn a_mean_far_above_the_latency_decays() {
        let mut gradient = Gradient2::new();
        gradient.ended(&call(0, 900, 1));
        gradient.ended(&call(0, 100, 1));
        // The mean of 900 and 100, and a twentieth less, as it is over 2 · 100.
        assert_eq!(gradient.long, 475e6);
    }
}
