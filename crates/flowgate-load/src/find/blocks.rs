//! What one step of a search measures: the same counts for each of several equal parts of its time.
//!
//! Response times that follow each other are similar, because they wait in the same queue. So their number says little about
//! how certain a percentile is. Parts of the time that are long compared with the queue are nearly independent, and their
//! spread shows the certainty (*batch means*: Law and Carson, 1979).

use std::time::Duration;

use hyper::StatusCode;

use crate::event::Outcome;
use crate::failure::Failure;
use crate::report::nanos;
use crate::spread::Durations;

/// Number of parts that count.
pub(super) const BLOCKS: u32 = 10;

/// Counts of a step. The first part is left out, because queues are still filling then.
#[derive(Debug)]
pub(crate) struct Blocks {
    width_ns: u64,
    blocks: Vec<Block>,
}

/// Counts of one part.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Requests that were scheduled in this part, and have an outcome.
    pub(super) requests: u64,
    /// Responses that were complete in this part, whenever they were scheduled.
    pub(super) completed: u64,
    /// Requests without a good response.
    pub(super) failed: u64,
    /// Of these, responses with 429 or 503.
    pub(super) limited: u64,
    /// Sum of the response times of good responses and of requests that timed out, in nanoseconds, and of their squares.
    pub(super) sum_ns: f64,
    pub(super) squares: f64,
}

#[derive(Debug)]
struct Block {
    counts: Counts,
    response: Durations,
}

/// One part of a step that is over.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) counts: Counts,
    /// Response times, each with the number of those up to it. Ascending.
    response: Vec<(u64, u64)>,
}

impl Blocks {
    /// Creates counts for a step that lasts `span`.
    pub(crate) fn new(span: Duration) -> Blocks {
        let width = span / (BLOCKS + 1);
        let block = || Block {
            counts: Counts::default(),
            response: Durations::new(),
        };
        Blocks {
            width_ns: nanos::of(width).max(1),
            blocks: (0..BLOCKS).map(|_| block()).collect(),
        }
    }

    /// Returns the length of a part.
    pub(super) fn width(&self) -> Duration {
        Duration::from_nanos(self.width_ns)
    }

    /// Returns the completed requests per second, while the parts lasted.
    pub(super) fn completed_per_second(&self) -> f64 {
        let completed: u64 = self.blocks.iter().map(|block| block.counts.completed).sum();
        completed as f64 / (self.width().as_secs_f64() * self.blocks.len() as f64)
    }

    /// Returns the parts.
    pub(super) fn parts(&self) -> Vec<Part> {
        let part = |block: &Block| Part {
            counts: block.counts.clone(),
            response: block.response.cumulative(),
        };
        self.blocks.iter().map(part).collect()
    }

    fn at(&mut self, ns: u64) -> Option<&mut Block> {
        let index = (ns / self.width_ns).checked_sub(1)?;
        self.blocks.get_mut(usize::try_from(index).ok()?)
    }

    /// Counts a request that is over.
    pub(crate) fn over(&mut self, scheduled_ns: u64, done_ns: u64, outcome: Outcome) {
        let (is_answered, status, is_timed_out) = match outcome {
            Outcome::Answered(answer) => (true, Some(answer.status), false),
            Outcome::Failed(failure) => (false, None, failure == Failure::Timeout),
            // The step has ended before, so its time is not known.
            Outcome::Abandoned => return,
        };
        if is_answered && let Some(block) = self.at(done_ns) {
            block.counts.completed += 1;
        }
        let Some(block) = self.at(scheduled_ns) else {
            return;
        };
        let counts = &mut block.counts;
        counts.requests += 1;
        let is_good = status.is_some_and(|status| status.as_u16() < 400);
        counts.failed += u64::from(!is_good);
        counts.limited += u64::from(status.is_some_and(is_limit));
        if is_good || is_timed_out {
            let response_ns = done_ns.saturating_sub(scheduled_ns);
            counts.sum_ns += response_ns as f64;
            counts.squares += (response_ns as f64).powi(2);
            block.response.record_ns(response_ns);
        }
    }
}

impl Part {
    /// Returns the number of response times.
    pub(super) fn len(&self) -> u64 {
        self.response.last().map_or(0, |(_, up_to)| *up_to)
    }

    /// Returns the number of response times that are not below `limit`.
    pub(super) fn count_from(&self, limit: Duration) -> u64 {
        let limit_ns = nanos::of(limit);
        let below = self.response.partition_point(|(ns, _)| *ns < limit_ns);
        let up_to = |index: usize| self.response.get(index).map_or(0, |(_, up_to)| *up_to);
        self.len() - below.checked_sub(1).map_or(0, up_to)
    }

    /// Returns the longest response time in nanoseconds.
    pub(super) fn longest_ns(&self) -> u64 {
        self.response.last().map_or(0, |(ns, _)| *ns)
    }
}

fn is_limit(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 503)
}
