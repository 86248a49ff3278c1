//! Times before the last change of quota.
//!
//! A change re-expresses the state as of its own instant, in ticks of the new rate. The new rate does not apply before that
//! instant: tokens flowed in at the old rate. A caller can bring such a time if it read the clock before the change, or if its
//! clock was set back. Its request is decided at the instant of the change, less the tokens that flowed in between:
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
//! So no token is granted twice: tokens that flowed in before the change count once, and only from the time when they did. If
//! the bucket was full before the change, nothing flowed in after that. For times before the previous change, the limiter only
//! knows that no token needs to be available. Requests at these times are refused until that change.
//!
//! That is so for tokens; for windows, see [`windows_behind`](super::windows_behind).

use super::parameters::Parameters;
use super::rule::Rule;
use crate::algorithm::mul_div::mul_div;

/// What a limiter stores about the time before its last change of quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// The parameters until the change.
    pub(super) old: Parameters,
    /// Until when tokens flowed in, in ticks of `old`; for windows, the state ([`windows_behind`](super::windows_behind)).
    pub(super) state: u128,
}

/// What a caller sees at a time before the last change of quota.
#[derive(Debug)]
pub(super) struct Behind {
    pub(super) past: Past,
    pub(super) new: Parameters,
    pub(super) now_ns: u64,
    /// The instant of the change, as limiter time.
    pub(super) change: u128,
    /// What flowed in from now until the change, in ticks.
    missing: u128,
}

/// More than any bucket holds, and more than any debt.
const MOST_MISSING: u128 = 1 << 96;

impl Past {
    /// The time before a change at `new.since_ns` from `old` in `state`.
    pub(super) fn new<R: Rule>(old: Parameters, state: u128, new: &Parameters) -> Self {
        let state = match R::HAS_WINDOWS {
            true => state,
            false => state.min(old.now_ticks(new.since_ns)),
        };
        Self { old, state }
    }
}

impl Behind {
    /// At `now_ns`, before the change from the `past` to `new`.
    pub(super) fn new<R: Rule>(now_ns: u64, past: Past, new: Parameters) -> Self {
        let mut behind = Self {
            change: new.now_ticks(new.since_ns),
            past,
            new,
            now_ns,
            missing: 0,
        };
        if !R::HAS_WINDOWS {
            behind.missing = behind.missing_at(now_ns);
        }
        behind
    }

    /// Returns what a caller sees of the stored state.
    pub(super) fn seen(&self, stored: u128) -> u128 {
        stored.max(self.change) + self.missing
    }

    /// Returns what is stored of a state that was derived from one that was seen.
    pub(super) fn stored(&self, seen: u128) -> u128 {
        seen - self.missing
    }

    /// Returns the first instant at which there are `short` ticks more than now.
    #[cold]
    #[inline(never)]
    pub(super) fn instant(&self, short: u128) -> u128 {
        match self.missing.checked_sub(short) {
            Some(most) => self.first_with(most),
            None => {
                let ticks = self.change + (short - self.missing);
                let ns = ticks.div_ceil(u128::from(self.new.ticks_per_ns));
                let ns = self.new.next_move_ns(ns);
                ns.max(self.new.since_ns.into())
            }
        }
    }

    /// Returns the first instant, before the change, at which at most `most` is missing.
    fn first_with(&self, most: u128) -> u128 {
        let old = &self.past.old;
        let known_ns = self.now_ns.max(old.since_ns);
        if self.missing_at(known_ns) <= most {
            return known_ns.into();
        }
        let (flowed, _) = mul_div(most, old.token_ticks(), self.new.token_ticks());
        let ns = self.past.state.saturating_sub(flowed);
        old.next_move_ns(ns.div_ceil(u128::from(old.ticks_per_ns)))
    }

    /// Returns what flowed in from `ns` until the change.
    fn missing_at(&self, ns: u64) -> u128 {
        let (old, new) = (&self.past.old, &self.new);
        let known = old.now_ticks(ns.max(old.since_ns));
        let missing = new.tokens_up(old, self.past.state.saturating_sub(known));
        let all = match ns < old.since_ns {
            true => new.burst_ticks() + new.debt_ticks(),
            false => 0,
        };
        missing.saturating_add(all).min(MOST_MISSING)
    }
}
