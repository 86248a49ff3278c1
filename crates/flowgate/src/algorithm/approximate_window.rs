//! The approximate sliding window: two counters, and a straight line between them.
//!
//! Source: Cloudflare, *How we built rate limiting capable of scaling to millions of domains*, 2017; the
//! same estimate is `freq_ctr` of HAProxy. Both divide, and round down; here it is compared multiplied out, so
//! that nothing is rounded.
//!
//! Time is cut into windows of one length. The state is the start of the current one, what was admitted in
//! it, and what was admitted in the one before, which is taken to have been spread evenly:
//!
//! ```text
//!   ├──── previous ────┼──── current ─────┤
//!                ├───────────────┤
//!                 ╰part╯        now           estimate = previous · part / length + current
//! ```
//!
//! A `now` before the start counts as the start: the whole of both counters.

/// What is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The most that the estimate may be, in units.
    pub(crate) limit: u64,
    /// Not 0.
    pub(crate) length_ns: u64,
}

/// Counts, each below 2³², and when the current one began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) start_ns: u64,
    pub(crate) previous: u64,
    pub(crate) current: u64,
}

/// How long until there will be room: `missing` ticks, of which `ticks_per_ns` make a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) missing: u128,
    pub(crate) ticks_per_ns: u64,
}

impl State {
    /// The state in the window that `now_ns` lies in.
    #[inline(always)]
    pub(crate) fn at(self, now_ns: u64, length_ns: u64) -> Self {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        if elapsed_ns < length_ns {
            return self;
        }
        // Once per window. What was admitted before the last one has no part in this.
        Self {
            start_ns: now_ns - elapsed_ns % length_ns,
            previous: if elapsed_ns - length_ns < length_ns {
                self.current
            } else {
                0
            },
            current: 0,
        }
    }

    /// Takes `n ≤ limit` units if the estimate then stays within the limit.
    #[inline(always)]
    pub(crate) fn take(self, now_ns: u64, n: u64, window: Window) -> Result<Self, Wait> {
        let state = self.at(now_ns, window.length_ns);
        let current = state.current + n;
        if current <= window.limit {
            let room = product(window.limit - current, window.length_ns);
            if state.weighed(now_ns, window) <= room {
                return Ok(Self { current, ..state });
            }
        }
        Err(state.wait(now_ns, n, window))
    }

    /// How long `n ≤ limit` units that were refused at `now_ns`, in this window, have to wait.
    ///
    /// Both sides fall in a straight line, by as many ticks a nanosecond as the counter that is fading
    /// has units. So nothing needs to be divided here.
    fn wait(self, now_ns: u64, n: u64, window: Window) -> Wait {
        let rest = window.limit - n;
        let late_ns = self.start_ns.saturating_sub(now_ns);
        match rest.checked_sub(self.current) {
            // In this window, or at its very end.
            Some(room) => Wait {
                missing: self.weighed(now_ns, window) - product(room, window.length_ns)
                    + product(late_ns, self.previous),
                ticks_per_ns: self.previous,
            },
            // In the next, of which this will be the previous.
            None => Wait {
                missing: product(self.left_ns(now_ns, window), self.current)
                    + product(late_ns, self.current)
                    + product(self.current - rest, window.length_ns),
                ticks_per_ns: self.current,
            },
        }
    }

    /// The most units that could be taken, by the state in the window of `now_ns`.
    pub(crate) fn room(self, now_ns: u64, window: Window) -> u64 {
        let weighed = self.weighed(now_ns, window);
        let previous = weighed.div_ceil(u128::from(window.length_ns)) as u64;
        window
            .limit
            .saturating_sub(self.current)
            .saturating_sub(previous)
    }

    /// When nothing that was taken counts any more, by the state in the window of `now_ns`.
    pub(crate) fn idle_at_ns(self, now_ns: u64, window: Window) -> u128 {
        let windows = match (self.previous, self.current) {
            (0, 0) => return u128::from(now_ns),
            (_, 0) => 1,
            (_, _) => 2,
        };
        u128::from(self.start_ns) + windows * u128::from(window.length_ns)
    }

    /// What is left of the current window.
    #[inline(always)]
    fn left_ns(self, now_ns: u64, window: Window) -> u64 {
        window.length_ns - now_ns.saturating_sub(self.start_ns)
    }

    /// The part of the previous window that counts, in units × ns.
    #[inline(always)]
    fn weighed(self, now_ns: u64, window: Window) -> u128 {
        product(self.previous, self.left_ns(now_ns, window))
    }
}

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::*;

    /// The last of the two windows that an admission is in.
    #[test]
    fn c3_nothing_counts_any_longer_when_its_windows_are_over() {
        let window = Window {
            limit: 10,
            length_ns: 100,
        };
        let idle_at_ns = |previous, current| {
            let state = State {
                start_ns: 1_000,
                previous,
                current,
            };
            state.idle_at_ns(1_030, window)
        };
        assert_eq!(idle_at_ns(0, 0), 1_030);
        assert_eq!(idle_at_ns(3, 0), 1_100);
        assert_eq!([idle_at_ns(0, 1), idle_at_ns(3, 1)], [1_200; 2]);
    }
}
