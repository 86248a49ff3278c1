//! When the level changes: a pure step, from the last judgment and the calls that began.
//!
//! Time is counted in buckets. Let the threshold be *s* buckets long. A call that began anywhere in bucket *k* is older than
//! the threshold when bucket *k* + 1 + *s* begins. Until then, it can still end in time. So at the beginning of bucket *t*, the
//! results of all calls in the buckets before *t* − *s* are known. The last *w* of these buckets are the window:
//!
//! ```text
//!           t−s−w                     t−s          t
//!  ─ ─ ┬──────┬──────┬──────┬──────┬──────┬──────┬──────▶ buckets
//!      │      │      │      │      │      │      │ now
//!             ├────── window ──────┤├─ too young ┤
//!               begun − fast = slow    not known
//!                 ▲
//!               since: calls that began before the last change say nothing about its effect
//! ```
//!
//! Buckets in which no caller read the level are judged afterward, one by one. So the level is a function of the calls and of
//! the time, and not of how often callers read it.

use core::ops::Range;

/// Calls of some buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) begun: u64,
    /// Calls that are known to have ended well within the threshold.
    pub(super) fast: u64,
}

impl Counts {
    pub(super) fn slow(self) -> u64 {
        // Threads may change the two values between the reading of several buckets, but not within one.
        self.begun.saturating_sub(self.fast)
    }
}

/// The level, and the buckets of its last judgment and its last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The last bucket at whose beginning the level was judged. Time does not go back before it.
    pub(super) judged: u64,
    /// The bucket at whose beginning the level last changed.
    pub(super) since: u64,
    pub(super) level: u32,
}

/// The settings, with times in buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) bucket_ns: u64,
    /// A call that takes longer is slow.
    pub(super) slow_ns: u64,
    /// The threshold in buckets, rounded up.
    pub(super) slow: u64,
    pub(super) window: u64,
    pub(super) min_calls: u64,
    pub(super) enter_permille: u64,
    /// Below `enter_permille`.
    pub(super) exit_permille: u64,
    pub(super) dwell: u64,
    /// Not below `dwell`.
    pub(super) recovery: u64,
    pub(super) levels: u32,
}

impl Rules {
    /// Returns how many buckets back a judgment looks.
    pub(super) fn reach(&self) -> u64 {
        self.slow + self.window
    }

    /// Returns what follows from `old` by the beginning of bucket `to`, which is after the last judged bucket. No call began
    /// after the last judged bucket. `calls` returns the calls of the last [`reach`](Self::reach) buckets up to that one.
    pub(super) fn judge(
        &self,
        old: Standing,
        to: u64,
        calls: impl Fn(Range<u64>) -> Counts,
    ) -> Standing {
        let mut standing = old;
        let seen_until = old.judged.saturating_add(self.reach());
        let mut at = old.judged + 1;
        while at <= to.min(seen_until) {
            let ready = standing.since.saturating_add(self.dwell);
            if at < ready {
                at = ready;
                continue;
            }
            standing = self.step(standing, at, &calls);
            at += 1;
        }
        // From here on there are no calls to judge by. Each step down comes when a window has passed without calls.
        while standing.level > 0 {
            let empty = standing
                .since
                .saturating_add(self.recovery.max(self.reach()));
            let at = empty.max(seen_until.saturating_add(1));
            if at > to {
                break;
            }
            standing = standing.moved_to(standing.level - 1, at);
        }
        Standing {
            judged: to,
            ..standing
        }
    }

    /// Returns the window of bucket `at`.
    pub(super) fn window_at(&self, at: u64) -> Range<u64> {
        let end = at.saturating_sub(self.slow);
        end.saturating_sub(self.window)..end
    }

    /// Makes one judgment at the beginning of bucket `at`, which is at least the dwell time after the last change.
    fn step(&self, standing: Standing, at: u64, calls: impl Fn(Range<u64>) -> Counts) -> Standing {
        let window = self.window_at(at);
        let seen = calls(standing.since.clamp(window.start, window.end)..window.end);
        let (slow, begun) = (u128::from(seen.slow()), u128::from(seen.begun));
        let level = standing.level;
        let may_recover = level > 0 && at - standing.since >= self.recovery;
        if seen.begun >= self.min_calls {
            if slow * 1000 >= begun * u128::from(self.enter_permille) && level < self.levels {
                return standing.moved_to(level + 1, at);
            }
            if slow * 1000 <= begun * u128::from(self.exit_permille) && may_recover {
                return standing.moved_to(level - 1, at);
            }
        } else if may_recover && standing.since <= window.start {
            return standing.moved_to(level - 1, at);
        }
        standing
    }
}

impl Standing {
    fn moved_to(self, level: u32, at: u64) -> Self {
        Self {
            since: at,
            level,
            ..self
        }
    }
}
