//! What happened when, by the second.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::nanos;

/// What happened in each second of a run.
///
/// Runs of more than an hour have longer slots, so that there are never many more than 3600.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of a slot: whole seconds.
    #[serde(rename = "width_ns", with = "nanos")]
    pub width: Duration,
    /// From the start of the run to the last in which anything happened.
    pub slots: Vec<Slot>,
}

/// A slot of a [`Timeline`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Requests by when they were due. One whose turn never came, as the run ended, is missing.
    pub due: u64,
    /// Requests by when their first byte was written.
    pub sent: u64,
    /// Answers to requests that were let through, by when they were complete: 1xx, 2xx and 3xx.
    pub admitted: u64,
    /// Answers 429 and 503.
    pub limited: u64,
    /// Answers that are errors, and requests without one.
    pub failed: u64,
    /// The median of the response times of those answered.
    #[serde(rename = "response_p50_ns", with = "nanos")]
    pub response_p50: Duration,
    /// Their 99th percentile.
    #[serde(rename = "response_p99_ns", with = "nanos")]
    pub response_p99: Duration,
    /// The longest.
    #[serde(rename = "response_max_ns", with = "nanos")]
    pub response_max: Duration,
    /// The 99th percentile of the lag of those sent.
    #[serde(rename = "lag_p99_ns", with = "nanos")]
    pub lag_p99: Duration,
}

impl Timeline {
    /// The slots, each with the time at which it begins.
    pub fn starts(&self) -> impl Iterator<Item = (Duration, &Slot)> {
        let starts =
            std::iter::successors(Some(Duration::ZERO), |start| start.checked_add(self.width));
        starts.zip(&self.slots)
    }
}

impl Slot {
    /// By how many requests it is off.
    pub fn difference(&self) -> u64 {
        self.due.abs_diff(self.sent)
    }
}
