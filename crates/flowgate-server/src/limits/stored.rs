//! A limit in a store that several servers share.

use super::Key;
use crate::config::{Allows, Exceeds, Terms};
use crate::decision::{Answer, By, Undecided, until};
use flowgate::{LimiterKind, Quota};
use flowgate_fleet::{
    Ask, CutOff, Fleet, FleetBound, FleetError, FleetKeyed, FleetStanding, Overshoot,
};
use std::time::Instant;
use tracing::{Instrument, debug_span};

/// The keys that a server remembers, if the limit has no `capacity`.
const CAPACITY: usize = 100_000;

/// A limit for each key, in a store.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    limit: FleetKeyed,
    kind: StoredKind,
    /// The limit has it once the configuration is loaded.
    quota: Quota,
    built: Built,
}

/// What a limit of the fleet is built with. Another one needs another limit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Built {
    cut_off: Option<CutOff>,
    leased: Option<Exceeds>,
    capacity: usize,
}

/// How a limit in a store counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredKind {
    Bucket,
    /// Windows that begin with a request.
    Window,
    /// Windows that begin when the store's Unix time is a multiple of their length.
    AlignedWindow,
}

impl Stored {
    /// Builds a limit, or goes on with that of before. `None` if such a rule needs none.
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
        let Some((kind, quota)) = kept(&terms.allows)? else {
            return Ok(None);
        };
        if terms.allow_override {
            let what = "a limit in a store has one quota for all keys: remove `allow_override`, or run without --store";
            return Err(what.to_owned());
        }
        let built = Built {
            cut_off: terms.cut_off,
            leased: terms.leased,
            capacity: terms.capacity.unwrap_or(CAPACITY),
        };
        let explained = |error| {
            match error {
            FleetError::Overshoot { least } => format!(
                "leases cannot keep this overshoot: write `overshoot: {least}` or more tokens, or `mode: strict`"
            ),
            FleetError::NoCutOff => "what is admitted while the store does not answer is not known: add --nodes N, or write `when_cut_off: deny`".to_owned(),
            error => error.to_string(),
        }
        };
        let build = |quota| {
            let limit = built.limit(fleet, id, (kind, quota));
            limit.map_err(explained)
        };
        let limit = match before {
            None => build(quota)?,
            Some(before) if before.kind != kind => {
                let what = "a limit in a store cannot become another kind of limit while servers run: give it another key, or restart them";
                return Err(what.to_owned());
            }
            Some(before) if before.built.leased != built.leased && before.quota != quota => {
                // The limit of before has to keep the quota, too, and may not be able to.
                let what = "`quota` cannot change together with `mode` or `overshoot` while servers run: change one, and then the other";
                return Err(what.to_owned());
            }
            Some(before) => {
                // All limits of one name have one quota, and this one keeps that of before until it is replaced.
                let limit = match before.built == built {
                    true => before.limit.clone(),
                    false => build(before.limit.quota())?,
                };
                limit.check_quota(quota).map_err(explained)?;
                limit
            }
        };
        Ok(Some(Self {
            limit,
            kind,
            quota,
            built,
        }))
    }

    pub(crate) fn limit(&self) -> &FleetKeyed {
        &self.limit
    }

    /// Returns an error if a limit of this name cannot have the quota.
    pub(crate) fn check_quota(&self) -> Result<(), FleetError> {
        self.limit.check_quota_of_name(self.quota)
    }

    /// Puts the quota into force, for all limits of this name. What was taken stays taken.
    pub(crate) fn set_quota(&self) -> Result<(), FleetError> {
        match self.limit.quota() == self.quota {
            true => Ok(()),
            false => self.limit.set_quota(self.quota),
        }
    }

    /// Takes `n` tokens, or none.
    pub(crate) async fn take(
        &self,
        key: &Key<'_>,
        n: u64,
        deadline: Option<Instant>,
    ) -> Result<Answer, Undecided> {
        let span = debug_span!("call", limits = 1);
        let ask = match deadline {
            Some(deadline) => self.ask(key, n).within(until(deadline)),
            None => self.ask(key, n),
        };
        match ask.instrument(span).await {
            Ok(admitted) => Ok(Ok(By::of(admitted))),
            Err(denied) => Undecided::of(&denied).map_or(Ok(Err(denied)), Err),
        }
    }

    /// Returns the request for `n` tokens.
    pub(crate) fn ask(&self, key: &Key<'_>, n: u64) -> Ask {
        self.limit.ask(key.bytes()).n(n)
    }

    /// Returns what is left, by the store's last answer about the key.
    pub(crate) fn standing(&self, key: &Key<'_>) -> FleetStanding {
        self.limit.standing(key.bytes())
    }

    /// Returns how much all servers may have admitted beyond the quota, in tokens.
    pub(crate) fn bound(&self) -> FleetBound {
        self.limit.bound()
    }

    pub(crate) fn cut_off(&self) -> CutOff {
        self.limit.cut_off()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.limit.inspect().is_connected
    }
}

/// Returns how a store keeps this. `None`: there is nothing to keep.
///
/// # Errors
///
/// Returns what to write instead.
fn kept(allows: &Allows) -> Result<Option<(StoredKind, Quota)>, String> {
    Ok(Some(match *allows {
        Allows::Everything | Allows::Nothing { .. } => return Ok(None),
        Allows::Windows { count, unit } => {
            let quota = Quota::new(count.into(), unit.length());
            (
                StoredKind::AlignedWindow,
                quota.map_err(|error| error.to_string())?,
            )
        }
        Allows::Quota { kind, quota } => match kind {
            LimiterKind::Token => (StoredKind::Bucket, quota),
            LimiterKind::Fixed => (StoredKind::Window, quota),
            LimiterKind::Aligned => (StoredKind::AlignedWindow, quota),
            _ => {
                let kind = kind.name();
                return Err(format!(
                    "a store has no limit of the algorithm {kind}: write token, fixed or aligned, or run without --store"
                ));
            }
        },
        Allows::TwoQuotas(_) => {
            return Err(
                "a limit in a store has one quota: write two descriptors, or run without --store"
                    .to_owned(),
            );
        }
    }))
}

impl Built {
    fn limit(
        self,
        fleet: &Fleet,
        name: &str,
        (kind, quota): (StoredKind, Quota),
    ) -> Result<FleetKeyed, FleetError> {
        if kind == StoredKind::Bucket {
            let builder = fleet.keyed(name, quota).capacity(self.capacity);
            let builder = match self.leased {
                Some(Exceeds::Percent(percent)) => builder.leased(Overshoot::percent(percent)),
                Some(Exceeds::Tokens(tokens)) => builder.leased(Overshoot::tokens(tokens)),
                None => builder,
            };
            return match self.cut_off {
                Some(cut_off) => builder.when_cut_off(cut_off).build(),
                None => builder.build(),
            };
        }
        let builder = fleet.keyed_window(name, quota).capacity(self.capacity);
        let builder = match self.cut_off {
            Some(cut_off) => builder.when_cut_off(cut_off),
            None => builder,
        };
        match kind {
            StoredKind::AlignedWindow => builder.align_to_wall().build(),
            _ => builder.build(),
        }
    }
}
