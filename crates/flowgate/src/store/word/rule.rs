//! How the word changes its state.

use super::View;
use crate::algorithm::{Ticks, fixed_window, token_bucket};
use core::fmt::Debug;

/// An algorithm whose state is one number of ticks.
pub(crate) trait Rule: Debug + 'static {
    /// Whether it counts in windows. Rules with windows have no debt and no interval; other rules have no windows.
    const HAS_WINDOWS: bool;

    /// Decides on `cost` at `now` in either layout, for a limiter without intervals and changes. Returns the new state, or how many
    /// ticks are missing. Returns `None` if the parameters here do not suffice, and [`take`](Self::take) has to decide.
    fn take_plain<T: Ticks>(
        state: T,
        now: T,
        cost: T,
        most: T,
        ticks_per_ns: T,
    ) -> Option<Result<T, T>>;

    /// Decides on `cost`, which is at most what could ever be granted.
    fn take(view: &View<'_>, cost: u128) -> Result<u128, u128>;

    /// Returns the state from which `outstanding` ticks, which were taken before, may be spent from now on. At most as much is
    /// then left as if these ticks had been taken now.
    fn settle(view: &View<'_>, outstanding: u128) -> u128;
}

/// The state is the theoretical arrival time.
#[derive(Debug)]
pub(crate) struct TokenBucket;

impl Rule for TokenBucket {
    const HAS_WINDOWS: bool = false;

    #[inline(always)]
    fn take_plain<T: Ticks>(tat: T, now: T, cost: T, burst: T, _: T) -> Option<Result<T, T>> {
        Some(token_bucket::take(tat, now, cost, burst))
    }

    fn take(view: &View<'_>, cost: u128) -> Result<u128, u128> {
        token_bucket::take(view.state, view.now, cost, view.parameters.burst_ticks())
    }

    /// The bucket and the outstanding ticks are at most full together.
    fn settle(view: &View<'_>, outstanding: u128) -> u128 {
        match outstanding {
            0 => view.state,
            _ => view.state.max(view.now + outstanding),
        }
    }
}

/// The state is the end of the window, and what was counted in it.
#[derive(Debug)]
pub(crate) struct FixedWindow;

impl Rule for FixedWindow {
    const HAS_WINDOWS: bool = true;

    #[inline(always)]
    fn take_plain<T: Ticks>(
        state: T,
        now: T,
        cost: T,
        limit: T,
        ticks_per_ns: T,
    ) -> Option<Result<T, T>> {
        fixed_window::is_open(state, now, ticks_per_ns)
            .then(|| fixed_window::take(state, now, cost, limit, ticks_per_ns))
    }

    fn take(view: &View<'_>, cost: u128) -> Result<u128, u128> {
        let parameters = &view.parameters;
        let (limit, ns) = (
            u128::from(parameters.burst_units),
            u128::from(parameters.ticks_per_ns),
        );
        let state = fixed_window::take(view.window(), view.now, cost, limit, ns)?;
        match view.wait_before_change(cost) {
            0 => Ok(state),
            missing => Err(missing),
        }
    }

    /// Outstanding units count in the window that begins.
    fn settle(view: &View<'_>, outstanding: u128) -> u128 {
        let ns = u128::from(view.parameters.ticks_per_ns);
        match outstanding {
            0 => view.state,
            _ if fixed_window::is_open(view.state, view.now, ns) => view.state,
            _ => view.window() + outstanding,
        }
    }
}
