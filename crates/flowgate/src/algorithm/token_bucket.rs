//! The token bucket, kept as one time.
//!
//! Source: the generic cell rate algorithm (ATM Forum, *Traffic Management Specification 4.0*, 1996;
//! ITU-T I.371), in its virtual scheduling form, with a cost per operation and a debt.
//!
//! The state is the *theoretical arrival time* `tat`: the time at which the bucket will be full if no operation takes anything
//! until then. A bucket of `burst` tokens, each of which takes `token` ticks to flow in, holds at `now`
//!
//! ```text
//!            0                         if now + burst ≤ tat      in debt, or just empty
//!   level =  now + burst − tat         if now < tat < now + burst
//!            burst                     if tat ≤ now              full
//!
//!   time ──────┬──────────────────┬───────────────┬──────▶
//!             now                tat          now + burst
//!              ╰─ still missing ──╯╰──── level ───╯
//! ```
//!
//! All values are in ticks: one nanosecond and one token are both whole numbers of ticks, so nothing is ever rounded.
//!
//! The state is one number instead of two (tokens, last refill). So a `now` that is older than the last one sees a lower level
//! and changes nothing for other callers, and there are no two values to keep in step.
//!
//! Sums cannot overflow: the code that stores `tat` ensures that `now + burst + debt` and `tat + cost` fit, see
//! [`crate::store::word`].

use super::Ticks;

/// Takes `cost ≤ burst` if the bucket holds it: the new state, or how many ticks are missing.
#[inline(always)]
pub(crate) fn take<T: Ticks>(tat: T, now: T, cost: T, burst: T) -> Result<T, T> {
    // A branch, not `max`: with tokens in stock the new state then does not wait for the clock.
    if tat <= now {
        return Ok(now + cost);
    }
    let next = tat + cost;
    let horizon = now + burst;
    if next <= horizon {
        Ok(next)
    } else {
        Err(next - horizon)
    }
}

/// Takes `cost ≤ burst` whatever the level. Returns the new state, and the instant at which the cost is covered.
pub(crate) fn reserve<T: Ticks>(tat: T, now: T, cost: T, burst: T) -> (T, T) {
    let next = tat.max(now) + cost;
    let covered = if next > burst { next - burst } else { T::ZERO };
    (next, covered.max(now))
}

/// Takes `cost ≤ burst + max_debt` unless the bucket is in debt. Later operations wait for the cost.
pub(crate) fn overdraw<T: Ticks>(tat: T, now: T, cost: T, burst: T, max_debt: T) -> Result<T, T> {
    let horizon = now + burst;
    let next = tat.max(now) + cost;
    let in_debt = if tat > horizon {
        tat - horizon
    } else {
        T::ZERO
    };
    let too_deep = if next > horizon + max_debt {
        next - (horizon + max_debt)
    } else {
        T::ZERO
    };
    match in_debt.max(too_deep) {
        missing if missing == T::ZERO => Ok(next),
        missing => Err(missing),
    }
}

/// Takes `cost ≤ burst + max_debt` whatever the level. Returns the new state, and the instant at which [`overdraw`] would have
/// granted it.
pub(crate) fn reserve_overdraft<T: Ticks>(
    tat: T,
    now: T,
    cost: T,
    burst: T,
    max_debt: T,
) -> (T, T) {
    let past = |time: T, span: T| if time > span { time - span } else { T::ZERO };
    let next = tat.max(now) + cost;
    let (paid, shallow) = (past(tat, burst), past(next, burst + max_debt));
    (next, now.max(paid).max(shallow))
}

/// The level of the bucket; 0 while it is in debt.
pub(crate) fn level<T: Ticks>(tat: T, now: T, burst: T) -> T {
    let horizon = now + burst;
    let tat = tat.max(now);
    if horizon > tat {
        horizon - tat
    } else {
        T::ZERO
    }
}

/// Returns `amount` to the bucket, as far as it has room.
pub(crate) fn give_back<T: Ticks>(tat: T, now: T, amount: T) -> T {
    if tat <= now {
        return tat;
    }
    if tat - now > amount {
        tat - amount
    } else {
        now
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    /// Otherwise a caller with an older time would see tokens that were never available.
    #[test]
    fn c4_c5_a_full_bucket_is_full_from_now_on() {
        assert_eq!(give_back(100_u128, 90, 5), 95);
        assert_eq!(give_back(100_u128, 90, 10), 90);
        assert_eq!(give_back(100_u128, 90, 50), 90);
        assert_eq!(give_back(80_u128, 90, 5), 80);
    }
}
