use super::{Adapt, AdaptReport, start_outcomes};
use crate::clock::Timestamp;
use crate::concurrency::adaptive::fine_limit::FineLimit;
use crate::concurrency::adaptive::window::AdaptWindow;

/// Additive increase, multiplicative decrease: a limit by explicit overloads alone.
///
/// The limit grows by one permit for each window in which it was used, and twice as fast as before until the first overload (*slow start*:
/// it doubles). Overloads cut it by a tenth, or by half their share of the calls if that is more. A congestion is answered once: overloads of calls
/// that began before a cut do not cause another one.
///
/// It is for clients that share a service, where one client's limit hardly moves the latency. Report refusals of the service and
/// timeouts as [`CallOutcome::Overload`](crate::CallOutcome::Overload). Without such outcomes, the limit grows to its bound.
///
/// ```
/// use flowgate::{AdaptiveLimit, Aimd, CallOutcome};
///
/// let limit = AdaptiveLimit::new(Aimd::default());
/// let permit = limit.try_acquire()?;
/// permit.finish(CallOutcome::Overload);
/// # Ok::<(), flowgate::Denied>(())
/// ```
///
/// Source: D. Chiu, R. Jain, *Analysis of the increase and decrease algorithms for congestion avoidance in computer networks*, 1989.
/// One cut per congestion and slow start are those of TCP (RFC 5681, RFC 6582).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimd {
    initial: FineLimit,
    is_slow_start: bool,
}

impl Default for Aimd {
    /// Starts at 20 permits.
    fn default() -> Self {
        Self::starting_at(FineLimit::whole(20))
    }
}

impl Aimd {
    /// Creates the algorithm with this limit to start with.
    #[must_use]
    pub const fn starting_at(initial: FineLimit) -> Self {
        Self {
            initial,
            is_slow_start: true,
        }
    }
}

impl Adapt for Aimd {
    fn initial(&self) -> FineLimit {
        self.initial
    }

    fn on_window(&mut self, _: Timestamp, window: &AdaptWindow) -> FineLimit {
        if let Some(cut) = window.cut_for_overloads() {
            self.is_slow_start = false;
            return cut;
        }
        if window.successes == 0 || !window.is_used() {
            return window.limit;
        }
        match self.is_slow_start {
            true => window.limit.times(2, 1),
            // Below one permit: by as much as there is.
            false => window.limit.plus(window.limit.min(FineLimit::ONE).parts()),
        }
    }

    fn min_outcomes(&self, limit: FineLimit, usual: u64) -> u64 {
        match self.is_slow_start {
            true => start_outcomes(limit, usual),
            false => usual,
        }
    }

    fn report(&self) -> AdaptReport {
        AdaptReport::default()
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    fn window(limit: FineLimit) -> AdaptWindow {
        AdaptWindow::new(limit, 50_000_000, 100, 10_000_000)
    }

    fn next(aimd: &mut Aimd, window: &AdaptWindow) -> FineLimit {
        aimd.on_window(Timestamp::ORIGIN, window)
    }

    #[test]
    fn it_doubles_until_the_first_overload_and_then_grows_by_one() {
        let mut aimd = Aimd::default();
        let initial = aimd.initial();
        let limit = next(&mut aimd, &window(initial));
        assert_eq!(limit, FineLimit::whole(40));
        let overloaded = AdaptWindow {
            overloads: 10,
            ..window(limit)
        };
        let cut = next(&mut aimd, &overloaded);
        assert_eq!(cut, FineLimit::whole(36));
        assert_eq!(next(&mut aimd, &window(cut)), FineLimit::whole(37));
    }

    #[test]
    fn the_cut_is_half_the_share_of_overloads() {
        let with = |successes, overloads| AdaptWindow {
            successes,
            overloads,
            ..window(FineLimit::whole(100))
        };
        let cut = |successes, overloads| next(&mut Aimd::default(), &with(successes, overloads));
        assert_eq!(cut(99, 1).permits(), 90);
        assert_eq!(cut(60, 40).permits(), 80);
        assert_eq!(cut(0, 100).permits(), 50);
    }

    #[test]
    fn below_one_permit_it_doubles() {
        let mut aimd = Aimd {
            is_slow_start: false,
            ..Aimd::default()
        };
        let limit = FineLimit::one_in(8);
        assert_eq!(next(&mut aimd, &window(limit)), FineLimit::one_in(4));
    }

    #[test]
    fn a_window_without_outcomes_changes_nothing() {
        let quiet = AdaptWindow {
            successes: 0,
            ..window(FineLimit::whole(7))
        };
        assert_eq!(next(&mut Aimd::default(), &quiet), quiet.limit);
    }
}
