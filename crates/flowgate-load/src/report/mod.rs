//! What a run found out, as data. [`text`] says it in words.

pub(crate) mod text;

use std::time::Duration;

use crate::failure::Failure;
use crate::measurement::{Counts, Spread};
use crate::schedule::Schedule;
use crate::timeline::Timeline;
use crate::verdict::{Thresholds, Verdict, judge};

/// What a run found out. `Display` writes it as about a dozen lines of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Where the requests went.
    pub target: String,
    /// Whether that was this process's own [`Origin`](crate::Origin).
    pub own_origin: bool,
    /// When they were due.
    pub schedule: Schedule,
    /// How many went how far.
    pub counts: Counts,
    /// How many were due and sent in each second.
    pub timeline: Timeline,
    /// From the first send to the last.
    pub span: Duration,
    /// How late requests were sent: first byte written − due.
    pub lag: Spread,
    /// What a user would have felt: answer complete − due. Requests that timed out are in it;
    /// others that failed are not.
    pub response: Spread,
    /// How long the server took: answer complete − first byte written. Of the same requests as
    /// `response`.
    pub service: Spread,
    /// How the connections were used.
    pub connections: Connections,
    /// Whether the run was [stopped](crate::Stop) before its end.
    pub is_interrupted: bool,
}

/// How a run used its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// The most that it may hold open.
    pub allowed: u64,
    /// The most that were busy at once.
    pub most_busy: u64,
    /// The longest that a request waited because all were busy.
    pub longest_wait: Duration,
    /// How many could not be opened ahead of the first request.
    pub missing: u64,
    /// Why one of these could not.
    pub why_missing: Option<Failure>,
}

impl Report {
    /// The mean rate of sending, in requests per second: the intervals between the first send and
    /// the last, one fewer than there were sends, by the time between these. `None` for fewer than
    /// two sends.
    pub fn achieved(&self) -> Option<f64> {
        let intervals = self.counts.sent.checked_sub(1)?;
        if intervals == 0 || self.span.is_zero() {
            return None;
        }
        Some(intervals as f64 / self.span.as_secs_f64())
    }

    /// How far the achieved rate is from the target, as a fraction of the target; of a schedule whose
    /// rate is not constant, from its mean.
    pub fn rate_error(&self) -> Option<f64> {
        Some(self.achieved()? / self.schedule.per_second()? - 1.0)
    }

    /// The limits by which [`verdict`](Report::verdict) judges.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            rate_error: 0.001,
            lag_p99: self.schedule.interval().max(Duration::from_millis(1)),
        }
    }

    /// Whether the rate was held, and why not.
    pub fn verdict(&self) -> Verdict {
        judge(self)
    }

    /// The commonest failure, when any request failed before it was sent.
    pub(crate) fn commonest_unsent(&self) -> Option<Failure> {
        if self.counts.unsent == 0 {
            return None;
        }
        let commonest = self
            .counts
            .failures
            .iter()
            .max_by_key(|(_, count)| **count)?;
        Some(*commonest.0)
    }
}
