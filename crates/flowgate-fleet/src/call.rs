use crate::record::Record;
use crate::terms::Terms;

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
    pub(crate) debt: u64,
    pub(crate) at_us: u64,
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
