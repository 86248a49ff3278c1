//! The detected algorithm, given how many responses are consistent with each.

use crate::advertised::Told;
use crate::clock::Clock;
use crate::conclusion::FAILURES;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, count};
use crate::models::Together;
use crate::second::TwoFits;
use crate::unexplained_group::is_grouped;
use crate::{Alignment, DetectedAlgorithm, DetectedKind, DetectedLimit, Observation, ProbeOutcome};

/// An algorithm with more inconsistent responses than the best, beyond this number and share, is ruled out.
const MARGIN: u64 = 2;
const MARGIN_SHARE: f64 = 0.005;

/// With a larger share of inconsistent responses than this, the algorithm is unknown.
const MOST_UNEXPLAINED: f64 = 0.01;

/// With up to this many responses, windows on the clock can be fitted to anything. A window is then detected only if
/// all responses, and more than `FEWEST`, are consistent with it.
const FEW: u64 = 300;
const FEWEST: u64 = 100;

/// A limiter that refused none of fewer requests may have a limit.
const FEWEST_FREE: u64 = 250;

/// One refusal in this many may have had fewer concurrent requests than all others.
const OUTLIERS: usize = 50;

/// Returns the fits that are about as good as the best one. `found` has the best first.
pub(crate) fn contenders(found: &[Fit]) -> &[Fit] {
    let Some(best) = found.first() else {
        return found;
    };
    let margin = MARGIN.max((best.of as f64 * MARGIN_SHARE) as u64);
    let are_left = |fit: &Fit| fit.unexplained <= best.unexplained + margin;
    let left = found.iter().take_while(|fit| are_left(fit)).count();
    &found[..left]
}

/// Returns that nothing is known.
pub(crate) fn unknown(record: &[Observation]) -> DetectedAlgorithm {
    DetectedAlgorithm {
        kind: DetectedKind::Unknown,
        alternatives: Vec::new(),
        rate: None,
        burst: None,
        window: None,
        clock_tick: None,
        limits: Vec::new(),
        delays: None,
        block: None,
        consistent: 0,
        answers: record.len() as u64 - count(record, ProbeOutcome::Failed),
    }
}

/// Returns the algorithm that is consistent with all responses, read with `clock`.
pub(crate) fn detect(found: &[Fit], clock: Clock, inquiry: &Inquiry<'_>) -> DetectedAlgorithm {
    let record = inquiry.record();
    let none = unknown(record);
    let Some(best) = found.first() else {
        // Failures may be refusals.
        let few = count(record, ProbeOutcome::Failed) as f64 <= FAILURES * record.len() as f64;
        let is_told_of_more = Told::of(record).is_some_and(|told| told.limit > none.answers);
        let is_free = few
            && count(record, ProbeOutcome::Refused) == 0
            && none.answers >= FEWEST_FREE
            && !is_told_of_more;
        let kind = if is_free {
            DetectedKind::Unlimited
        } else {
            DetectedKind::Unknown
        };
        let consistent = if is_free { none.answers } else { 0 };
        return DetectedAlgorithm {
            kind,
            consistent,
            ..none
        };
    };
    if best.kind() != DetectedKind::LeakyQueue && may_limit_what_is_under_way(record) {
        let consistent = none.answers;
        return DetectedAlgorithm { consistent, ..none };
    }
    let most = MARGIN.max((best.of as f64 * MOST_UNEXPLAINED) as u64);
    let is_explained = if clock.tick().is_some() {
        best.explains_all()
    } else if best.kind().is_on_clock() && best.of <= FEW {
        best.unexplained == 0 && best.of > FEWEST
    } else {
        best.unexplained <= most
    };
    let is_explained = is_explained && !is_grouped(best, clock, record, inquiry.ends());
    let left = contenders(found).iter().skip(1).map(Fit::kind);
    DetectedAlgorithm {
        kind: if is_explained {
            best.kind()
        } else {
            DetectedKind::Unknown
        },
        alternatives: if is_explained {
            left.collect()
        } else {
            vec![best.kind()]
        },
        rate: Some(best.rate),
        burst: Some(best.burst),
        window: best.window,
        clock_tick: clock.tick().map(|tick| tick / 1e9),
        limits: Vec::new(),
        delays: None,
        block: None,
        consistent: best.of - best.unexplained,
        answers: best.of,
    }
}

/// Returns two limits, or a window with its pool, as an algorithm.
pub(crate) fn both(two: &TwoFits) -> DetectedAlgorithm {
    let limit = |fits: &Vec<Fit>, counts_refused: bool| {
        let (best, others) = fits.split_first()?;
        Some(DetectedLimit {
            kind: best.kind(),
            alternatives: others.iter().map(Fit::kind).collect(),
            rate: best.rate.or_any(fits.iter().map(|fit| fit.rate)),
            burst: best.burst.or_any(fits.iter().map(|fit| fit.burst)),
            window: best
                .window
                .map(|window| window.or_any(fits.iter().filter_map(|fit| fit.window))),
            counts_refused,
        })
    };
    let counts_refused = two.together == Some(Together::CountRefused);
    DetectedAlgorithm {
        kind: two.together.map_or(DetectedKind::TwoLimits, Together::kind),
        alternatives: Vec::new(),
        rate: None,
        burst: None,
        window: None,
        clock_tick: None,
        limits: [(&two.fast, false), (&two.slow, counts_refused)]
            .into_iter()
            .filter_map(|(fits, counts_refused)| limit(fits, counts_refused))
            .collect(),
        delays: None,
        block: None,
        consistent: two.of - two.unexplained.min(two.of),
        answers: two.of,
    }
}

impl DetectedKind {
    /// Returns whether windows begin at times that requests do not determine.
    pub(crate) fn is_on_clock(self) -> bool {
        matches!(
            self,
            Self::FixedWindow(Alignment::Clock) | Self::SegmentedWindow(_) | Self::SlidingCounter
        )
    }

    /// Returns whether [`DetectedAlgorithm::limits`] has the numbers.
    pub(crate) fn is_of_two(self) -> bool {
        matches!(self, Self::TwoLimits | Self::BurstPool)
    }

    /// Returns whether both differ only in a number.
    pub(crate) fn is_of_a_sort_with(self, other: Self) -> bool {
        let are_segmented = |kind| matches!(kind, Self::SegmentedWindow(_));
        self == other || (are_segmented(self) && are_segmented(other))
    }
}

/// Returns whether the limiter may only limit concurrency. That is so if no refusal occurred with few requests in
/// flight, and there were never many more in flight. When a request starts and stops to count is unknown.
fn may_limit_what_is_under_way(record: &[Observation]) -> bool {
    let admitted = || {
        let all = record.iter();
        all.filter(|seen| seen.outcome == ProbeOutcome::Admitted)
    };
    let mut sent: Vec<u64> = admitted().map(|seen| seen.sent_ns).collect();
    let mut answered: Vec<u64> = admitted().map(|seen| seen.answered_ns).collect();
    sent.sort_unstable();
    answered.sort_unstable();
    let under_way = |from_ns: u64, to_ns: u64| {
        // An instant counts as having a length of 1 ns.
        let begun = sent.partition_point(|sent| *sent < to_ns.max(from_ns + 1));
        begun - answered.partition_point(|answered| *answered <= from_ns)
    };
    let refused = record.iter();
    let refused = refused.filter(|seen| seen.outcome == ProbeOutcome::Refused);
    let mut beside: Vec<usize> = refused
        .map(|seen| under_way(seen.sent_ns, seen.answered_ns))
        .collect();
    beside.sort_unstable();
    let few = beside.get(beside.len() / OUTLIERS).copied().unwrap_or(0);
    let most = sent.iter().map(|at| under_way(*at, *at)).max();
    few > 0 && most.is_some_and(|most| most <= 2 * few)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;

    fn seen(sent_ns: u64, answered_ns: u64, outcome: ProbeOutcome) -> Observation {
        Observation {
            sent_ns,
            answered_ns,
            connection: 0,
            key: 0,
            outcome,
            advertised: Advertised::default(),
        }
    }

    /// `admitted` concurrent requests, each in flight for 20 ns, and a refusal 5 ns later.
    fn batch(at_ns: u64, admitted: usize) -> Vec<Observation> {
        let mut batch = vec![seen(at_ns, at_ns + 20, ProbeOutcome::Admitted); admitted];
        batch.push(seen(at_ns + 5, at_ns + 6, ProbeOutcome::Refused));
        batch
    }

    #[test]
    fn a_limit_of_how_many_are_under_way_is_not_taken_for_a_rate() {
        let same = [batch(0, 10), batch(30, 10), batch(50, 9)].concat();
        assert!(may_limit_what_is_under_way(&same));
        let fewer = [batch(0, 10), batch(30, 2)].concat();
        assert!(!may_limit_what_is_under_way(&fewer), "refused beside two");
        let alone = [batch(0, 1), vec![seen(20, 21, ProbeOutcome::Refused)]].concat();
        assert!(!may_limit_what_is_under_way(&alone));
        let no_time = [
            seen(7, 7, ProbeOutcome::Admitted),
            seen(7, 7, ProbeOutcome::Refused),
        ];
        assert!(!may_limit_what_is_under_way(&no_time), "beside none");
    }
}
