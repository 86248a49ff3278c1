//! What a process counts of one limit.

use crate::Admitted;
use crate::call::{Reply, Seen};
use crate::terms::{Kind, Terms};
use crate::view::{CALL_BOUNDS, FleetCounts};
use flowgate::{Denied, Timestamp};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counters of one limit. Nothing is decided by them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    admitted: AtomicU64,
    denied: AtomicU64,
    degraded: AtomicU64,
    cut_off: AtomicU64,
    degraded_units: AtomicU64,
    noticed: Mutex<Noticed>,
}

/// What became of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Called {
    /// All callers were admitted.
    Granted,
    /// At least one was denied.
    Denied,
    Lost,
    Refused,
}

/// What calls have shown.
#[derive(Clone, Copy, Debug, Default)]
struct Noticed {
    calls: [u64; 4],
    took: [u64; CALL_BOUNDS.len()],
    healed_units: u64,
    /// The most of any key.
    worst: Trouble,
}

/// What may have let a key exceed its limit. Of a limit, it is the most of any key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) amnesias: u64,
    pub(crate) resets: u64,
    pub(crate) outages: u64,
    /// What this process has admitted alone.
    pub(crate) alone_units: u64,
    /// How long this process was cut off, and the time from the first moment of that to the last.
    pub(crate) cut: Duration,
    pub(crate) span: Duration,
    since: Option<Timestamp>,
    first: Timestamp,
    /// The connection may have been another one since then.
    is_lost: bool,
}

/// Why a process decides without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// There is no connection, or a call has failed.
    Lost,
    /// A caller waits no longer. The answer may still come.
    Late,
}

/// What a reply of the store shows beside the answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) healed_units: u64,
    /// What this process had seen before was forgiven.
    pub(crate) was_reset: bool,
    /// The store has replied before.
    pub(crate) is_known: bool,
}

impl Shown {
    /// Returns what a reply shows that took `units`, if this process had seen `before` and the reset of that time, and stated these
    /// terms.
    pub(crate) fn of(
        reply: &Reply,
        units: u64,
        before: Seen,
        reset_us: u64,
        stated: &Terms,
    ) -> Self {
        let is_known = before.at_us > 0;
        let (unit, was_reset) = match stated.kind {
            // In parts. Units that are given back lower a debt, too.
            Kind::Bucket => (stated.period, ![0, reset_us].contains(&reply.reset_us)),
            // A window ends, or it was reset.
            kind => {
                let is_later = reply.seen.at_us > before.at_us;
                let is_open = reply.seen.at_us < kind.end_us(before.began_us, stated.period);
                let least = before.debt.min(stated.burst) + units;
                (1, is_later && is_open && reply.seen.debt < least)
            }
        };
        Self {
            healed_units: reply.healed.div_ceil(unit),
            was_reset: is_known && was_reset,
            is_known,
        }
    }
}

impl Trouble {
    /// This process decides alone.
    fn begin(&mut self, now: Timestamp, silence: Silence) {
        self.is_lost |= silence == Silence::Lost;
        if self.since.is_none() {
            if self.outages == 0 {
                self.first = now;
            }
            self.outages += 1;
            self.since = Some(now);
        }
    }

    /// The store decides again. Returns whether this process may be connected to another one.
    fn end(&mut self, now: Timestamp) -> bool {
        *self = self.at(now);
        self.since = None;
        mem::take(&mut self.is_lost)
    }

    /// Returns this with the time that has passed, if this process is cut off.
    pub(crate) fn at(mut self, now: Timestamp) -> Self {
        if let Some(since) = self.since {
            self.cut += now.saturating_duration_since(since);
            self.span = now.saturating_duration_since(self.first);
            self.since = Some(now);
        }
        self
    }

    /// Returns the larger of each.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            amnesias: self.amnesias.max(other.amnesias),
            resets: self.resets.max(other.resets),
            outages: self.outages.max(other.outages),
            alone_units: self.alone_units.max(other.alone_units),
            cut: self.cut.max(other.cut),
            span: self.span.max(other.span),
            ..self
        }
    }
}

impl Tally {
    fn noticed(&self) -> MutexGuard<'_, Noticed> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, trouble: &Trouble) {
        let mut noticed = self.noticed();
        noticed.worst = noticed.worst.or(trouble);
    }

    /// A caller was answered.
    pub(crate) fn answered(&self, answer: &Result<Admitted, Denied>) {
        let count = match answer {
            Ok(admitted) if admitted.is_degraded() => &self.degraded,
            Ok(_) => &self.admitted,
            Err(denied) if denied.is_outage() => &self.cut_off,
            Err(_) => &self.denied,
        };
        // No other memory depends on these counts.
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A leased limiter was used for this many units: they were admitted, or refused. `is_alone`: the store did not answer.
    pub(crate) fn used(&self, admitted: u64, refused: u64, is_alone: bool) {
        let counts = if is_alone {
            [&self.degraded, &self.cut_off]
        } else {
            [&self.admitted, &self.denied]
        };
        for (count, units) in counts.into_iter().zip([admitted, refused]) {
            count.fetch_add(units, Ordering::Relaxed);
        }
    }

    /// This process decided alone on a key, and admitted this many units of it.
    pub(crate) fn decided_alone(
        &self,
        trouble: &mut Option<Box<Trouble>>,
        now: Timestamp,
        admitted: u64,
        silence: Silence,
    ) {
        self.degraded_units.fetch_add(admitted, Ordering::Relaxed);
        let trouble = trouble.get_or_insert_default();
        trouble.begin(now, silence);
        trouble.alone_units += admitted;
        self.note(&trouble.at(now));
    }

    /// A call has ended after this time.
    pub(crate) fn called(&self, what: Called, took: Duration) {
        let mut noticed = self.noticed();
        noticed.calls[what as usize] += 1;
        if matches!(what, Called::Granted | Called::Denied) {
            let bound = CALL_BOUNDS.iter().position(|bound| took <= *bound);
            noticed.took[bound.unwrap_or(CALL_BOUNDS.len() - 1)] += 1;
        }
    }

    /// The store has replied about a key.
    pub(crate) fn replied(&self, trouble: &mut Option<Box<Trouble>>, now: Timestamp, shown: Shown) {
        let is_healed = shown.healed_units > 0;
        if trouble.is_none() && !is_healed && !shown.was_reset {
            return;
        }
        let trouble = trouble.get_or_insert_default();
        // The store may have lost what others took, too.
        let was_lost = trouble.end(now);
        trouble.amnesias += u64::from(is_healed || was_lost && shown.is_known);
        trouble.resets += u64::from(shown.was_reset);
        self.note(trouble);
        let mut noticed = self.noticed();
        noticed.healed_units = noticed.healed_units.saturating_add(shown.healed_units);
    }

    /// Returns the most of any key so far. Outages that have not ended count up to their last decision.
    pub(crate) fn worst(&self) -> Trouble {
        self.noticed().worst
    }

    pub(crate) fn counts(&self) -> FleetCounts {
        let noticed = *self.noticed();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [calls_granted, calls_denied, calls_lost, calls_refused] = noticed.calls;
        let mut so_far = 0;
        let calls_within = noticed.took.map(|took| {
            so_far += took;
            so_far
        });
        FleetCounts {
            admitted: read(&self.admitted),
            denied: read(&self.denied),
            degraded: read(&self.degraded),
            cut_off: read(&self.cut_off),
            degraded_units: read(&self.degraded_units),
            calls_granted,
            calls_denied,
            calls_lost,
            calls_refused,
            calls_within,
            healed_units: noticed.healed_units,
            amnesias: noticed.worst.amnesias,
            resets: noticed.worst.resets,
            outages: noticed.worst.outages,
        }
    }
}
