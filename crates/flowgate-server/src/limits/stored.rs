//! A limit in a store that several servers share.

use super::Key;
use crate::config::{Allows, Terms};
use crate::decision::Undecided;
use flowgate::{Denied, LimiterKind, Quota};
use flowgate_fleet::{CutOff, Fleet, FleetError, FleetKeyed, FleetStanding};

/// The keys that a server remembers, if the limit has no `capacity`.
const CAPACITY: usize = 100_000;

/// A limit for each key, in a store.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    limit: FleetKeyed,
    quota: Quota,
    cut_off: Option<CutOff>,
    capacity: usize,
}

impl Stored {
    /// Builds a limit, or goes on with `before` if that is the same. `None` if such a rule needs none.
    ///
    /// # Errors
    ///
    /// Returns what to write instead.
    pub(crate) fn new(
        fleet: &Fleet,
        id: &str,
        terms: &Terms,
        before: Option<&Self>,
    ) -> Result<Option<Self>, String> {
        let quota = match terms.allows {
            Allows::Everything | Allows::Nothing { .. } => return Ok(None),
            Allows::Quota {
                kind: LimiterKind::Token,
                quota,
            } => quota,
            Allows::Quota { kind, .. } => {
                let kind = kind.name();
                return Err(format!(
                    "a store has no limit of the algorithm {kind}: write `algorithm: token`, or run without --store"
                ));
            }
            Allows::TwoQuotas(_) => {
                return Err("a limit in a store has one quota: write two descriptors, or run without --store".to_owned());
            }
            Allows::Windows { .. } => {
                return Err("a store has no windows yet: write `quota: 50/s` in place of `rate_limit`, or run without --store".to_owned());
            }
        };
        if terms.allow_override {
            let what = "a limit in a store has one quota for all keys: remove `allow_override`, or run without --store";
            return Err(what.to_owned());
        }
        let (cut_off, capacity) = (terms.cut_off, terms.capacity.unwrap_or(CAPACITY));
        let is_same = |before: &&Self| {
            (before.quota, before.cut_off, before.capacity) == (quota, cut_off, capacity)
        };
        if let Some(before) = before.filter(is_same) {
            return Ok(Some(before.clone()));
        }
        let builder = fleet.keyed(id, quota).capacity(capacity);
        let builder = match cut_off {
            Some(cut_off) => builder.when_cut_off(cut_off),
            None => builder,
        };
        let limit = builder.build().map_err(|error| match error {
            FleetError::NoCutOff => "what is admitted while the store does not answer is not known: add --nodes N, or write `when_cut_off: deny`".to_owned(),
            error => error.to_string(),
        })?;
        Ok(Some(Self {
            limit,
            quota,
            cut_off,
            capacity,
        }))
    }

    /// Takes `n` tokens, or none.
    pub(crate) async fn take(
        &self,
        key: &Key<'_>,
        n: u64,
    ) -> Result<Result<(), Denied>, Undecided> {
        match self.limit.ask(key.bytes()).n(n).await {
            Ok(_) => Ok(Ok(())),
            Err(denied) if denied.is_outage() => Err(Undecided::Outage),
            Err(denied) if denied.is_queue_full() => Err(Undecided::Busy),
            Err(denied) => Ok(Err(denied)),
        }
    }

    /// Returns what is left, by the store's last answer about the key.
    pub(crate) fn standing(&self, key: &Key<'_>) -> FleetStanding {
        self.limit.standing(key.bytes())
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.limit.inspect().is_connected
    }
}
