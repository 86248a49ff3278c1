//! What came of a run.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::Duration;

use hdrhistogram::Histogram;

/// What came of a run under one policy.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The policy's name.
    pub policy: String,
    /// How long requests arrived.
    pub duration: Duration,
    /// When the last thing happened, since the start.
    pub ended: Duration,
    /// The counts of the whole run.
    pub counts: OutcomeCounts,
    /// From the beginning of each operation to its answer, of those that were served.
    pub latency: Latency,
    /// The wait for the limiter, of those that waited and were admitted.
    pub wait: Latency,
    /// The counts over time.
    pub slots: Vec<TimeSlot>,
    /// How long a slot is.
    pub slot: Duration,
    /// The counts of each key.
    pub keys: BTreeMap<u64, KeyCounts>,
    /// How many events it took.
    pub events: u64,
    pub(crate) hash: u64,
}

/// Counts of operations and their attempts.
///
/// An operation is what a client wants; it takes one attempt or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutcomeCounts {
    /// Operations that began.
    pub operations: u64,
    /// Attempts, retries included.
    pub attempts: u64,
    /// Attempts that the policy admitted.
    pub admitted: u64,
    /// Attempts that the policy refused, after a wait or without one.
    pub refused: u64,
    /// Attempts that waited for the policy.
    pub waited: u64,
    /// Attempts that found the server's queue full.
    pub queue_full: u64,
    /// Attempts that the server dropped from its queue after their deadline.
    pub expired: u64,
    /// Attempts that failed because the server was down.
    pub down: u64,
    /// Attempts that the server served after their client had given them up.
    pub abandoned: u64,
    /// Operations that were served within their deadline.
    pub in_time: u64,
    /// Operations that were served too late.
    pub late: u64,
    /// Operations that ended without being served.
    pub failed: u64,
    /// Operations that were not over when the run ended.
    pub unfinished: u64,
}

/// The counts of a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSlot {
    /// Attempts in it.
    pub attempts: u64,
    /// Attempts that were admitted in it.
    pub admitted: u64,
    /// Attempts that were refused in it.
    pub refused: u64,
    /// Operations that were served in it, within their deadline.
    pub in_time: u64,
    /// The longest latency of an operation that was served in it.
    pub longest: Duration,
}

/// The counts of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Its attempts.
    pub attempts: u64,
    /// Its attempts that were admitted.
    pub admitted: u64,
}

/// A distribution of durations, to three digits.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> Self {
        // Up to a day, and more is counted like it. The bounds are valid.
        let histogram = Histogram::new_with_bounds(1_000, 86_400_000_000_000, 3);
        Self(histogram.unwrap_or_else(|_| unreachable!("the bounds are valid")))
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Returns how many durations it has.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    /// Returns the duration that this share of all does not exceed, from 0 to 1.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// Returns the longest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

impl RunOutcome {
    /// Returns the operations per second that were served within their deadline, while requests arrived.
    pub fn goodput(&self) -> f64 {
        self.counts.in_time as f64 / self.duration.as_secs_f64()
    }

    /// Returns the share of the attempts that were refused, from 0 to 1.
    pub fn refused_share(&self) -> f64 {
        self.counts.refused as f64 / self.counts.attempts.max(1) as f64
    }

    /// Returns Jain's index of fairness over what was admitted of each key.
    ///
    /// It is 1 if each key got as much, and 1/n if one of n got all.
    pub fn fairness(&self) -> f64 {
        let (mut sum, mut squares) = (0.0, 0.0);
        for counts in self.keys.values() {
            let admitted = counts.admitted as f64;
            sum += admitted;
            squares += admitted * admitted;
        }
        match squares > 0.0 {
            true => sum * sum / (self.keys.len() as f64 * squares),
            false => 1.0,
        }
    }

    /// Returns a hash of every decision and every time of the run. The same scenario gives the same hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// FNV-1a, which is the same everywhere: a hash for comparing, and not against forgers.
#[derive(Debug)]
pub(crate) struct RunHash(u64);

impl RunHash {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn note(&mut self, event: u8, at_ns: u64, what: u64) {
        self.write(&[event]);
        self.write(&at_ns.to_le_bytes());
        self.write(&what.to_le_bytes());
    }
}

impl Hasher for RunHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
