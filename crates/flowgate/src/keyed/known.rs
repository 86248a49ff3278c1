//! The state of a key at an instant, and what follows from it: the decision, the remaining units, and when the limit is full.

use super::entry::{TICK_BITS, TICKS_PER_NS};
use super::rule::{Change, Rule, Terms};
use crate::limiter::{QuotaState, Snapshot};
use crate::quota::Quota;
use crate::verdict::{Denied, duration_from_nanos};
use core::marker::PhantomData;

/// The state of a key at an instant, in the terms of the request.
pub(crate) struct Known<R> {
    pub(crate) terms: Terms,
    pub(crate) state: u128,
    /// The time of the decision.
    pub(crate) now: u128,
    /// Before this time, nothing can be granted, because the debt of the key is not known.
    pub(crate) since: u128,
    /// The change that made the terms current, if it was after `now`.
    pub(crate) change: Option<Change>,
    /// When this decision changes the key to these terms; 0 if it does not.
    pub(crate) exchanged: u128,
    /// When the key is full again if it stays without an entry.
    pub(crate) free: Option<u128>,
    pub(crate) rule: PhantomData<fn() -> R>,
}

impl<R: Rule> Known<R> {
    pub(crate) fn new(terms: Terms, state: u128, now: u128) -> Self {
        Self {
            terms,
            state,
            now,
            since: 0,
            change: None,
            exchanged: 0,
            free: None,
            rule: PhantomData,
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        // It has been one.
        (self.now >> TICK_BITS) as u64
    }

    fn change_after(&self, now: u128) -> Option<&Change> {
        self.change.as_ref().filter(|change| now < change.at)
    }

    fn take_at(&self, now: u128, n: u64) -> Result<u128, u128> {
        match self.change_after(now) {
            Some(change) => R::take_before(self.state, now, n, change),
            None => R::take(self.state, now, n, &self.terms),
        }
    }

    /// Takes `n`, which is at most what the terms ever allow. Returns the new state, or how many ticks are missing.
    pub(crate) fn take(&self, n: u64) -> Result<u128, u128> {
        let at = self.now.max(self.since);
        let taken = self
            .take_at(at, n)
            .map_err(|missing| self.unless_free(at, n, missing));
        match at - self.now {
            0 => taken,
            unknown => Err(unknown + taken.err().unwrap_or(0)),
        }
    }

    /// Returns `ticks` from `at`, or the ticks until the key is free and can take `n`, if that is earlier.
    fn unless_free(&self, at: u128, n: u64, ticks: u128) -> u128 {
        let Some(free) = self.free.map(|free| free.max(at)) else {
            return ticks;
        };
        let takes = match self.change_after(free) {
            // Before a change, the burst or limit may have been a smaller one. Units flowed in at another rate.
            Some(change) if R::FLOWS || n > change.from.most => change.at,
            _ => free,
        };
        ticks.min(takes - at)
    }

    /// Returns the error for `n` units that lack `missing` ticks.
    pub(crate) fn denied(&self, n: u64, missing: u128) -> Denied {
        denied::<R>(
            missing,
            self.state,
            self.now.max(self.since),
            n,
            &self.terms,
        )
    }

    /// Returns an error if `n` units cannot be taken.
    pub(crate) fn judge(&self, n: u64) -> Result<(), Denied> {
        match n {
            0 => Ok(()),
            n if n > self.terms.most => Err(never::<R>(n, &self.terms)),
            n => self
                .take(n)
                .map(drop)
                .map_err(|missing| self.denied(n, missing)),
        }
    }

    /// Returns how many units could be taken.
    pub(crate) fn left(&self) -> u64 {
        match self.change_after(self.now) {
            _ if self.since > self.now => 0,
            Some(change) => R::left_before(self.state, self.now, change),
            None => R::left(self.state, self.now, &self.terms),
        }
    }

    /// Returns how many ticks it takes until the limit is full.
    pub(crate) fn whole_after(&self) -> u128 {
        let at = self.now.max(self.since);
        let whole_after = R::whole_after(self.state, at, &self.terms);
        at - self.now + self.unless_free(at, self.terms.most, whole_after)
    }

    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: self.terms.most,
            remaining: self.left(),
            reset_after: duration_from_nanos(self.whole_after().div_ceil(TICKS_PER_NS.into())),
        }
    }

    /// Returns the state of `quota`, the quota at `index`, by itself.
    pub(crate) fn quota_state(&self, index: usize, quota: Quota) -> QuotaState {
        let at = self.now.max(self.since);
        let (units, _) = match self.change_after(at) {
            Some(_) => (0, 0),
            None if at > self.now => (0, 0),
            None => R::by_quota(index, self.state, at, 0, &self.terms),
        };
        let missing = |n| match self.change_after(at) {
            Some(change) => {
                let (_, missing) = R::by_quota(index, self.state, change.at, n, &change.to);
                change.at - at + missing
            }
            None => R::by_quota(index, self.state, at, n, &self.terms).1,
        };
        QuotaState::new(quota, units, |n| {
            let ticks = at - self.now + self.unless_free(at, n, missing(n));
            duration_from_nanos(ticks.div_ceil(TICKS_PER_NS.into()))
        })
    }

    /// Returns the state after other callers have taken `ahead` units: exactly, or less.
    pub(crate) fn behind(&self, ahead: u128) -> Self {
        let at = self.now.max(self.since);
        let state = match self.change_after(at) {
            Some(change) => R::behind_before(self.state, at, ahead, change),
            None => R::behind(self.state, at, ahead, &self.terms),
        };
        Self { state, ..*self }
    }
}

/// Returns the error for more units than the terms ever allow.
#[cold]
pub(crate) fn never<R: Rule>(n: u64, terms: &Terms) -> Denied {
    let denied = Denied::never(n, terms.most);
    match R::smallest(terms) {
        Some(quota) => denied.by_limit(quota),
        None => denied,
    }
}

/// Returns the error for `n` units that cannot be taken until `missing` ticks have passed after `now`.
#[inline]
pub(crate) fn denied<R: Rule>(
    missing: u128,
    state: u128,
    now: u128,
    n: u64,
    terms: &Terms,
) -> Denied {
    let denied = Denied::later(missing, TICKS_PER_NS);
    match R::refused_by(state, now, n, terms) {
        Some(quota) => denied.by_limit(quota),
        None => denied,
    }
}
