//! The limits of this process by their names: a name has one quota.

use crate::FleetError;
use crate::leased::{Filling, FleetLeased};
use crate::strict::Strict;
use crate::terms::Kind;
use flowgate::{Leased, Quota};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Names are looked through for dropped limits when there are twice as many as after the last time, and at least this many.
const FEW: usize = 64;

/// The names of limits that are in use.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    uses: HashMap<String, Vec<Use>>,
    /// How many there were after the dropped ones were removed.
    used: usize,
}

/// What a limit states of its name.
#[derive(Debug)]
struct Use {
    stated: Stated,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stated {
    pub(crate) kind: Kind,
    pub(crate) quota: Quota,
    /// A new quota without a burst keeps the burst.
    pub(crate) is_leaky: bool,
}

#[derive(Debug)]
enum Limit {
    /// All handles share the second.
    Strict(Weak<Strict>, Weak<Lives>),
    /// The second fills the first, which keeps it alive.
    Leased(Weak<Leased>, Weak<Filling>),
}

/// A part of each handle of a strict limit: the limit is in use while there is one. A call in flight holds none.
#[derive(Debug)]
pub(crate) struct Lives;

impl Use {
    fn is_dropped(&self) -> bool {
        match &self.limit {
            Limit::Strict(_, lives) => lives.strong_count() == 0,
            Limit::Leased(leased, _) => leased.strong_count() == 0,
        }
    }
}

impl Limit {
    fn check_quota(&self, quota: Quota) -> Result<(), FleetError> {
        match self {
            Self::Strict(strict, _) => match strict.upgrade() {
                Some(strict) => strict.check_quota(quota),
                None => Ok(()),
            },
            Self::Leased(_, filling) => match filling.upgrade() {
                Some(filling) => filling.check_quota(quota),
                None => Ok(()),
            },
        }
    }

    fn set_quota(&self, quota: Quota) -> Result<(), FleetError> {
        match self {
            Self::Strict(strict, _) => match strict.upgrade() {
                Some(strict) => strict.set_quota(quota),
                None => Ok(()),
            },
            Self::Leased(_, filling) => match filling.upgrade() {
                Some(filling) => filling.set_quota(quota),
                None => Ok(()),
            },
        }
    }
}

impl Names {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a strict limit. Returns what its handles hold.
    ///
    /// # Errors
    ///
    /// A limit of this name that is in use counts in another way, or has another quota.
    pub(crate) fn use_strict(
        &self,
        name: &str,
        stated: Stated,
        strict: &Arc<Strict>,
    ) -> Result<Arc<Lives>, FleetError> {
        let lives = Arc::new(Lives);
        let limit = Limit::Strict(Arc::downgrade(strict), Arc::downgrade(&lives));
        self.known().add(name, Use { stated, limit })?;
        Ok(lives)
    }

    /// Notes a leased limit.
    ///
    /// # Errors
    ///
    /// The same.
    pub(crate) fn use_leased(
        &self,
        name: &str,
        stated: Stated,
        leased: &FleetLeased,
    ) -> Result<(), FleetError> {
        let limit = Limit::Leased(Arc::downgrade(leased), Arc::downgrade(leased.filling()));
        self.known().add(name, Use { stated, limit })
    }

    /// # Errors
    ///
    /// A limit of this name cannot have the quota.
    pub(crate) fn check_quota(&self, name: &str, quota: Quota) -> Result<(), FleetError> {
        self.known().check_quota(name, quota).map(drop)
    }

    /// Replaces the quota of all limits of this name.
    ///
    /// # Errors
    ///
    /// One of them cannot have it. Nothing is changed.
    pub(crate) fn set_quota(&self, name: &str, quota: Quota) -> Result<(), FleetError> {
        let mut known = self.known();
        let quota = known.check_quota(name, quota)?;
        let uses = known.uses.get_mut(name).into_iter().flatten();
        for used in uses {
            used.limit.set_quota(quota)?;
            used.stated.quota = quota;
        }
        Ok(())
    }
}

impl Known {
    /// Returns the quota with its burst.
    fn check_quota(&mut self, name: &str, quota: Quota) -> Result<Quota, FleetError> {
        let Some(uses) = self.uses.get_mut(name) else {
            return Ok(quota);
        };
        uses.retain(|used| !used.is_dropped());
        let leaky = uses.iter().find(|used| used.stated.is_leaky);
        let quota = match leaky {
            Some(leaky) if quota.explicit_burst().is_none() => {
                let quota = quota.try_burst(leaky.stated.quota.max_burst());
                quota.map_err(|error| FleetError::Quota(Box::new(error)))?
            }
            _ => quota,
        };
        for used in uses.iter() {
            used.limit.check_quota(quota)?;
        }
        Ok(quota)
    }

    fn add(&mut self, name: &str, new: Use) -> Result<(), FleetError> {
        if self.uses.len() > 2 * self.used.max(FEW) {
            self.uses
                .retain(|_, uses| !uses.iter().all(Use::is_dropped));
            self.used = self.uses.len();
        }
        let uses = self.uses.entry(name.to_owned()).or_default();
        uses.retain(|used| !used.is_dropped());
        let counts = |used: &Use| (used.stated.kind, used.stated.quota);
        let is_other = |used: &&Use| counts(used) != counts(&new);
        if let Some(other) = uses.iter().find(is_other) {
            return Err(FleetError::OtherQuota {
                name: name.to_owned(),
                stated: describe(other.stated.kind, other.stated.quota),
            });
        }
        uses.push(new);
        Ok(())
    }
}

/// Returns a limit as a program states it.
pub(crate) fn describe(kind: Kind, quota: Quota) -> String {
    match kind {
        Kind::Bucket => format!("the quota {quota}"),
        Kind::Window => format!("windows of {quota}"),
        Kind::AlignedWindow => format!("aligned windows of {quota}"),
    }
}
