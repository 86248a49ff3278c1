//! Times before the last change of quota.
//!
//! A change re-expresses the state as of its own instant, in ticks of the new rate. Before that instant the new rate says
//! nothing: tokens flowed in at the old one. A caller that brings such a time (it read the clock before the change, or its clock
//! was set back) is therefore decided at the instant of the change, less the tokens that flowed in between:
//!
//! ```text
//!  tokens                                  ╭── new rate
//!         │            old rate       ╭────╯
//!         │                  ╭────────┤
//!         │         ╭────────╯        │
//!         │         ┊ ◀── missing ──▶ │
//!         └─────────┴─────────────────┴──────────▶ time
//!                  now              change
//! ```
//!
//! So no token is granted twice: what flowed in before the change counts once, and only from when it did. If the bucket was full
//! before the change, nothing flowed in after that. Of the times before the change before the last one, no more is known
//! than that no token needs to be there: they are refused until that change.

use super::parameters::Parameters;
use crate::algorithm::mul_div::mul_div;

/// What a limiter keeps of the time before its last change of quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// The parameters until the change.
    old: Parameters,
    /// Until when tokens flowed in, in ticks of `old`.
    filled: u128,
}

/// A time before the last change of quota, and what was missing then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    past: Past,
    /// In ticks of the new parameters.
    pub(super) missing: u128,
}

/// More than any bucket holds or owes.
const MOST_MISSING: u128 = 1 << 96;

impl Past {
    /// The time before a change at `new.since_ns` from `old`, which left the state `tat`.
    pub(super) fn new(old: Parameters, tat: u128, new: &Parameters) -> Self {
        Self {
            filled: tat.min(old.now_ticks(new.since_ns)),
            old,
        }
    }

    pub(super) fn behind(self, now_ns: u64, new: &Parameters) -> Behind {
        Behind {
            missing: self.missing(now_ns, new),
            past: self,
        }
    }

    /// What flowed in from `now_ns` until the change.
    fn missing(&self, now_ns: u64, new: &Parameters) -> u128 {
        let known_ns = now_ns.max(self.old.since_ns);
        let flowed = self.filled.saturating_sub(self.old.now_ticks(known_ns));
        let missing = new.tokens_up(&self.old, flowed);
        let all = match now_ns < self.old.since_ns {
            true => new.burst_ticks() + new.debt_ticks(),
            false => 0,
        };
        missing.saturating_add(all).min(MOST_MISSING)
    }

    /// The first instant from `now_ns` on, and before the change, at which at most `most` is missing.
    fn instant(&self, now_ns: u64, most: u128, new: &Parameters) -> u128 {
        if self.missing(now_ns, new) <= most {
            return now_ns.into();
        }
        let old = &self.old;
        let known_ns = now_ns.max(old.since_ns);
        if self.missing(known_ns, new) <= most {
            return known_ns.into();
        }
        let (flowed, _) = mul_div(most, old.token_ticks(), new.token_ticks());
        let ns = self.filled.saturating_sub(flowed);
        old.next_move_ns(ns.div_ceil(u128::from(old.ticks_per_ns)))
    }
}

impl Behind {
    /// The instant at which `short` ticks more are there than at `now_ns`.
    pub(super) fn instant(&self, now_ns: u64, short: u128, new: &Parameters) -> u128 {
        match self.missing.checked_sub(short) {
            Some(most) => self.past.instant(now_ns, most, new),
            None => {
                let rest = short - self.missing;
                let ticks = new.now_ticks(new.since_ns) + rest;
                let ns = ticks.div_ceil(u128::from(new.ticks_per_ns));
                new.next_move_ns(ns).max(new.since_ns.into())
            }
        }
    }
}
