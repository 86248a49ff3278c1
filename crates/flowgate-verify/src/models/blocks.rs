//! A limiter that admits nothing for a time once its limit is used up.

use crate::clock::SHORTEST_TICK;
use crate::evidence::Span;
use crate::{Observation, ProbeOutcome};

/// What the length of a block may be counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// A window that begins with its first request: no block.
    FirstAdmission,
    LastAdmission,
    FirstRefusal,
    LastRefusal,
}

impl Since {
    pub(crate) const ALL: [Self; 4] = [
        Self::FirstAdmission,
        Self::LastAdmission,
        Self::FirstRefusal,
        Self::LastRefusal,
    ];
}

/// Admissions, the refusals after them, and the first admission after those.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// In the order of sending, at least one.
    admitted: Vec<Span>,
    /// The same. Empty if none was refused yet.
    refused: Vec<Span>,
    back: Option<Span>,
}

/// Returns the blocks of a record in order. The last one may not have ended, or not have begun.
pub(crate) fn blocks(record: &[Observation]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut sorted: Vec<&Observation> = record.iter().collect();
    sorted.sort_by_key(|seen| seen.sent_ns);
    for seen in sorted {
        let span = Span {
            from: seen.sent_ns as f64,
            to: seen.answered_ns as f64,
        };
        match (seen.outcome, blocks.last_mut()) {
            (ProbeOutcome::Admitted, last) => {
                // An admission beside the first refusals may have come before them.
                let current = last.filter(|block| {
                    let refused = block.refused.iter().map(|refused| refused.to);
                    refused.fold(f64::INFINITY, f64::min) > span.from
                });
                if let Some(block) = current {
                    block.admitted.push(span);
                    continue;
                }
                if let Some(last) = blocks.last_mut() {
                    last.back = Some(span);
                }
                blocks.push(Block {
                    admitted: vec![span],
                    refused: Vec::new(),
                    back: None,
                });
            }
            (ProbeOutcome::Refused, Some(block)) => block.refused.push(span),
            _ => {}
        }
    }
    blocks
}

fn earliest(spans: &[Span]) -> Option<Span> {
    let bounds = spans.iter().copied();
    bounds.reduce(|a, b| Span {
        from: a.from.min(b.from),
        to: a.to.min(b.to),
    })
}

fn latest(spans: impl Iterator<Item = Span>) -> Option<Span> {
    spans.reduce(|a, b| Span {
        from: a.from.max(b.from),
        to: a.to.max(b.to),
    })
}

impl Block {
    /// Returns when the first of its requests was sent.
    pub(crate) fn began(&self) -> f64 {
        self.admitted.first().map_or(0.0, |first| first.from)
    }

    /// Returns the number of requests that were admitted before.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.len() as u64
    }

    /// Returns whether a request was refused.
    pub(crate) fn has_begun(&self) -> bool {
        !self.refused.is_empty()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.back.is_some()
    }

    /// Returns the time from which the length counts, as far as it is known. `limit` requests are admitted in a window.
    pub(crate) fn start(&self, since: Since, limit: u64) -> Option<Span> {
        match since {
            // With more admissions, there were several windows.
            Since::FirstAdmission if self.admitted() > limit => None,
            Since::FirstAdmission => earliest(&self.admitted),
            Since::LastAdmission => latest(self.admitted.iter().copied()),
            Since::FirstRefusal => earliest(&self.refused),
            Since::LastRefusal => {
                let until = self.back.map_or(f64::INFINITY, |back| back.from);
                latest(self.refused.iter().copied().filter(|span| span.to <= until))
            }
        }
    }

    /// Returns the bounds of the length that the responses allow.
    pub(crate) fn bounds(&self, since: Since, limit: u64) -> (f64, f64) {
        let (mut least, mut most) = (0_f64, f64::INFINITY);
        if since == Since::FirstAdmission && self.admitted() > limit {
            // The one after the limit is in another window.
            let next = self.admitted[limit as usize];
            return (0.0, next.to - self.admitted[0].from + SHORTEST_TICK);
        }
        if since == Since::LastRefusal {
            let mut before = f64::INFINITY;
            for refused in &self.refused {
                least = least.max(refused.from - before);
                before = match before.is_finite() {
                    true => before.max(refused.to),
                    false => refused.to,
                };
            }
        } else if let Some(start) = self.start(since, limit) {
            let last = self.refused.iter().map(|refused| refused.from);
            least = least.max(last.fold(0.0, f64::max) - start.to);
        }
        if let (Some(back), Some(start)) = (self.back, self.start(since, limit)) {
            most = back.to - start.from;
        }
        (least - SHORTEST_TICK, most + SHORTEST_TICK)
    }

    /// Returns how long the limit certainly holds from the first admission on, if only `limit` requests were admitted.
    pub(crate) fn holds_for(&self, limit: u64) -> f64 {
        let first = self.admitted.first().map_or(0.0, |first| first.to);
        match self.refused.first() {
            Some(refused) if self.admitted() == limit => refused.from - first,
            _ => 0.0,
        }
    }

    /// Returns the longest time for which the limit may hold from the first admission on, if more was admitted.
    pub(crate) fn held_at_most(&self, limit: u64) -> f64 {
        match self.admitted.get(limit as usize) {
            Some(next) => next.to - self.admitted[0].from,
            None => f64::INFINITY,
        }
    }

    /// Returns how long certainly passed from the first admission to the last, and from the last one to the first refusal.
    pub(crate) fn pauses(&self) -> [f64; 2] {
        let last = latest(self.admitted.iter().copied());
        let ends = [
            self.admitted.first().copied(),
            last,
            earliest(&self.refused),
        ];
        [(ends[0], ends[1]), (ends[1], ends[2])].map(|ends| match ends {
            (Some(before), Some(after)) => after.from - before.to,
            _ => 0.0,
        })
    }

    /// Returns the time from the first refusal to the second one, or else to the next admission.
    pub(crate) fn silence(&self) -> f64 {
        let next = self.refused.get(1).or(self.back.as_ref());
        match (self.refused.first(), next) {
            (Some(first), Some(next)) => next.from - first.to,
            _ => 0.0,
        }
    }

    /// Returns the number of refusals.
    pub(crate) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Returns whether more was certainly admitted than `limit` in any window of the length `window` that begins with a
    /// request.
    pub(crate) fn is_over(&self, limit: u64, window: f64) -> bool {
        let limit = limit as usize;
        let is_within = |first: &Span, last: &Span| last.to - first.from < window - SHORTEST_TICK;
        let beyond_first = self.admitted.get(limit);
        let in_two = self
            .admitted
            .iter()
            .zip(self.admitted.iter().skip(2 * limit));
        beyond_first.is_some_and(|last| is_within(&self.admitted[0], last))
            || in_two
                .into_iter()
                .any(|(first, last)| is_within(first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;
    use crate::ProbeOutcome::{Admitted, Refused};

    const MS: u64 = 1_000_000;

    /// A request at a time in milliseconds that is decided within one.
    fn seen(at_ms: u64, outcome: ProbeOutcome) -> Observation {
        Observation {
            sent_ns: at_ms * MS,
            answered_ns: (at_ms + 1) * MS,
            connection: 0,
            key: 0,
            outcome,
            advertised: Advertised::default(),
        }
    }

    /// A limit of two: the admissions and the refusals are 100 ms apart.
    fn record(refused_ms: &[u64], back_ms: u64) -> Vec<Observation> {
        let admitted = [0, 100].map(|at| seen(at, Admitted));
        let refused = refused_ms.iter().map(|at| seen(*at, Refused));
        let back = [seen(back_ms, Admitted)];
        admitted.into_iter().chain(refused).chain(back).collect()
    }

    #[test]
    fn each_start_has_bounds_of_its_own() {
        let all = blocks(&record(&[200, 700], 1_250));
        assert_eq!(all.len(), 2);
        let bounds = |since| {
            let (least, most) = all[0].bounds(since, 2);
            (least / MS as f64, most / MS as f64)
        };
        // A millisecond for the server's clock, and the times between request and response.
        assert_eq!(bounds(Since::FirstAdmission), (698.0, 1_252.0));
        assert_eq!(bounds(Since::LastAdmission), (598.0, 1_152.0));
        assert_eq!(bounds(Since::FirstRefusal), (498.0, 1_052.0));
        assert_eq!(bounds(Since::LastRefusal), (498.0, 552.0));
        assert!(all[0].has_ended() && !all[1].has_begun());
    }

    #[test]
    fn an_admission_beside_the_first_refusal_came_before_it() {
        let mut beside = record(&[200], 900);
        beside.insert(2, seen(200, Admitted));
        beside[2].answered_ns += 5 * MS;
        let all = blocks(&beside);
        let counts: Vec<u64> = all.iter().map(Block::admitted).collect();
        assert_eq!(counts, [3, 1]);
        assert!(all[0].is_over(2, 300.0 * MS as f64), "three in 206 ms");
        assert!(!all[0].is_over(2, 200.0 * MS as f64));
    }

    #[test]
    fn pauses_and_silences_are_those_that_are_certain() {
        let all = blocks(&record(&[200, 700], 1_250));
        assert_eq!(all[0].pauses(), [99.0 * MS as f64; 2]);
        assert_eq!(all[0].silence(), 499.0 * MS as f64);
        assert_eq!(all[0].holds_for(2), 199.0 * MS as f64);
        let alone = blocks(&record(&[200], 1_250));
        assert_eq!(alone[0].silence(), 1_049.0 * MS as f64);
        assert_eq!(alone[0].held_at_most(2), f64::INFINITY);
        assert_eq!(alone[0].held_at_most(1), 101.0 * MS as f64);
    }
}
