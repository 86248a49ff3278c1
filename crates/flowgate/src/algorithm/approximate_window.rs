//! The approximate sliding window: two counters, and a straight line between them.
//!
//! Source: Cloudflare, *How we built rate limiting capable of scaling to millions of domains*, 2017. The same estimate is
//! `freq_ctr` of HAProxy. Both divide, and round down. Here both sides are compared multiplied out, so that nothing is rounded.
//!
//! Time is cut into windows of one length. The state is [two counters](Counters): the admissions of the current window, and
//! those of the previous one, which are assumed to have been spread evenly:
//!
//! ```text
//!   ├──── previous ────┼──── current ─────┤
//!                ├───────────────┤
//!                 ╰part╯        now           estimate = previous · part / length + current
//! ```
//!
//! A `now` before the start counts as the start: both counters count in full.

use super::segmented_window::Counters;

/// The current limit and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The most that the estimate may be, in units.
    pub(crate) limit: u64,
    /// Not 0.
    pub(crate) length_ns: u64,
}

/// Counts, each below 2³², and when the current one began, in nanoseconds.
pub(crate) type State = Counters<u64>;

/// How long until there will be room: `missing` ticks, of which `ticks_per_ns` make a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) missing: u128,
    pub(crate) ticks_per_ns: u64,
}

impl Window {
    /// Takes `n ≤ limit` units if the estimate then stays within the limit.
    #[inline(always)]
    pub(crate) fn take(self, state: State, now_ns: u64, n: u64) -> Result<State, Wait> {
        let state = state.at(now_ns, self.length_ns);
        let current = state.current + n;
        if current <= self.limit {
            let room = product(self.limit - current, self.length_ns);
            if self.weighed(state, now_ns) <= room {
                return Ok(State { current, ..state });
            }
        }
        Err(self.wait(state, now_ns, n))
    }

    /// How long `n ≤ limit` units that were refused at `now_ns`, in the window of `state`, have to wait.
    ///
    /// Both sides fall in a straight line, by as many ticks a nanosecond as the counter that is fading
    /// has units. So nothing needs to be divided here.
    fn wait(self, state: State, now_ns: u64, n: u64) -> Wait {
        let rest = self.limit - n;
        let late_ns = state.start.saturating_sub(now_ns);
        match rest.checked_sub(state.current) {
            // In this window, or at its very end.
            Some(room) => Wait {
                missing: self.weighed(state, now_ns) - product(room, self.length_ns)
                    + product(late_ns, state.previous),
                ticks_per_ns: state.previous,
            },
            // In the next, of which this will be the previous.
            None => Wait {
                missing: product(self.left_ns(state, now_ns), state.current)
                    + product(late_ns, state.current)
                    + product(state.current - rest, self.length_ns),
                ticks_per_ns: state.current,
            },
        }
    }

    /// The most units that could be taken, by the state in the window of `now_ns`.
    pub(crate) fn room(self, state: State, now_ns: u64) -> u64 {
        let weighed = self.weighed(state, now_ns);
        let previous = weighed.div_ceil(u128::from(self.length_ns)) as u64;
        self.limit
            .saturating_sub(state.current)
            .saturating_sub(previous)
    }

    /// The rest of the current window.
    #[inline(always)]
    fn left_ns(self, state: State, now_ns: u64) -> u64 {
        self.length_ns - now_ns.saturating_sub(state.start)
    }

    /// The part of the previous window that counts, in units × ns.
    #[inline(always)]
    fn weighed(self, state: State, now_ns: u64) -> u128 {
        product(state.previous, self.left_ns(state, now_ns))
    }
}

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}
