//! Two token buckets that are decided together, each kept as one time.
//!
//! Source: the dual leaky bucket of ATM (ATM Forum, *Traffic Management Specification 4.0*, 1996), with a cost per operation.
//! It is one generic cell rate algorithm for the peak rate and one for the sustained rate. See also `Bandwidth` of bucket4j.
//!
//! Each bucket takes the step of [`token_bucket`], in ticks of its own rate: a nanosecond and a token are whole numbers of
//! ticks, so nothing is rounded. An operation takes from both buckets or from neither:
//!
//! ```text
//!                 arrival time                  holds at now
//!   peak       ────┼──────●────────┼────────▶   now + burst − tat, here most of its burst
//!                 now         now + burst
//!   sustained  ────┼───────────────────●──┼─▶   and here little: this one decides
//!                 now                  now + burst
//! ```
//!
//! # Reservations
//!
//! A reservation takes its units from both buckets at the time at which it may be used, which is the first time that both hold
//! them. In each bucket that is an ordinary grant at that time, so both bounds hold whatever comes after. Until then, at least
//! one bucket is in debt, so nothing is granted before a reservation that was made earlier.
//!
//! Therefore the last grant was at a time *t* with
//!
//! ```text
//!   t ≤ tat ≤ t + burst       in both buckets, however far t lies ahead
//! ```
//!
//! and a pair of arrival times can be stored as two offsets from a common base. Each offset needs hardly more bits than the
//! burst in ticks.

use super::mul_div::mul_div;
use super::token_bucket;

/// One quota, in ticks of its own rate. [`NONE`](Self::NONE) means that there is no second quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// At most 2³¹.
    pub(crate) ticks_per_ns: u64,
    pub(crate) unit_ticks: u64,
    pub(crate) burst_units: u64,
}

/// Both quotas.
pub(crate) type Buckets = [Bucket; 2];

/// The theoretical arrival times, in ticks since the clock's origin: when each bucket will be full again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) [u128; 2]);

/// The longer of the two waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) ticks: u128,
    pub(crate) ticks_per_ns: u64,
    /// The index of the quota with the longer wait.
    pub(crate) quota: usize,
}

impl Bucket {
    /// Always full: its clock stands still and nothing costs anything.
    pub(crate) const NONE: Self = Self {
        ticks_per_ns: 0,
        unit_ticks: 0,
        burst_units: u64::MAX,
    };

    pub(crate) const fn is_none(&self) -> bool {
        self.ticks_per_ns == 0
    }

    pub(crate) const fn ticks_in(&self, ns: u128) -> u128 {
        ns * self.ticks_per_ns as u128
    }

    pub(crate) const fn burst_ticks(&self) -> u128 {
        self.cost(self.burst_units)
    }

    pub(crate) const fn cost(&self, n: u64) -> u128 {
        n as u128 * self.unit_ticks as u128
    }

    /// `ticks` in nanoseconds, rounded up.
    const fn ns(&self, ticks: u128) -> u128 {
        match self.ticks_per_ns {
            0 => 0,
            ticks_per_ns => ticks.div_ceil(ticks_per_ns as u128),
        }
    }

    /// The first tick of this bucket that is not before `ticks` of `other`.
    const fn ticks_from(&self, other: &Self, ticks: u128) -> u128 {
        match other.ticks_per_ns {
            0 => 0,
            // Under 2⁹⁶ ticks times 2³¹.
            ticks_per_ns => (ticks * self.ticks_per_ns as u128).div_ceil(ticks_per_ns as u128),
        }
    }

    /// The time at which a bucket with this arrival time held nothing, or will; 0 if before the origin.
    const fn empty_at(&self, tat: u128) -> u128 {
        tat.saturating_sub(self.burst_ticks())
    }

    /// `ticks` in units, rounded up, so that the reported number is never too low.
    fn units_up(&self, ticks: u128) -> u64 {
        match self.unit_ticks {
            0 => 0,
            unit_ticks => {
                let units = ticks.div_ceil(u128::from(unit_ticks));
                u64::try_from(units).unwrap_or(u64::MAX)
            }
        }
    }

    /// How long it takes until this bucket alone holds `n` units, at most its burst: in nanoseconds, rounded up.
    pub(crate) fn wait_ns(&self, tat: u128, now_ns: u64, n: u64) -> u128 {
        let now = self.ticks_in(now_ns.into());
        let taken = token_bucket::take(tat, now, self.cost(n), self.burst_ticks());
        self.ns(taken.err().unwrap_or(0))
    }

    pub(crate) fn units_at(&self, tat: u128, now_ns: u64) -> u64 {
        let now = self.ticks_in(now_ns.into());
        let level = token_bucket::level(tat, now, self.burst_ticks());
        match self.unit_ticks {
            0 => u64::MAX,
            // At most the burst.
            unit_ticks => (level / u128::from(unit_ticks)) as u64,
        }
    }
}

/// The index of the quota with the smaller burst: no request may be for more units.
pub(crate) const fn smaller(buckets: &Buckets) -> usize {
    (buckets[1].burst_units < buckets[0].burst_units) as usize
}

/// Takes `n` units, at most either burst, if both buckets hold them. Returns the new state, or the wait.
#[inline(always)]
pub(crate) fn take(
    buckets: &Buckets,
    state: State,
    now_ns: u64,
    n: u64,
) -> Result<State, Shortage> {
    let take = |index: usize| {
        let bucket = &buckets[index];
        let (now, cost) = (bucket.ticks_in(now_ns.into()), bucket.cost(n));
        token_bucket::take(state.0[index], now, cost, bucket.burst_ticks())
    };
    match [take(0), take(1)] {
        [Ok(first), Ok(second)] => Ok(State([first, second])),
        [first, second] => {
            let missing = [first, second].map(|taken| taken.err().unwrap_or(0));
            Err(longer(buckets, missing))
        }
    }
}

/// The longer of two waits in ticks.
#[cold]
fn longer(buckets: &Buckets, missing: [u128; 2]) -> Shortage {
    // Under 2⁹⁶ ticks times 2³¹.
    let scaled = |ticks: u128, by: &Bucket| ticks * u128::from(by.ticks_per_ns);
    let second =
        !buckets[1].is_none() && scaled(missing[1], &buckets[0]) > scaled(missing[0], &buckets[1]);
    let quota = usize::from(second);
    Shortage {
        ticks: missing[quota],
        ticks_per_ns: buckets[quota].ticks_per_ns,
        quota,
    }
}

/// Takes `n` units, at most either burst, at the first time that both buckets hold them. Returns the new state, and that time
/// in whole nanoseconds, rounded up.
///
/// The bucket that has the longer wait is charged at the exact time, so that a series of reservations does not drift. The other
/// one, if it is full by then, is charged at its next tick.
pub(crate) fn reserve(buckets: &Buckets, state: State, now_ns: u64, n: u64) -> (State, u128) {
    let held = |index: usize| {
        let bucket = &buckets[index];
        let now = bucket.ticks_in(now_ns.into());
        let cost = bucket.cost(n);
        token_bucket::reserve(state.0[index], now, cost, bucket.burst_ticks()).1
    };
    let held = [held(0), held(1)];
    let reserve = |index: usize| {
        let (bucket, other) = (&buckets[index], 1 - index);
        let at = held[index].max(bucket.ticks_from(&buckets[other], held[other]));
        let next = state.0[index].max(at) + bucket.cost(n);
        (next, bucket.ns(held[index]))
    };
    let ((first, first_ns), (second, second_ns)) = (reserve(0), reserve(1));
    (State([first, second]), first_ns.max(second_ns))
}

/// A lower bound of the wait for `n` units, at most either burst, after `ahead` more: in nanoseconds, and the quota with that
/// wait. It is exact if nothing was returned and no quota changed.
pub(crate) fn delay(
    buckets: &Buckets,
    state: State,
    now_ns: u64,
    ahead: u128,
    n: u64,
) -> Result<(), Shortage> {
    let wait_ns = |index: usize| {
        let bucket = &buckets[index];
        let now = bucket.ticks_in(now_ns.into());
        let units = ahead.saturating_add(n.into());
        let cost = units.saturating_mul(bucket.unit_ticks.into());
        let covered = state.0[index].max(now).saturating_add(cost);
        bucket.ns(covered.saturating_sub(now + bucket.burst_ticks()))
    };
    let wait_ns = [wait_ns(0), wait_ns(1)];
    let quota = usize::from(wait_ns[1] > wait_ns[0]);
    match wait_ns[quota] {
        0 => Ok(()),
        ticks => Err(Shortage {
            ticks,
            ticks_per_ns: 1,
            quota,
        }),
    }
}

/// How many units both buckets hold.
pub(crate) fn available(buckets: &Buckets, state: State, now_ns: u64) -> u64 {
    let units = |index: usize| buckets[index].units_at(state.0[index], now_ns);
    units(0).min(units(1))
}

/// The time at which both are full, in whole nanoseconds, rounded up.
pub(crate) fn full_at_ns(buckets: &Buckets, state: State) -> u128 {
    let full_ns = |index: usize| buckets[index].ns(state.0[index]);
    full_ns(0).max(full_ns(1))
}

/// Returns the newest `n` units to both buckets, as if they had never been taken. The result is the new state, and how many
/// units that is in the bucket that had more of them missing. Units that have flowed in again do not come back.
///
/// No reservation may start at or after `now_ns`.
pub(crate) fn give_back(buckets: &Buckets, state: State, now_ns: u64, n: u64) -> (State, u64) {
    let give_back = |index: usize| {
        let (bucket, before) = (&buckets[index], state.0[index]);
        let now = bucket.ticks_in(now_ns.into());
        let after = token_bucket::give_back(before, now, bucket.cost(n));
        (after, bucket.units_up(before - after).min(n))
    };
    let ((first, first_units), (second, second_units)) = (give_back(0), give_back(1));
    (State([first, second]), first_units.max(second_units))
}

/// Undoes an earlier grant of `n` units that led from one state to another. The result is the new state, and how many units
/// came back in the bucket that got more. It is rounded toward refusing.
///
/// Until the arrival time `after` the grant, a bucket is not full. All that was taken since was therefore added to that time,
/// and is known. Without the grant, it would have been added to the state `before` the grant, or to the state of a full bucket,
/// which is not later than now. From the arrival time on, nothing comes back: the units that were taken have flowed in again.
///
/// No reservation may start at or after `now_ns`.
pub(crate) fn undo(
    buckets: &Buckets,
    state: State,
    (before, after): (State, State),
    now_ns: u64,
    n: u64,
) -> (State, u64) {
    let undo = |index: usize| {
        let (bucket, tat) = (&buckets[index], state.0[index]);
        let now = bucket.ticks_in(now_ns.into());
        let taken_since = match tat.checked_sub(after.0[index]) {
            Some(taken_since) if now < after.0[index] => taken_since,
            _ => return (tat, 0),
        };
        let undone = before.0[index].max(now) + taken_since;
        let back = bucket.units_up(tat.saturating_sub(undone)).min(n);
        (undone.min(tat), back)
    };
    let ((first, first_units), (second, second_units)) = (undo(0), undo(1));
    (State([first, second]), first_units.max(second_units))
}

/// Converts `state` from the buckets `old` to the buckets `new`. A token has `new_scale` units instead of `old_scale`. Each
/// bucket keeps its tokens, up to its new burst. A quota that is new starts full.
///
/// If the last grant lies ahead, at the time of a reservation, the tokens are those that are left right after it. Until then,
/// tokens flow in at the slower of both rates. The result is rounded toward refusing, by less than two ticks in each bucket.
pub(crate) fn restated(
    (old, old_scale): (&Buckets, u64),
    (new, new_scale): (&Buckets, u64),
    state: State,
    now_ns: u64,
) -> State {
    let emptied_ns = |index: usize| old[index].ns(old[index].empty_at(state.0[index]));
    let now_ns = u128::from(now_ns);
    let then_ns = now_ns.max(emptied_ns(0)).max(emptied_ns(1));
    let restated = |index: usize| {
        let (old, new) = (&old[index], &new[index]);
        if new.is_none() {
            return 0;
        }
        let then = new.ticks_in(then_ns);
        if old.is_none() {
            return then;
        }
        // A token of the old quota, in ticks of either.
        let by = u128::from(new.unit_ticks) * u128::from(new_scale);
        let per = u128::from(old.unit_ticks) * u128::from(old_scale);
        let level = token_bucket::level(state.0[index], old.ticks_in(then_ns), old.burst_ticks());
        let (level, _) = mul_div(level, by, per);
        let ahead_ns = then_ns - now_ns;
        let (earned, is_cut) = mul_div(old.ticks_in(ahead_ns), by, per);
        let earned = earned.saturating_add(u128::from(is_cut));
        let too_much = earned.saturating_sub(new.ticks_in(ahead_ns));
        let level = level.saturating_sub(too_much).min(new.burst_ticks());
        then + new.burst_ticks() - level
    };
    State([restated(0), restated(1)])
}

/// A time, in whole nanoseconds, that no decision needs to look back beyond. At the last grant or before it, one of the buckets
/// was empty. An arrival time before that can be replaced by it.
pub(crate) fn horizon_ns(buckets: &Buckets, state: State) -> u64 {
    let emptied_ns = |index: usize| {
        let bucket = &buckets[index];
        let emptied = bucket.empty_at(state.0[index]);
        match bucket.ticks_per_ns {
            0 => 0,
            ticks_per_ns => emptied / u128::from(ticks_per_ns),
        }
    };
    let ns = emptied_ns(0).max(emptied_ns(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
