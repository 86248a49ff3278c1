//! A sliding window in which every request counts: refused ones, too. A client that retries while it is refused stays
//! refused.

use super::GRAIN;
use crate::evidence::{Evidence, Span};

/// What the responses imply for the length of such a window with a limit.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    /// Each admission: the longest window.
    at_most: Vec<f64>,
    /// Each refusal: the shortest window.
    at_least: Vec<f64>,
}

/// A refusal that counts, and others that start later.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstRefusal {
    /// When the first of them was decided. It has seen none of the others.
    pub(super) decided: Span,
    /// When this one was decided.
    pub(super) own: Span,
}

/// Returns the refusals in the order of their starts.
pub(super) fn first_refusals(evidence: &Evidence) -> Vec<FirstRefusal> {
    let mut refused = evidence.refused.clone();
    refused.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut to = f64::INFINITY;
    let backward = refused.into_iter().rev().map(|own| {
        to = to.min(own.to);
        let from = own.from;
        FirstRefusal {
            decided: Span { from, to },
            own,
        }
    });
    let mut firsts: Vec<FirstRefusal> = backward.collect();
    firsts.reverse();
    firsts
}

/// Times in ascending order.
#[derive(Clone, Debug, Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, at: f64) {
        let place = self.0.partition_point(|time| *time <= at);
        self.0.insert(place, at);
    }

    /// Returns the earliest of the last `n`, if there are as many.
    fn last(&self, n: usize) -> Option<f64> {
        self.0
            .len()
            .checked_sub(n)
            .and_then(|at| self.0.get(at))
            .copied()
    }
}

impl Counting {
    /// Collects the bounds for `limit`, at least 1.
    pub(crate) fn of(limit: usize, evidence: &Evidence) -> Self {
        let mut counted = Times::default();
        let mut refused = evidence.refused.iter().peekable();
        let at_most = evidence.surely.iter().map(|span| {
            while let Some(before) = refused.next_if(|before| before.to < span.from) {
                counted.add(before.from);
            }
            let oldest = counted.last(limit);
            counted.add(span.from);
            // The window does not hold the limit.
            oldest.map_or(f64::INFINITY, |oldest| span.to - oldest)
        });
        let at_most = at_most.collect();
        let mut counted = Times::default();
        let mut admitted = evidence.possibly.iter().peekable();
        let at_least = first_refusals(evidence);
        let at_least = at_least.into_iter().map(|FirstRefusal { decided, own }| {
            while let Some(span) = admitted.next_if(|span| span.from <= decided.to) {
                counted.add(span.to);
            }
            let oldest = counted.last(limit);
            counted.add(own.to);
            // It holds it.
            oldest.map_or(f64::INFINITY, |oldest| decided.from - oldest)
        });
        let at_least = at_least.collect();
        Self { at_most, at_least }
    }

    /// Counts the responses that cannot be right with this window.
    pub(crate) fn unexplained(&self, window: f64) -> u64 {
        let over = self.at_most.iter();
        let over = over.filter(|at_most| window > **at_most + GRAIN);
        let wasted = self.at_least.iter();
        let wasted = wasted.filter(|at_least| window + GRAIN <= **at_least);
        (over.count() + wasted.count()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Advertised, Observation, ProbeOutcome};

    fn seen(at_ns: u64, outcome: ProbeOutcome) -> Observation {
        Observation {
            sent_ns: at_ns,
            answered_ns: at_ns + 1,
            connection: 0,
            key: 0,
            outcome,
            advertised: Advertised::default(),
        }
    }

    #[test]
    fn a_refused_request_keeps_the_window_full() {
        use ProbeOutcome::{Admitted, Refused};
        let outcomes = |third, fourth| {
            let record = [
                seen(0, Admitted),
                seen(10, Admitted),
                seen(80, third),
                seen(150, fourth),
                seen(400, Admitted),
            ];
            Counting::of(2, &Evidence::of(&record)).unexplained(100.0)
        };
        assert_eq!(outcomes(Refused, Admitted), 0, "one in the window");
        assert_eq!(outcomes(Refused, Refused), 1, "only the one at 80");
        assert_eq!(outcomes(Admitted, Admitted), 1, "three in the window");
        let kept_full = [
            seen(0, Admitted),
            seen(10, Admitted),
            seen(80, Refused),
            seen(90, Refused),
            seen(150, Refused),
            seen(400, Admitted),
        ];
        let window = |window| Counting::of(2, &Evidence::of(&kept_full)).unexplained(window);
        assert_eq!(window(100.0), 0);
        assert!(window(65.0) > 0);
    }
}
