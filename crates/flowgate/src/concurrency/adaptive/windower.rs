//! Closing windows: when one ends, what the algorithm is asked, and what holds for every algorithm.

use super::algorithm::Adapt;
use super::bounds::Bounds;
use super::fine_limit::FineLimit;
use super::samples::Counted;
use super::window::AdaptWindow;
use crate::clock::Timestamp;

/// When windows end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// The shortest window.
    pub(super) shortest_ns: u64,
    /// A window with fewer outcomes goes on.
    pub(super) min_outcomes: u64,
    /// Without: a window with fewer outcomes is discarded. For showing what merging is for.
    pub(super) has_merging: bool,
    /// For showing what the guard against unused growth is for.
    pub(super) has_growth_guard: bool,
    /// For showing what epochs are for.
    pub(super) has_epochs: bool,
}

/// What the lock of an adaptive limit guards.
#[derive(Debug)]
pub(super) struct Windower<A: ?Sized> {
    pub(super) bounds: Bounds,
    pub(super) pace: Pace,
    pub(super) limit: FineLimit,
    /// When the current window began.
    pub(super) began_ns: u64,
    /// The last window.
    pub(super) last: Option<AdaptWindow>,
    /// The number of windows so far.
    pub(super) windows: u64,
    /// The last field, so that it may be a `dyn Adapt`.
    pub(super) algorithm: A,
}

impl<A: Adapt> Windower<A> {
    pub(super) fn new(algorithm: A, bounds: Bounds, pace: Pace, now_ns: u64) -> Self {
        let limit = bounds.clamp(algorithm.initial());
        Self {
            bounds,
            pace,
            limit,
            began_ns: now_ns,
            last: None,
            windows: 0,
            algorithm,
        }
    }
}

impl<A: Adapt + ?Sized> Windower<A> {
    /// How many outcomes the current window needs.
    pub(super) fn min_outcomes(&self) -> u64 {
        self.algorithm
            .min_outcomes(self.limit, self.pace.min_outcomes)
    }

    /// Closes the window, and returns when the next one may end.
    pub(super) fn close(
        &mut self,
        now_ns: u64,
        counted: Counted,
        max_in_flight: u64,
        stride: u64,
    ) -> u64 {
        let window = AdaptWindow {
            limit: self.limit,
            length_ns: now_ns.saturating_sub(self.began_ns).max(1),
            successes: counted.successes,
            mean_latency_ns: counted.mean_ns(),
            overloads: counted.overloads,
            max_in_flight,
            stride,
        };
        let asked = self
            .algorithm
            .on_window(Timestamp::from_nanos(now_ns), &window);
        let next = self.bounds.clamp(asked);
        let grows_unused = next > self.limit && !window.is_used();
        if !grows_unused || !self.pace.has_growth_guard {
            self.limit = next;
        }
        self.began_ns = now_ns;
        self.last = Some(window);
        self.windows += 1;
        let twice_ns = window.mean_latency_ns.saturating_mul(2);
        now_ns.saturating_add(twice_ns.max(self.pace.shortest_ns))
    }
}
