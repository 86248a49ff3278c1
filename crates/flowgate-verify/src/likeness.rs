//! What it looks like, given how much each kind explains.

use crate::clock::Clock;
use crate::conclusion::FAILURES;
use crate::crowd::is_crowded;
use crate::fit::Fit;
use crate::inquiry::{Inquiry, count};
use crate::{Alignment, Kind, Likeness, Observation, Outcome, Subject};

/// A kind that leaves this much more unexplained than the best is out: so many answers, and so large a part of all.
const MARGIN: u64 = 2;
const MARGIN_SHARE: f64 = 0.005;

/// More than this part unexplained is no explanation.
const MOST_UNEXPLAINED: f64 = 0.01;

/// Windows on a clock of their own can be fitted to so few answers that only a window to which all of more than the fewest fit
/// is taken for one.
const FEW: u64 = 300;
const FEWEST: u64 = 100;

/// Of so many refusals one may have been beside fewer than all others.
const OUTLIERS: usize = 50;

/// Those that explain about as much as the best. `found` has the best first.
pub(crate) fn contenders(found: &[Fit]) -> &[Fit] {
    let Some(best) = found.first() else {
        return found;
    };
    let margin = MARGIN.max((best.of as f64 * MARGIN_SHARE) as u64);
    let are_left = |fit: &Fit| fit.unexplained <= best.unexplained + margin;
    let left = found.iter().take_while(|fit| are_left(fit)).count();
    &found[..left]
}

/// What all answers together look like, to one who reads `clock`.
pub(crate) fn likeness<S: Subject>(
    found: &[Fit],
    clock: Clock,
    inquiry: &Inquiry<'_, S>,
) -> Likeness {
    let record = inquiry.record();
    let none = Likeness {
        kind: Kind::Unknown,
        or: Vec::new(),
        rate: None,
        burst: None,
        window: None,
        clock_tick: None,
        explained: 0,
        of: record.len() as u64 - count(record, Outcome::Failed),
    };
    let Some(best) = found.first() else {
        // What fails may be what refuses.
        let few = count(record, Outcome::Failed) as f64 <= FAILURES * record.len() as f64;
        let is_free = few && count(record, Outcome::Refused) == 0 && none.of > 0;
        let kind = if is_free {
            Kind::Unlimited
        } else {
            Kind::Unknown
        };
        let explained = if is_free { none.of } else { 0 };
        return Likeness {
            kind,
            explained,
            ..none
        };
    };
    if best.kind() != Kind::LeakyQueue && may_limit_what_is_under_way(record) {
        let explained = none.of;
        return Likeness { explained, ..none };
    }
    let most = MARGIN.max((best.of as f64 * MOST_UNEXPLAINED) as u64);
    let is_explained = if clock.tick().is_some() {
        best.explains_all()
    } else if best.kind().is_on_clock() && best.of <= FEW {
        best.unexplained == 0 && best.of > FEWEST
    } else {
        best.unexplained <= most
    };
    let is_explained = is_explained && !is_crowded(best, clock, record, inquiry.ends());
    let left = contenders(found).iter().skip(1).map(Fit::kind);
    Likeness {
        kind: if is_explained {
            best.kind()
        } else {
            Kind::Unknown
        },
        or: if is_explained {
            left.collect()
        } else {
            vec![best.kind()]
        },
        rate: Some(best.rate),
        burst: Some(best.burst),
        window: best.window,
        clock_tick: clock.tick().map(|tick| tick / 1e9),
        explained: best.of - best.unexplained,
        of: best.of,
    }
}

impl Kind {
    /// Whether windows begin at times that nobody sees.
    pub(crate) fn is_on_clock(self) -> bool {
        matches!(
            self,
            Self::FixedWindow(Alignment::Clock) | Self::SegmentedWindow(_) | Self::SlidingCounter
        )
    }

    /// Whether they differ in no more than a number.
    pub(crate) fn is_of_a_sort_with(self, other: Self) -> bool {
        let are_segmented = |kind| matches!(kind, Self::SegmentedWindow(_));
        self == other || (are_segmented(self) && are_segmented(other))
    }
}

/// Whether it may be that nothing else is limited than how many are under way: none was refused beside few, and there never
/// were many more. When those on their way to the limiter and back begin and end to count is not known.
fn may_limit_what_is_under_way(record: &[Observation]) -> bool {
    let admitted = || {
        let all = record.iter();
        all.filter(|seen| seen.outcome == Outcome::Admitted)
    };
    let mut sent: Vec<u64> = admitted().map(|seen| seen.sent_ns).collect();
    let mut answered: Vec<u64> = admitted().map(|seen| seen.answered_ns).collect();
    sent.sort_unstable();
    answered.sort_unstable();
    let under_way = |from_ns: u64, to_ns: u64| {
        // An instant, too, is as long as those that begin and end at it.
        let begun = sent.partition_point(|sent| *sent < to_ns.max(from_ns + 1));
        begun - answered.partition_point(|answered| *answered <= from_ns)
    };
    let refused = record.iter();
    let refused = refused.filter(|seen| seen.outcome == Outcome::Refused);
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
    use crate::Told;

    fn seen(sent_ns: u64, answered_ns: u64, outcome: Outcome) -> Observation {
        Observation {
            sent_ns,
            answered_ns,
            lane: 0,
            key: 0,
            outcome,
            told: Told::default(),
        }
    }

    /// So many at once, from then on, each under way for 20; and a refusal 5 later.
    fn volley(at_ns: u64, admitted: usize) -> Vec<Observation> {
        let mut volley = vec![seen(at_ns, at_ns + 20, Outcome::Admitted); admitted];
        volley.push(seen(at_ns + 5, at_ns + 6, Outcome::Refused));
        volley
    }

    #[test]
    fn a_limit_of_how_many_are_under_way_is_not_taken_for_a_rate() {
        let same = [volley(0, 10), volley(30, 10), volley(50, 9)].concat();
        assert!(may_limit_what_is_under_way(&same));
        let fewer = [volley(0, 10), volley(30, 2)].concat();
        assert!(!may_limit_what_is_under_way(&fewer), "refused beside two");
        let alone = [volley(0, 1), vec![seen(20, 21, Outcome::Refused)]].concat();
        assert!(!may_limit_what_is_under_way(&alone));
        let no_time = [seen(7, 7, Outcome::Admitted), seen(7, 7, Outcome::Refused)];
        assert!(!may_limit_what_is_under_way(&no_time), "beside none");
    }
}
