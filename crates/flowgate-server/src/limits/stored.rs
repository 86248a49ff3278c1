//! A limit in a store that several servers share.

use super::Key;
use crate::config::{Allows, Terms};
use crate::decision::Undecided;
use flowgate::{Denied, LimiterKind, Quota};
use flowgate_fleet::{Ask, CutOff, Fleet, FleetError, FleetKeyed, FleetStanding};
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
    cut_off: Option<CutOff>,
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
        let (cut_off, capacity) = (terms.cut_off, terms.capacity.unwrap_or(CAPACITY));
        let build = |name: &str, quota, capacity| {
            let built = built(fleet, name, (kind, quota), cut_off, capacity);
            built.map_err(|error| match error {
                FleetError::NoCutOff => "what is admitted while the store does not answer is not known: add --nodes N, or write `when_cut_off: deny`".to_owned(),
                error => error.to_string(),
            })
        };
        let limit = match before {
            None => build(id, quota, capacity)?,
            Some(before) if before.kind != kind => {
                let what = "a limit in a store cannot become another kind of limit while servers run: give it another key, or restart them";
                return Err(what.to_owned());
            }
            Some(before) => {
                // All limits of one name have one quota. Whether they can have this one, another name tells.
                build(&format!("{id} "), quota, 1)?;
                match (before.cut_off, before.capacity) == (cut_off, capacity) {
                    true => before.limit.clone(),
                    false => build(id, before.limit.quota(), capacity)?,
                }
            }
        };
        Ok(Some(Self {
            limit,
            kind,
            quota,
            cut_off,
            capacity,
        }))
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
    ) -> Result<Result<(), Denied>, Undecided> {
        let span = debug_span!("call", limits = 1);
        match self.ask(key, n).instrument(span).await {
            Ok(_) => Ok(Ok(())),
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

    /// Returns how much all servers may have admitted beyond the quota, in tokens. `None`: without a bound.
    pub(crate) fn beyond(&self) -> Option<u64> {
        self.limit.bound().total()
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

fn built(
    fleet: &Fleet,
    name: &str,
    (kind, quota): (StoredKind, Quota),
    cut_off: Option<CutOff>,
    capacity: usize,
) -> Result<FleetKeyed, FleetError> {
    if kind == StoredKind::Bucket {
        let builder = fleet.keyed(name, quota).capacity(capacity);
        return match cut_off {
            Some(cut_off) => builder.when_cut_off(cut_off).build(),
            None => builder.build(),
        };
    }
    let builder = fleet.keyed_window(name, quota).capacity(capacity);
    let builder = match cut_off {
        Some(cut_off) => builder.when_cut_off(cut_off),
        None => builder,
    };
    match kind {
        StoredKind::AlignedWindow => builder.align_to_wall().build(),
        _ => builder.build(),
    }
}
