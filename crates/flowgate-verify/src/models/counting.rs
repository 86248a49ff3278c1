//! A sliding window in which every request counts: refused ones, too. A client that retries while it is refused stays
//! refused.

use super::GRAIN;
use crate::evidence::Span;
use crate::{Observation, ProbeOutcome};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counting {
    /// A whole number.
    pub(crate) limit: f64,
    pub(crate) window: f64,
}

/// All requests, whatever their outcome, bounded from below and from above as in
/// [`Evidence`](crate::evidence::Evidence).
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// In the order of the ends, each with whether it was admitted.
    surely: Vec<(Span, bool)>,
    /// In the order of the starts, each with whether it was refused.
    possibly: Vec<(Span, bool)>,
}

impl Asked {
    pub(crate) fn of(record: &[Observation]) -> Self {
        let spans = |outcome: ProbeOutcome| {
            record.iter().map(move |seen| {
                let span = Span {
                    from: seen.sent_ns as f64,
                    to: seen.answered_ns as f64,
                };
                (span, seen.outcome == outcome)
            })
        };
        let mut surely: Vec<_> = spans(ProbeOutcome::Admitted).collect();
        surely.sort_by(|a, b| a.0.to.total_cmp(&b.0.to));
        let mut earliest = f64::INFINITY;
        for (span, _) in surely.iter_mut().rev() {
            earliest = earliest.min(span.from);
            span.from = earliest;
        }
        let mut possibly: Vec<_> = spans(ProbeOutcome::Refused).collect();
        possibly.sort_by(|a, b| a.0.from.total_cmp(&b.0.from));
        let mut latest = f64::NEG_INFINITY;
        for (span, _) in &mut possibly {
            latest = latest.max(span.to);
            span.to = latest;
        }
        Self { surely, possibly }
    }
}

impl Counting {
    /// Counts the responses that cannot be right.
    pub(crate) fn unexplained(&self, asked: &Asked) -> u64 {
        let limit = self.limit as usize;
        // Admitted although the window certainly held the limit.
        let pairs = asked.surely.iter().zip(asked.surely.iter().skip(limit));
        let over =
            pairs.filter(|(first, last)| last.1 && last.0.to - first.0.from < self.window - GRAIN);
        // Refused although the window cannot have held the limit.
        let refused = asked
            .possibly
            .iter()
            .enumerate()
            .filter(|(_, asked)| asked.1);
        let wasted = refused.filter(|(index, (refused, _))| {
            let until = asked
                .possibly
                .partition_point(|(span, _)| span.from <= refused.to);
            // Itself does not count.
            let oldest = until.max(index + 1).checked_sub(limit + 1);
            oldest.is_none_or(|oldest| {
                asked.possibly[oldest].0.to <= refused.from - self.window - GRAIN
            })
        });
        (over.count() + wasted.count()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Advertised;

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
            let window = Counting {
                limit: 2.0,
                window: 100.0,
            };
            window.unexplained(&Asked::of(&record))
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
        let window = |window| Counting { limit: 2.0, window };
        assert_eq!(window(100.0).unexplained(&Asked::of(&kept_full)), 0);
        assert!(window(65.0).unexplained(&Asked::of(&kept_full)) > 0);
    }
}
