//! The limiter that warms up, kept as the next free time and the store.
//!
//! Source: `SmoothWarmingUp` of Guava's `RateLimiter` (D. Kozlov, L. Wasserman, after an idea of D. Andreou),
//! here in whole numbers and for any cold factor.
//!
//! Idle time stores permits, and stored permits mean a cold system: the more there are, the longer the interval between two of
//! them.
//!
//! ```text
//!  interval
//!      ▲
//!  cold ┤                      ╱      cold = cold factor · stable
//!      │                    ╱ ┆
//!      │                 ╱    ┆
//! stable┤──────────────╱       ┆      the area under the slope is the warm-up,
//!      │              ┆       ┆      the area left of it half of that
//!     0 ┼─────────────┴───────┴──▶ stored
//!      0          threshold  full
//! ```
//!
//! Taking *n* moves leftward by *n*, and costs the time that is the area passed over. Permits beyond the store cost the stable
//! interval each. The operation that takes does not wait for this time; the next one does, because the next free time moves by
//! it. Idle time moves rightward, from nothing to full in one warm-up.
//!
//! # In whole numbers
//!
//! Let *F* be the cold factor, *W* the warm-up in ticks and *p* the stable interval. Let *y* be the stored permits times *p*.
//! Guava's definitions are then
//!
//! ```text
//!   threshold = W / 2      full = W/2 + 2W/(1 + F)      y gained in a tick of idling = (F + 5) / 2(F + 1)
//!   cost of y₁ → y₂ = (y₁ − y₂) + (F² − 1)/4W · (u₁² − u₂²)      where u = max(y − threshold, 0)
//! ```
//!
//! which do not depend on the rate. So a change of rate that keeps *y* keeps the stored fraction, as in Guava.
//!
//! The state holds *b · y*, where *b* = 2(F + 1)/h and *a* = (F + 5)/h for h = gcd(4, F + 1). A tick of idling adds *a*, a
//! permit takes *b · p*, full is *a · W*, and all of these are whole. The quadratic term is rounded up to whole ticks, once for
//! every grant. Nothing else is rounded here.

/// The numbers from which costs are computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    /// The stable interval of one unit: *p*.
    pub(crate) unit_ticks: u64,
    /// From full to the threshold: *W*, at most [`Curve::most_warm_up_ticks`].
    pub(crate) warm_up_ticks: u64,
    /// The interval when full by the stable one: *F*, 1 or more.
    pub(crate) cold_factor: u32,
}

/// Both in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The time of the next grant.
    pub(crate) next_free: u128,
    /// *b · y* at that instant.
    pub(crate) stored: u128,
}

impl Curve {
    /// The longest warm-up for which no product below has more than 128 bits.
    pub(crate) const fn most_warm_up_ticks(cold_factor: u32) -> u64 {
        let slope = 16 * (cold_factor as u128 - 1);
        let most = match (u128::MAX / 2).checked_div(slope) {
            Some(square) => square.isqrt(),
            None => u128::MAX,
        };
        if most < 1 << 62 { most as u64 } else { 1 << 62 }
    }

    /// h as a power of two.
    const fn shift(&self) -> u32 {
        let zeros = (self.cold_factor as u64 + 1).trailing_zeros();
        if zeros < 2 { zeros } else { 2 }
    }

    /// *a*: what a tick of idling adds to what is stored.
    pub(crate) const fn gained_per_tick(&self) -> u64 {
        (self.cold_factor as u64 + 5) >> self.shift()
    }

    /// *b*: what is stored for one tick at the stable rate. Even.
    pub(crate) const fn stored_per_tick(&self) -> u64 {
        ((self.cold_factor as u64 + 1) * 2) >> self.shift()
    }

    /// The most that is stored.
    pub(crate) const fn full(&self) -> u128 {
        self.gained_per_tick() as u128 * self.warm_up_ticks as u128
    }

    const fn threshold(&self) -> u128 {
        (self.stored_per_tick() / 2) as u128 * self.warm_up_ticks as u128
    }

    /// The state at `now`, which is not before its next free time, with the idle time until then stored.
    #[inline(always)]
    fn rested(&self, state: State, now: u128) -> State {
        let idle = now - state.next_free;
        let warm_up = u128::from(self.warm_up_ticks);
        let stored = if idle >= warm_up {
            self.full()
        } else {
            (state.stored + u128::from(self.gained_per_tick()) * idle).min(self.full())
        };
        State {
            next_free: now,
            stored,
        }
    }

    /// The state after `n` units more, whose cost the next free time has moved by.
    #[inline(always)]
    pub(crate) fn spent(&self, state: State, n: u64) -> State {
        let stable = u128::from(n) * u128::from(self.unit_ticks);
        // All of it, or so little that the product fits: the store is less than 2⁷⁸ at any cold factor.
        let stored = if stable >= state.stored {
            0
        } else {
            let drawn = stable * u128::from(self.stored_per_tick());
            state.stored.saturating_sub(drawn)
        };
        State {
            next_free: state.next_free + stable + self.slope_ticks(state.stored, stored),
            stored,
        }
    }

    /// The quadratic term from `before` down to `after`, rounded up.
    #[inline(always)]
    fn slope_ticks(&self, before: u128, after: u128) -> u128 {
        let threshold = self.threshold();
        if before <= threshold || self.cold_factor == 1 {
            return 0;
        }
        let (before, after) = (before - threshold, after.saturating_sub(threshold));
        let (passed, both) = (before - after, before + after);
        let steepness = u128::from(self.cold_factor - 1) << self.shift();
        let by = 8 * u128::from(self.stored_per_tick()) * u128::from(self.warm_up_ticks);
        #[expect(clippy::manual_div_ceil, reason = "it divides twice")]
        let ticks = (steepness * (passed * both) + (by - 1)) / by;
        ticks
    }

    /// Takes `n` units if the next free time has come: the new state, or how many ticks are missing.
    #[inline(always)]
    pub(crate) fn take(&self, state: State, now: u128, n: u64) -> Result<State, u128> {
        if now < state.next_free {
            return Err(state.next_free - now);
        }
        Ok(self.spent(self.rested(state, now), n))
    }

    /// The state in which the next units are taken, at its next free time: now, or when that comes.
    pub(crate) fn settled(&self, state: State, now: u128) -> State {
        if now <= state.next_free {
            return state;
        }
        self.rested(state, now)
    }

    /// Returns up to `n` of the units that were taken last, as far as their cost lies after `from`. The result is the state
    /// before them, to a tick or so for each grant, and how many units came back.
    ///
    /// If the store is empty, it is not known how cold these units found it, and none come back. A guess that is too warm would
    /// admit later units at a lower cost. So would a guess that is too cold, because a later operation leaves less time to
    /// cool.
    pub(crate) fn give_back(&self, state: State, from: u128, n: u64) -> (State, u64) {
        let is_flat = self.cold_factor == 1 || self.warm_up_ticks == 0;
        if state.stored == 0 && !is_flat {
            return (state, 0);
        }
        let unit = u128::from(self.unit_ticks);
        let owed = state.next_free.saturating_sub(from);
        let before = |n: u64| {
            let stable = u128::from(n) * unit;
            let drawn = stable.saturating_mul(u128::from(self.stored_per_tick()));
            let stored = state.stored.saturating_add(drawn).min(self.full());
            // No more than it has cost before it was rounded up.
            let slope = self.slope_ticks(stored, state.stored).saturating_sub(1);
            (stable + slope, stored)
        };
        // The most that are owed for, by bisection: `least` are, `most` + 1 are not.
        let most = u64::try_from(owed / unit).unwrap_or(u64::MAX);
        let (mut least, mut most) = (0, n.min(most));
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if before(middle).0 <= owed {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        let (cost, stored) = before(least);
        let next_free = state.next_free - cost;
        (State { next_free, stored }, least)
    }
}
