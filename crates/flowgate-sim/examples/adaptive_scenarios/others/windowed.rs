//! Windows of calls, of which a limit sees one mean: `WindowedLimit` of Netflix's concurrency-limits, and `Windowed` of
//! congestion-limiter.

use super::{Call, Other, SECOND_NS};

/// A window with fewer calls does not count.
const MIN_CALLS: u32 = 10;

/// When a window ends, and what becomes of one with too few calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Windows of one second. One with too few calls is discarded.
    Netflix,
    /// Windows of twice the lowest latency, and of one second at most. One with too few calls goes on.
    Congestion,
}

#[derive(Debug)]
pub struct Windowed<L> {
    inner: L,
    kind: Kind,
    ends_ns: u64,
    calls: u32,
    sum: f64,
    lowest: f64,
    max_in_flight: u32,
    has_overload: bool,
}

impl<L: Other> Windowed<L> {
    pub fn netflix(inner: L) -> Self {
        Self::new(inner, Kind::Netflix)
    }

    pub fn congestion(inner: L) -> Self {
        Self::new(inner, Kind::Congestion)
    }

    fn new(inner: L, kind: Kind) -> Self {
        Self {
            inner,
            kind,
            ends_ns: 0,
            calls: 0,
            sum: 0.0,
            lowest: f64::MAX,
            max_in_flight: 0,
            has_overload: false,
        }
    }

    fn begin(&mut self, now_ns: u64) {
        let length_ns = match self.kind {
            Kind::Netflix => SECOND_NS,
            Kind::Congestion => (2.0 * self.lowest).min(2.0 * SECOND_NS as f64) as u64,
        };
        self.ends_ns = now_ns + length_ns;
        (self.calls, self.sum, self.lowest) = (0, 0.0, f64::MAX);
        (self.max_in_flight, self.has_overload) = (0, false);
    }
}

impl<L: Other> Other for Windowed<L> {
    fn limit(&self) -> f64 {
        self.inner.limit()
    }

    fn ended(&mut self, call: &Call) {
        self.calls += 1;
        self.sum += call.latency;
        self.lowest = self.lowest.min(call.latency);
        self.max_in_flight = self.max_in_flight.max(call.in_flight);
        self.has_overload |= call.is_overload;
        let has_enough = self.calls >= MIN_CALLS;
        if call.ended_ns <= self.ends_ns || !has_enough && self.kind == Kind::Congestion {
            return;
        }
        if has_enough {
            self.inner.ended(&Call {
                latency: self.sum / f64::from(self.calls),
                in_flight: self.max_in_flight,
                is_overload: self.has_overload,
                ..*call
            });
        }
        self.begin(call.ended_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[derive(Debug, Default)]
    struct Seen(Vec<Call>);

    impl Other for Seen {
        fn limit(&self) -> f64 {
            1.0
        }

        fn ended(&mut self, call: &Call) {
            self.0.push(*call);
        }
    }

    #[test]
    fn a_window_is_its_mean_and_the_most_in_flight() {
        let mut windowed = Windowed::congestion(Seen::default());
        for (latency_ms, in_flight) in (1..=10).zip(11..) {
            windowed.ended(&Call {
                is_overload: in_flight == 11,
                ..call(100, latency_ms, in_flight)
            });
        }
        let [seen] = windowed.inner.0[..] else {
            panic!("one window: {:?}", windowed.inner)
        };
        assert_eq!((seen.latency, seen.in_flight), (5.5e6, 20));
        assert!(seen.is_overload);
        // Twice the lowest latency of 1 ms.
        assert_eq!(windowed.ends_ns, 102_000_000);
    }

    #[test]
    fn netflix_discards_a_window_of_few_calls() {
        let mut windowed = Windowed::netflix(Seen::default());
        for _ in 0..9 {
            windowed.ended(&call(0, 10, 1));
        }
        windowed.ends_ns = SECOND_NS;
        windowed.calls = 8;
        windowed.ended(&call(1_001, 10, 1));
        assert!(windowed.inner.0.is_empty());
        assert_eq!((windowed.calls, windowed.ends_ns), (0, 2_001_000_000));
    }
}
