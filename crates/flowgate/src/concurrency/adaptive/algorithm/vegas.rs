use super::{Adapt, AdaptReport};
use crate::clock::Timestamp;
use crate::concurrency::adaptive::fine_limit::FineLimit;
use crate::concurrency::adaptive::window::AdaptWindow;

/// A limit by the estimated queue, as in TCP Vegas.
///
/// By Little's law, `limit × (1 − lowest latency / latency)` calls are in the queue of the service. The limit grows by its square root while that is less
/// than the square root, and shrinks by as much while it is more than twice the square root.
///
/// It is simple, and it has no answer to a service that becomes slower: it takes the longer latency for a queue until it has
/// measured the latency again, every 600 windows. [`Gradient`](crate::Gradient) is the better choice; this one is here to compare with.
///
/// ```
/// use flowgate::{AdaptiveLimit, Vegas};
///
/// let limit = AdaptiveLimit::new(Vegas::default());
/// assert_eq!(limit.limit().permits(), 20);
/// ```
///
/// Source: L. Brakmo, L. Peterson, *TCP Vegas: end to end congestion avoidance on a global internet*, 1995.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vegas {
    initial: FineLimit,
    lowest_ns: u64,
    windows: u32,
}

/// The latency is measured anew after this number of windows.
const MEASURE_EVERY: u32 = 600;

impl Default for Vegas {
    /// Starts at 20 permits.
    fn default() -> Self {
        Self::starting_at(FineLimit::whole(20))
    }
}

impl Vegas {
    /// Creates the algorithm with this limit to start with.
    #[must_use]
    pub const fn starting_at(initial: FineLimit) -> Self {
        Self {
            initial,
            lowest_ns: u64::MAX,
            windows: 0,
        }
    }
}

impl Adapt for Vegas {
    fn initial(&self) -> FineLimit {
        self.initial
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        if let Some(cut) = window.cut_for_overloads() {
            return cut;
        }
        let (limit, latency_ns) = (window.limit, window.mean_latency_ns);
        if window.successes == 0 || latency_ns == 0 {
            return limit;
        }
        self.windows += 1;
        if self.windows > MEASURE_EVERY {
            (self.windows, self.lowest_ns) = (0, u64::MAX);
        }
        self.lowest_ns = self.lowest_ns.min(latency_ns);
        let root = limit.sqrt_parts();
        let queued = limit.parts() - limit.times(self.lowest_ns, latency_ns).parts();
        if queued < root {
            limit.plus(root)
        } else if queued > 2 * root {
            FineLimit::from_parts(limit.parts().saturating_sub(root))
        } else {
            limit
        }
    }

    fn report(&self) -> AdaptReport {
        AdaptReport {
            baseline_ns: Some(self.lowest_ns).filter(|ns| *ns < u64::MAX),
            ..AdaptReport::default()
        }
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_one_to_two_square_roots_in_the_queue() {
        let mut vegas = Vegas::default();
        let mut next = |limit: u32, latency_ms: u64| {
            let limit = FineLimit::whole(limit);
            let window = AdaptWindow::new(limit, 50_000_000, 100, latency_ms * 1_000_000);
            vegas.on_window(Timestamp::ORIGIN, &window)
        };
        assert_eq!(next(25, 100).permits(), 30);
        // 100 · (1 − 100/118) = 15 calls in the queue.
        assert_eq!(next(100, 118).permits(), 100);
        assert_eq!(next(100, 140).permits(), 90);
        assert_eq!(next(100, 105).permits(), 110);
    }
}
