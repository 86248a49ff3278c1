//! The fixed window, kept as one time.
//!
//! Source: folklore, as old as quotas. All of its forms share a count that starts again when the window is over. Most of them
//! share a defect: count and window are two values, which two threads then change in turn.
//!
//! Here they are one number. A time is a whole number of nanoseconds. A nanosecond is a power of two of ticks, at least as
//! large as the limit, so that the end of the window leaves the low digits free:
//!
//! ```text
//!   state  =  end of the window  +  count
//!
//!   count │    ╭──  limit            ╭──
//!         │  ╭─╯                  ╭──╯
//!         ├──╯─────────┬──────────╯────────┬──▶ time
//!            1st       end         1st     end      anchored: a window begins with its first operation
//! ```
//!
//! Adding a cost to the state counts it. Comparing the state with a time shows whether the window is over. Both change with one
//! swap.

use super::Ticks;

/// The count.
#[inline(always)]
pub(crate) fn count<T: Ticks>(state: T, ns: T) -> T {
    state.remainder_of_power(ns)
}

/// The time at which the window ends.
#[inline(always)]
pub(crate) fn end<T: Ticks>(state: T, ns: T) -> T {
    state - count(state, ns)
}

/// Whether something was counted, in a window that is not over.
#[inline(always)]
pub(crate) fn is_open<T: Ticks>(state: T, now: T, ns: T) -> bool {
    let count = count(state, ns);
    count != T::ZERO && now < state - count
}

/// The count of the window that is open at `now`.
#[inline(always)]
pub(crate) fn used<T: Ticks>(state: T, now: T, ns: T) -> T {
    match is_open(state, now, ns) {
        true => count(state, ns),
        false => T::ZERO,
    }
}

/// The time until nothing is counted.
pub(crate) fn resets_after<T: Ticks>(state: T, now: T, ns: T) -> T {
    match is_open(state, now, ns) {
        true => end(state, ns) - now,
        false => T::ZERO,
    }
}

/// The state of the window in which `now` counts: the open one, or one that ends when a `new` one would, but not earlier than
/// any previous window.
#[inline(always)]
pub(crate) fn window<T: Ticks>(state: T, now: T, ns: T, new: impl FnOnce() -> T) -> T {
    match is_open(state, now, ns) {
        true => state,
        false => new().max(end(state, ns)),
    }
}

/// Counts `cost ≤ limit` in the window of `state`, if there is room. Returns the new state, or the ticks until the window ends.
#[inline(always)]
pub(crate) fn take<T: Ticks>(state: T, now: T, cost: T, limit: T, ns: T) -> Result<T, T> {
    if count(state, ns) + cost <= limit {
        Ok(state + cost)
    } else {
        Err(end(state, ns) - now)
    }
}
