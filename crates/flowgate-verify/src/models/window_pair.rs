//! Two fixed windows that decide together, and count more than what both admit.
//!
//! Which window a request opens is uncertain near the end of one. All states that explain the responses so far are kept.

use std::cell::Cell;
use std::cmp::Ordering;

use super::{GRAIN, OnRequest};
use crate::clock::{Clock, SHORTEST_TICK};
use crate::evidence::Span;
use crate::{DetectedKind, Observation, ProbeOutcome};

/// Maximum number of states that are kept.
const STATES: usize = 128;

/// Maximum number of states from which an explanation goes on after an unexplained response.
const RESUMED: usize = 8;

/// How the windows decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// A request is admitted if both admit it. It counts in both, also if it is refused.
    CountRefused,
    /// What the first window refuses, the second one may admit.
    Overflow,
}

impl Together {
    /// Returns what it is called.
    pub(crate) fn kind(self) -> DetectedKind {
        match self {
            Self::CountRefused => DetectedKind::TwoLimits,
            Self::Overflow => DetectedKind::BurstPool,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WindowPair {
    pub(crate) first: OnRequest,
    pub(crate) second: OnRequest,
    pub(crate) together: Together,
}

/// A response, at a time when it may have been decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    span: Span,
    is_admitted: bool,
}

/// Returns the conclusive responses in an order in which they may have been decided. The limiter's clock may have whole
/// milliseconds.
pub(crate) fn decided(clock: Clock, record: &[Observation]) -> Vec<Decided> {
    let conclusive = |seen: &&Observation| seen.outcome != ProbeOutcome::Failed;
    let decided = record.iter().filter(conclusive).map(|seen| Decided {
        span: Span {
            from: clock.earliest(seen.sent_ns as f64) - SHORTEST_TICK,
            to: clock.latest(seen.answered_ns as f64),
        },
        is_admitted: seen.outcome == ProbeOutcome::Admitted,
    });
    let mut decided: Vec<Decided> = decided.collect();
    // Of concurrent requests, those that were admitted came first.
    let at = |decided: &Decided| match decided.is_admitted {
        true => decided.span.from,
        false => decided.span.to,
    };
    decided.sort_by(|a, b| at(a).total_cmp(&at(b)));
    decided
}

/// A window that began at some time in a span, and the number of requests that it counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Open {
    began: Span,
    count: f64,
}

/// Returns the windows that may count a request: the one that is open, a new one, or either. None of them counts it yet.
fn windows_at(open: Option<Open>, length: f64, span: Span) -> impl Iterator<Item = Open> {
    let began_anew = Open {
        began: span,
        count: 0.0,
    };
    let same = open.filter(|open| span.from < open.began.to + length + GRAIN);
    let same = same.map(|open| Open {
        began: Span {
            from: open.began.from.max(span.from - length),
            ..open.began
        },
        ..open
    });
    let has_ended = open.is_none_or(|open| span.to >= open.began.from + length - GRAIN);
    same.into_iter().chain(has_ended.then_some(began_anew))
}

impl WindowPair {
    /// Returns the same with another length of the first window.
    pub(crate) fn with_first(self, window: f64) -> Self {
        let first = OnRequest {
            window,
            ..self.first
        };
        Self { first, ..self }
    }

    /// Returns the same with another length of the second window.
    pub(crate) fn with_second(self, window: f64) -> Self {
        let second = OnRequest {
            window,
            ..self.second
        };
        Self { second, ..self }
    }

    /// Counts the responses that cannot be right, up to one more than `most`. Takes the number of its steps from `steps_left`; if none
    /// is left, the result is one more than `most`.
    pub(crate) fn unexplained(
        &self,
        decided: &[Decided],
        most: u64,
        steps_left: &Cell<u64>,
    ) -> u64 {
        let mut states: Vec<State> = vec![[None, None]];
        let mut next = Vec::new();
        let mut unexplained = 0;
        for one in decided {
            let left = steps_left.get().saturating_sub(states.len() as u64);
            steps_left.set(left);
            if left == 0 {
                return most.saturating_add(1);
            }
            next.clear();
            for state in &states {
                self.step(*state, one, |state| next.push(state));
            }
            keep_some(&mut next);
            if next.is_empty() {
                if states.iter().any(|state| may_come_from_before(state, one)) {
                    continue;
                }
                unexplained += 1;
                if unexplained > most {
                    break;
                }
                let few = states.iter().take(RESUMED);
                next.extend(few.flat_map(|state| resumed(*state, one)));
                keep_some(&mut next);
            }
            std::mem::swap(&mut states, &mut next);
        }
        unexplained
    }

    /// Passes to `each` the states that may follow `state` if the limiter decided `one`.
    fn step(&self, state: State, one: &Decided, mut each: impl FnMut(State)) {
        // A full window stays full.
        let counted = |open: Open, of: OnRequest| Open {
            count: (open.count + 1.0).min(of.limit),
            ..open
        };
        let [first, second] = state;
        for first in windows_at(first, self.first.window, one.span) {
            let first_admits = first.count < self.first.limit;
            let first = counted(first, self.first);
            if self.together == Together::Overflow && first_admits {
                if one.is_admitted {
                    each([Some(first), second]);
                }
                continue;
            }
            for second in windows_at(second, self.second.window, one.span) {
                let second_admits = second.count < self.second.limit;
                let admits = match self.together {
                    Together::CountRefused => first_admits && second_admits,
                    Together::Overflow => second_admits,
                };
                if admits == one.is_admitted {
                    each([Some(first), Some(counted(second, self.second))]);
                }
            }
        }
    }
}

/// The open window of each of the two.
type State = [Option<Open>; 2];

/// Keeps one of those that differ only in the earliest time at which a window began, with the earliest; and no more than a number that
/// suffices.
fn keep_some(states: &mut Vec<State>) {
    if states.len() < 2 {
        return;
    }
    let key = |state: &State| {
        state.map(|open| open.map_or((0.0, 0.0), |open| (open.began.to, open.count)))
    };
    states.sort_unstable_by(|a, b| {
        let pairs = key(a).into_iter().zip(key(b));
        let mut orders = pairs.map(|(a, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    states.dedup_by(|next, kept| {
        let is_same = key(next) == key(kept);
        if is_same {
            for (kept, next) in kept
                .iter_mut()
                .zip(next)
                .filter_map(|(a, b)| a.as_mut().zip(b.as_ref()))
            {
                kept.began.from = kept.began.from.min(next.began.from);
            }
        }
        is_same
    });
    states.truncate(STATES);
}

/// Returns whether this is a refusal of a request that was in flight when a window began: the window before may have refused it.
fn may_come_from_before(state: &State, one: &Decided) -> bool {
    let mut open = state.iter().flatten();
    !one.is_admitted && open.any(|open| one.span.from <= open.began.to)
}

/// Returns the states with which an explanation may go on after a response without one: windows may have begun unnoticed.
fn resumed(state: State, one: &Decided) -> impl Iterator<Item = State> {
    let anew = Open {
        began: one.span,
        count: 1.0,
    };
    let [first, second] = state;
    [
        state,
        [Some(anew), second],
        [first, Some(anew)],
        [Some(anew), Some(anew)],
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;

    const MS: u64 = 1_000_000;

    fn unexplained(pair: WindowPair, all: &[(u64, bool)]) -> u64 {
        pair.unexplained(&seen(all), 9, &Cell::new(1_000))
    }

    /// Responses at these milliseconds, 0.1 ms after the requests: whether each was admitted.
    fn seen(all: &[(u64, bool)]) -> Vec<Decided> {
        let record = all.iter().map(|(at_ms, is_admitted)| Observation {
            sent_ns: at_ms * MS,
            answered_ns: at_ms * MS + MS / 10,
            connection: 0,
            key: 0,
            outcome: match is_admitted {
                true => ProbeOutcome::Admitted,
                false => ProbeOutcome::Refused,
            },
            advertised: Advertised::default(),
        });
        decided(Clock::EXACT, &record.collect::<Vec<_>>())
    }

    /// A window of 2 in 100 ms, and another one in `length_ms`.
    fn pair(together: Together, limit: u64, length_ms: u64) -> WindowPair {
        let window = |limit: u64, length_ms: u64| OnRequest {
            limit: limit as f64,
            window: (length_ms * MS) as f64,
        };
        WindowPair {
            first: window(2, 100),
            second: window(limit, length_ms),
            together,
        }
    }

    #[test]
    fn a_pool_admits_what_the_window_refuses() {
        let used_up = [(0, true), (10, true), (20, true), (30, false)];
        let again = [(110, true), (120, true), (130, false)];
        let later = [(400, true), (410, true), (420, true)];
        let all = [&used_up[..], &again, &later].concat();
        let pool = pair(Together::Overflow, 1, 300);
        assert_eq!(unexplained(pool, &all), 0);
        let longer = pair(Together::Overflow, 1, 500);
        assert_eq!(unexplained(longer, &all), 1, "it is used up at 420 ms");
        let larger = pair(Together::Overflow, 2, 300);
        assert!(unexplained(larger, &all) > 0, "it has one left at 30 ms");
    }

    #[test]
    fn a_refused_request_counts_in_both_windows() {
        let used_up = [(0, true), (10, true), (20, false), (30, false)];
        let again = [(110, true), (120, false), (220, false)];
        let later = [(1_010, true)];
        let all = [&used_up[..], &again, &later].concat();
        let counting = pair(Together::CountRefused, 5, 1_000);
        assert_eq!(unexplained(counting, &all), 0);
        let larger = pair(Together::CountRefused, 6, 1_000);
        assert!(unexplained(larger, &all) > 0, "room for the one at 120 ms");
    }

    #[test]
    fn near_the_end_of_a_window_it_may_have_ended_or_not() {
        // The one at 100 ms is the first of a window until 200 ms; or it is from the pool, and the window is from 150 to 250 ms.
        let start = [(0, true), (10, true), (100, true), (150, true), (160, true)];
        let pool = pair(Together::Overflow, 1, 1_000);
        for is_admitted in [true, false] {
            let all = [&start[..], &[(205, is_admitted)]].concat();
            assert_eq!(unexplained(pool, &all), 0, "{is_admitted}");
        }
        let both = [&start[..], &[(205, true), (210, true), (240, true)]].concat();
        assert_eq!(unexplained(pool, &both), 1, "nothing is left at 240 ms");
    }

    #[test]
    fn with_no_steps_left_nothing_is_explained() {
        let used_up = [(0, true), (10, true), (20, true), (30, false)];
        let pool = pair(Together::Overflow, 1, 300);
        let steps_left = Cell::new(5);
        assert_eq!(pool.unexplained(&seen(&used_up), 9, &steps_left), 0);
        assert_eq!(steps_left.get(), 1, "one for each response");
        assert_eq!(pool.unexplained(&seen(&used_up), 9, &steps_left), 10);
    }
}
