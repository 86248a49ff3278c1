//! What a server counts for its operators. Nothing is decided by it.

mod page;
mod seconds;
mod stripes;

pub(crate) use page::page;

use crate::bounds::MAX_LEASE_STREAMS;
use crate::limits::Rule;
use crate::rlqs::Usage;
use crate::server::Door;
use seconds::Seconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stripes::Stripes;

/// What one limit answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The tokens were taken.
    Taken,
    /// The limit refused.
    Refused,
    /// The limit would have refused, were it not a shadow rule.
    RefusedInShadow,
    /// Another limit of the request refused.
    NotTaken,
    /// The store did not answer.
    Undecided,
}

impl Outcome {
    const ALL: [Self; 5] = [
        Self::Taken,
        Self::Refused,
        Self::RefusedInShadow,
        Self::NotTaken,
        Self::Undecided,
    ];

    /// The value of the label `result`.
    const fn name(self) -> &'static str {
        match self {
            Self::Taken => "ok",
            Self::Refused => "over_limit",
            Self::RefusedInShadow => "over_limit_in_shadow",
            Self::NotTaken => "not_taken",
            Self::Undecided => "undecided",
        }
    }
}

/// The answers of one limit, by outcome. A reload keeps them.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_outcome: Stripes<{ Outcome::ALL.len() }>,
    /// One burst for each time that an operator has set a key back to full.
    reset: AtomicU64,
}

impl Answers {
    pub(crate) fn add(&self, outcome: Outcome) {
        self.by_outcome.add(outcome as usize, 1);
    }

    pub(crate) fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome.sum(outcome as usize)
    }

    /// Counts a key that is full again, with the tokens that this may have added.
    pub(crate) fn add_reset(&self, burst: u64) {
        let more = |tokens: u64| Some(tokens.saturating_add(burst));
        let _ = self.reset.fetch_update(Relaxed, Relaxed, more);
    }

    /// Returns the tokens that resets may have added, at most.
    pub(crate) fn reset(&self) -> u64 {
        self.reset.load(Relaxed)
    }
}

/// What Envoys report about a limit that they decide. A reload keeps it.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    allowed: AtomicU64,
    denied: AtomicU64,
    /// Allowed, and by no assignment.
    unassigned: AtomicU64,
}

impl Reports {
    pub(crate) fn add(&self, usage: Usage, unassigned: u64) {
        self.allowed.fetch_add(usage.allowed, Relaxed);
        self.denied.fetch_add(usage.denied, Relaxed);
        self.unassigned.fetch_add(unassigned, Relaxed);
    }
}

/// Counts of all decisions together. A reload keeps them.
#[derive(Debug, Default)]
pub(crate) struct DecisionCounts {
    seconds: Seconds,
    throttle: Answers,
    /// Descriptors without a rule.
    unmatched: Stripes<1>,
}

impl DecisionCounts {
    pub(crate) fn took(&self, time: Duration) {
        self.seconds.add(time);
    }

    pub(crate) fn throttled(&self, outcome: Outcome) {
        self.throttle.add(outcome);
    }

    pub(crate) fn throttle(&self) -> &Answers {
        &self.throttle
    }

    pub(crate) fn unmatched(&self) {
        self.unmatched.add(0, 1);
    }

    pub(crate) fn unmatched_sum(&self) -> u64 {
        self.unmatched.sum(0)
    }
}

/// Counts of connections and configurations.
#[derive(Debug)]
pub(crate) struct ServerCounts {
    doors: [DoorCounts; Door::ALL.len()],
    accept_errors: AtomicU64,
    loads: Loads,
    /// Again, while the server ran.
    certificates: Loads,
    /// Since 1970.
    loaded_at_s: AtomicU64,
    /// Processes that lease.
    leasing: AtomicU64,
    spans: Arc<SpanCounts>,
}

/// What became of the spans of requests.
#[derive(Debug, Default)]
pub(crate) struct SpanCounts {
    sent: AtomicU64,
    /// The collector did not take them.
    failed: AtomicU64,
    /// Too many were waiting.
    skipped: AtomicU64,
}

impl SpanCounts {
    pub(crate) fn sent(&self, spans: u64) {
        self.sent.fetch_add(spans, Relaxed);
    }

    pub(crate) fn failed(&self, spans: u64) {
        self.failed.fetch_add(spans, Relaxed);
    }

    pub(crate) fn skipped(&self, spans: u64) {
        self.skipped.fetch_add(spans, Relaxed);
    }
}

/// A process that counts as one that leases until it is dropped.
pub(crate) struct Leasing(Arc<ServerCounts>);

impl Drop for Leasing {
    fn drop(&mut self) {
        self.0.leasing.fetch_sub(1, Relaxed);
    }
}

/// Files that were read.
#[derive(Debug, Default)]
struct Loads {
    good: AtomicU64,
    bad: AtomicU64,
}

/// The connections of one door.
#[derive(Debug, Default)]
struct DoorCounts {
    opened: AtomicU64,
    closed: AtomicU64,
    /// Closed unanswered, because their address had as many as it may have.
    refused: AtomicU64,
    /// Closed because the client was slow or silent.
    late: AtomicU64,
    /// Closed because encryption was not agreed upon.
    not_encrypted: AtomicU64,
}

/// A connection that counts as open until it is dropped.
pub(crate) struct Open {
    counts: Arc<ServerCounts>,
    door: Door,
}

impl ServerCounts {
    /// Counts from now, with one good load.
    pub(crate) fn new() -> Self {
        let counts = Self {
            doors: Default::default(),
            accept_errors: AtomicU64::new(0),
            loads: Loads::default(),
            certificates: Loads::default(),
            loaded_at_s: AtomicU64::new(0),
            leasing: AtomicU64::new(0),
            spans: Arc::default(),
        };
        counts.loaded(true);
        counts
    }

    /// Counts one more process that leases. `None`: there are too many.
    pub(crate) fn leasing(self: &Arc<Self>) -> Option<Leasing> {
        let more = |leasing| (leasing < MAX_LEASE_STREAMS).then_some(leasing + 1);
        self.leasing.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Leasing(Arc::clone(self)))
    }

    pub(crate) fn spans(&self) -> &Arc<SpanCounts> {
        &self.spans
    }

    fn door(&self, door: Door) -> &DoorCounts {
        &self.doors[door as usize]
    }

    /// Returns the open connections of all doors, except that of operators.
    pub(crate) fn of_clients(&self) -> u64 {
        let doors = Door::ALL.into_iter().filter(|door| *door != Door::Admin);
        doors.map(|door| self.door(door).open()).sum()
    }

    pub(crate) fn open(self: &Arc<Self>, door: Door) -> Open {
        self.door(door).opened.fetch_add(1, Relaxed);
        let counts = Arc::clone(self);
        Open { counts, door }
    }

    pub(crate) fn refused(&self, door: Door) {
        self.door(door).refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn accept_error(&self) {
        self.accept_errors.fetch_add(1, Relaxed);
    }

    /// Counts a configuration that was read.
    pub(crate) fn loaded(&self, is_good: bool) {
        self.loads.add(is_good);
        if is_good {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_s = now.unwrap_or_default().as_secs();
            self.loaded_at_s.store(now_s, Relaxed);
        }
    }

    /// Counts a certificate that was read.
    pub(crate) fn certificate_loaded(&self, is_good: bool) {
        self.certificates.add(is_good);
    }
}

impl DoorCounts {
    /// Returns the open connections.
    fn open(&self) -> u64 {
        // What is closed was opened before.
        let closed = self.closed.load(Relaxed);
        self.opened.load(Relaxed).saturating_sub(closed)
    }
}

impl Loads {
    fn add(&self, is_good: bool) {
        let of = if is_good { &self.good } else { &self.bad };
        of.fetch_add(1, Relaxed);
    }
}

impl Open {
    /// Counts the connection as closed because its client was slow or silent.
    pub(crate) fn late(&self) {
        self.counts.door(self.door).late.fetch_add(1, Relaxed);
    }

    /// Counts the connection as closed because encryption was not agreed upon.
    pub(crate) fn not_encrypted(&self) {
        let counts = self.counts.door(self.door);
        counts.not_encrypted.fetch_add(1, Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counts.door(self.door).closed.fetch_add(1, Relaxed);
    }
}

/// Counts a request about one limit. A request for no tokens is not counted.
pub(crate) fn answered(rule: &Rule, n: u64, outcome: Outcome) {
    if n > 0 {
        rule.answers().add(outcome);
    }
}
