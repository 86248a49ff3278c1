//! What came of a run.

use std::ops::AddAssign;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::key_table::KeyTable;
use crate::windows::WorstWindow;

/// What came of a run under one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The policy's name.
    pub policy: String,
    /// How long requests arrived.
    pub duration: Duration,
    /// When the last thing happened, since the start.
    pub ended: Duration,
    /// Why the run ended before its time, if it did.
    pub stopped: Option<StopReason>,
    /// The counts of the whole run.
    pub counts: OutcomeCounts,
    /// From the beginning of each operation to its answer, of those that were served.
    pub latency: Latency,
    /// The wait for the limiter, of those that waited and were admitted.
    pub wait: Latency,
    /// Each source of requests, in the order in which the simulation has them.
    pub sources: Vec<SourceOutcome>,
    /// The counts over time. The last slot has everything from its beginning on.
    pub slots: Vec<TimeSlot>,
    /// How long a slot is.
    pub slot: Duration,
    /// The counts of each key.
    pub keys: KeyTable,
    /// The most that was admitted in windows of the lengths that the simulation watches.
    pub windows: Vec<WorstWindow>,
    /// How many events it took.
    pub events: u64,
    pub(crate) hash: u64,
}

/// Why a run ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// It had as many events as [`Simulation::max_events`](crate::Simulation::max_events) allows.
    Events,
    /// As many operations and events were pending as [`Simulation::max_pending`](crate::Simulation::max_pending) allows.
    Pending,
    /// It was [interrupted](crate::Simulation::interrupt).
    Interrupted,
}

/// What came of one source of requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceOutcome {
    /// Its name.
    pub name: String,
    /// Its counts.
    pub counts: OutcomeCounts,
    /// From the start of each of its operations to the answer.
    pub latency: Latency,
    /// The wait for the limiter, of those that waited and were admitted.
    pub wait: Latency,
}

/// Counts of operations and their attempts.
///
/// An operation is what a client wants; it takes one attempt or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Attempts that their clients gave up while the server had them.
    pub timed_out: u64,
    /// Attempts that were served after their clients had given them up.
    pub wasted: u64,
    /// Attempts that failed because the server was down.
    pub down: u64,
    /// Operations that were served within their deadline.
    pub in_time: u64,
    /// Operations that were served too late.
    pub late: u64,
    /// Operations that ended without being served.
    pub failed: u64,
    /// Operations that were not over when the run ended.
    pub unfinished: u64,
}

impl AddAssign for OutcomeCounts {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.attempts += other.attempts;
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.waited += other.waited;
        self.queue_full += other.queue_full;
        self.expired += other.expired;
        self.timed_out += other.timed_out;
        self.wasted += other.wasted;
        self.down += other.down;
        self.in_time += other.in_time;
        self.late += other.late;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
    }
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

    pub(crate) fn add(&mut self, other: &Self) {
        // All have the same bounds.
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok());
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
    ///
    /// It is 0 if the run had no duration.
    pub fn goodput(&self) -> f64 {
        match self.duration.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.counts.in_time as f64 / seconds,
        }
    }

    /// Returns the share of the attempts that were refused, from 0 to 1.
    pub fn refused_share(&self) -> f64 {
        self.counts.refused as f64 / self.counts.attempts.max(1) as f64
    }

    /// Returns Jain's index of fairness over what was admitted of each key.
    ///
    /// It is 1 if each key got as much, and 1/n if one of n got all.
    pub fn fairness(&self) -> f64 {
        let (mut keys, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for counts in self.keys.values() {
            let admitted = counts.admitted as f64;
            keys += 1.0;
            sum += admitted;
            squares += admitted * admitted;
        }
        match squares > 0.0 {
            true => sum * sum / (keys * squares),
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
        self.byte(event);
        self.number(at_ns);
        self.number(what);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
    }

    /// Eight bytes, the lowest first. Each of the zeros at the end only multiplies, and all of them do it in one step.
    fn number(&mut self, number: u64) {
        let zeros = number.leading_zeros() / 8;
        for place in 0..8 - zeros {
            self.byte((number >> (8 * place)) as u8);
        }
        self.0 = self.0.wrapping_mul(POWERS[zeros as usize]);
    }
}

const PRIME: u64 = 0x0100_0000_01b3;

/// The powers of [`PRIME`].
const POWERS: [u64; 9] = {
    let mut powers = [1_u64; 9];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1].wrapping_mul(PRIME);
        exponent += 1;
    }
    powers
};

#[cfg(test)]
mod tests {
    use super::{PRIME, RunHash};

    #[test]
    fn the_hash_is_that_of_all_bytes() {
        for (at_ns, what) in [
            (0, 0),
            (1, 255),
            (256, 1 << 40),
            (u64::MAX, 0x0100_0000_0000_0000),
        ] {
            let mut hash = RunHash::new();
            hash.note(b'a', at_ns, what);
            let bytes = [b'a']
                .into_iter()
                .chain(at_ns.to_le_bytes())
                .chain(what.to_le_bytes());
            let plain = bytes.fold(RunHash::new().0, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(PRIME)
            });
            assert_eq!(hash.finish(), plain);
        }
    }
}
