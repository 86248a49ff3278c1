use crate::record::Record;
use crate::terms::{Kind, Terms};
use std::time::Duration;

/// One call of a script.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Take(Call),
    /// Each has one run, which is taken once. From all or from none, of records in one place.
    TakeAll(Vec<Call>),
    GiveBack(GiveBack),
}

impl Request {
    /// Returns the record that decides which server is asked.
    pub(crate) fn record(&self) -> Record {
        match self {
            Self::Take(call) => call.record,
            Self::TakeAll(calls) => calls[0].record,
            Self::GiveBack(back) => back.record,
        }
    }
}

/// What one limit asks the store.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) record: Record,
    pub(crate) terms: Terms,
    /// What this process has seen last. A store that has forgotten it is reminded.
    pub(crate) seen: Seen,
    /// What to take, in this order.
    pub(crate) runs: Vec<Run>,
}

/// Units that were taken together with others which were refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GiveBack {
    pub(crate) record: Record,
    pub(crate) terms: Terms,
    pub(crate) units: u64,
    /// What the store stated when it took them.
    pub(crate) taken: Seen,
}

/// A debt, in parts, at a time of the store, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Of a window: the units that it has admitted.
    pub(crate) debt: u64,
    pub(crate) at_us: u64,
    /// When the window began; 0: none is open, or it is a bucket.
    pub(crate) began_us: u64,
}

impl Seen {
    /// Returns what is sent as the time of the debt: of a window, its beginning.
    pub(crate) fn since_us(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Bucket => self.at_us,
            _ => self.began_us,
        }
    }

    /// Returns the units that can be taken when so much time has passed since this statement.
    pub(crate) fn room(&self, terms: &Terms, passed: Duration) -> u64 {
        let passed_us = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        match terms.kind {
            Kind::Bucket => {
                let debt = self
                    .debt
                    .saturating_sub(passed_us.saturating_mul(terms.count));
                (terms.burst * terms.period).saturating_sub(debt) / terms.period
            }
            kind => {
                let now_us = self.at_us.saturating_add(passed_us);
                let is_open = now_us < kind.end_us(self.began_us, terms.period);
                terms.burst
                    - if is_open {
                        self.debt.min(terms.burst)
                    } else {
                        0
                    }
            }
        }
    }

    /// Returns the microseconds from this statement until `n` units can be taken.
    pub(crate) fn wait_us(&self, terms: &Terms, n: u64) -> u64 {
        match terms.kind {
            Kind::Bucket => terms.wait_us(self.debt, n),
            kind if self.debt.saturating_add(n) > terms.burst => {
                let end_us = kind.end_us(self.began_us, terms.period);
                end_us.saturating_sub(self.at_us)
            }
            _ => 0,
        }
    }
}

/// Requests for the same number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) times: u64,
    pub(crate) units: u64,
    /// If fewer than this can be taken, none is. At least 1.
    pub(crate) least: u64,
}

impl Run {
    /// Requests of which each is taken if it can be.
    pub(crate) fn of(times: u64, units: u64) -> Self {
        let least = 1;
        Self {
            times,
            units,
            least,
        }
    }
}

/// What the store answers about a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// After everything was taken.
    pub(crate) seen: Seen,
    /// The parts that the store had forgotten.
    pub(crate) healed: u64,
    /// The time of the last reset; 0: none is known.
    pub(crate) reset_us: u64,
    /// How often each run was taken. Of units to give back: the parts that were.
    pub(crate) taken: Vec<u64>,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The store did not answer in time, or the connection ended. The call may have been carried out: it is never repeated.
    Lost,
    /// Nothing was taken: the store cannot be reached, or does not keep the record just now.
    Unreachable,
    /// The store refused this call, for this reason, and took nothing.
    Refused(String),
}
