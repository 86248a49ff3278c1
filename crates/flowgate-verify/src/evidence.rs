use crate::clock::{Clock, SHORTEST_TICK};
use crate::quantile::median;
use crate::{Observation, ProbeOutcome};

/// When something happened: from, to, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Bounds on what the limiter decided, and when.
///
/// A limiter decides between request and response, and decides concurrent requests in any order. Admissions are
/// therefore kept twice:
///
/// - `surely` bounds the usage from below. It is in the order of the ends, and each start is the earliest start of
///   those that follow. Any n consecutive admissions certainly happened between the start of the first and the end of
///   the last.
/// - `possibly` bounds the usage from above. It is in the order of the starts, and each end is the latest end of those
///   before.
///
/// All times are readings of the limiter's clock.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    pub(crate) surely: Vec<Span>,
    pub(crate) possibly: Vec<Span>,
    /// In the order of their ends.
    pub(crate) refused: Vec<Span>,
    blur: f64,
    clock: Clock,
}

impl Evidence {
    /// Collects the responses by an exact clock.
    pub(crate) fn of<'a>(seen: impl IntoIterator<Item = &'a Observation>) -> Self {
        Self::on(Clock::EXACT, seen)
    }

    /// Collects the responses by `clock`. A failure may have used a token, so it counts as possible.
    pub(crate) fn on<'a>(clock: Clock, seen: impl IntoIterator<Item = &'a Observation>) -> Self {
        let mut evidence = Self {
            surely: Vec::new(),
            possibly: Vec::new(),
            refused: Vec::new(),
            blur: 0.0,
            clock,
        };
        let mut took = [Vec::new(), Vec::new()];
        for one in seen {
            let (from, to) = (one.sent_ns as f64, one.answered_ns as f64);
            let span = Span {
                from: clock.earliest(from),
                to: clock.latest(to),
            };
            match one.outcome {
                ProbeOutcome::Admitted => {
                    took[0].push(to - from);
                    evidence.surely.push(span);
                    evidence.possibly.push(span);
                }
                ProbeOutcome::Refused => {
                    took[1].push(to - from);
                    evidence.refused.push(span);
                }
                ProbeOutcome::Failed => evidence.possibly.push(span),
            }
        }
        evidence.blur = took
            .map(|mut took| median(&mut took))
            .into_iter()
            .fold(0.0, f64::max);
        evidence.surely.sort_by(|a, b| a.to.total_cmp(&b.to));
        let mut earliest = f64::INFINITY;
        for span in evidence.surely.iter_mut().rev() {
            earliest = earliest.min(span.from);
            span.from = earliest;
        }
        evidence.possibly.sort_by(|a, b| a.from.total_cmp(&b.from));
        let mut latest = f64::NEG_INFINITY;
        for span in &mut evidence.possibly {
            latest = latest.max(span.to);
            span.to = latest;
        }
        evidence.refused.sort_by(|a, b| a.to.total_cmp(&b.to));
        evidence
    }

    /// Returns the same for a limiter whose clock may have whole milliseconds: it reads each time up to one earlier.
    pub(crate) fn in_whole_milliseconds(&self) -> Self {
        let mut vague = self.clone();
        let spans = [&mut vague.surely, &mut vague.possibly, &mut vague.refused];
        for span in spans.into_iter().flatten() {
            span.from -= SHORTEST_TICK;
        }
        vague
    }

    pub(crate) fn began(&self) -> f64 {
        self.possibly.first().map_or(0.0, |span| span.from)
    }

    pub(crate) fn ended(&self) -> f64 {
        let last = [self.possibly.last(), self.refused.last()];
        last.into_iter()
            .flatten()
            .map(|span| span.to)
            .fold(self.began(), f64::max)
    }

    /// Returns the median response time of refusals or of admissions, whichever is longer, in nanoseconds.
    pub(crate) fn blur(&self) -> f64 {
        self.blur
    }

    /// Returns the limiter's clock.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the number of conclusive responses.
    pub(crate) fn len(&self) -> u64 {
        (self.surely.len() + self.refused.len()) as u64
    }

    /// Passes to `each`, for each refusal in order, whether it can be right. `note` receives the possible admissions in
    /// order, and `explains` decides about a later refusal.
    pub(crate) fn judge_refusals<M>(
        &self,
        model: &mut M,
        note: impl Fn(&mut M, Span),
        explains: impl Fn(&M, Span) -> bool,
        mut each: impl FnMut(bool),
    ) {
        let mut admitted = self.possibly.iter().peekable();
        for refused in &self.refused {
            while let Some(span) = admitted.next_if(|span| span.from <= refused.to) {
                note(model, *span);
            }
            each(explains(model, *refused));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;

    fn admitted(sent_ns: u64, answered_ns: u64) -> Observation {
        Observation {
            sent_ns,
            answered_ns,
            connection: 0,
            key: 0,
            outcome: ProbeOutcome::Admitted,
            advertised: Advertised::default(),
        }
    }

    #[test]
    fn any_consecutive_ones_fell_between_the_ends_that_are_kept() {
        let seen = [admitted(10, 40), admitted(20, 30), admitted(0, 50)];
        let evidence = Evidence::of(&seen);
        let surely: Vec<_> = evidence.surely.iter().map(|s| (s.from, s.to)).collect();
        assert_eq!(surely, [(0.0, 30.0), (0.0, 40.0), (0.0, 50.0)]);
        let possibly: Vec<_> = evidence.possibly.iter().map(|s| (s.from, s.to)).collect();
        assert_eq!(possibly, [(0.0, 50.0), (10.0, 50.0), (20.0, 50.0)]);
    }
}
