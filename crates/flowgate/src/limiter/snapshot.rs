//! A consistent snapshot of a limiter: its limit, and how much of it is left.

use crate::quota::Quota;
use crate::verdict::Verdict;
use core::time::Duration;

/// A limiter's state at one instant, with the values of a `RateLimit` header.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let limiter = TokenBucket::builder("10/s burst 20".parse()?).clock(ManualClock::new()).build()?;
/// limiter.try_acquire_n(5)?;
/// let seen = limiter.snapshot();
/// assert_eq!((seen.limit, seen.remaining), (20, 15));
/// assert_eq!(seen.reset_after, Duration::from_millis(500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most units that can be taken in one burst.
    pub limit: u64,
    /// The number of units that can be taken now.
    pub remaining: u64,
    /// The time until `remaining` equals `limit`, if nothing is taken; zero if it does.
    ///
    /// It is rounded up to whole nanoseconds.
    pub reset_after: Duration,
}

/// One of a limiter's two quotas, and how much of it is left.
///
/// [`Limiter::quota_states`](crate::Limiter::quota_states) returns it.
///
/// ```
/// use flowgate::{DualTokenBucket, Limiter, ManualClock};
/// use std::time::Duration;
///
/// let quotas = "10/s burst 5; 1440/day".parse()?;
/// let limiter = DualTokenBucket::builder(quotas).clock(ManualClock::new()).build()?;
/// limiter.try_acquire_n(5)?;
///
/// let [second, day] = limiter.quota_states().expect("two quotas");
/// assert_eq!((second.snapshot.remaining, day.snapshot.remaining), (0, 1435));
/// assert_eq!(second.next_after, Some(Duration::from_millis(100)));
/// assert_eq!(day.next_after, Some(Duration::from_secs(60)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QuotaState {
    /// The quota.
    pub quota: Quota,
    /// The state of this quota alone.
    ///
    /// `limit` is its burst, `remaining` the units that it alone allows now, and `reset_after` the time until that is the full
    /// burst.
    pub snapshot: Snapshot,
    /// The time until this quota alone allows one more whole token.
    ///
    /// It is `None` if its bucket has no room for one.
    pub next_after: Option<Duration>,
}

impl QuotaState {
    /// `units` of `quota` can be taken now, and `n` of them after the time that `after` returns.
    pub(crate) fn new(quota: Quota, units: u64, after: impl Fn(u64) -> Duration) -> Self {
        let (limit, token) = (quota.burst_units(), quota.scale());
        let remaining = units.min(limit);
        let next = (remaining / token + 1).saturating_mul(token);
        let snapshot = Snapshot {
            limit,
            remaining,
            reset_after: after(limit),
        };
        Self {
            quota,
            snapshot,
            next_after: (next <= limit).then(|| after(next)),
        }
    }

    /// The same for a new caller, whom `pass` refuses `n` units if there are waiters ahead of it.
    pub(crate) fn behind_waiters(mut self, pass: impl Fn(u64) -> Verdict) -> Self {
        let wait = |n| {
            let denied = pass(n).err()?;
            Some(denied.retry_after().unwrap_or(Duration::MAX))
        };
        let limit = self.snapshot.limit;
        if let Some(wait_for_one) = wait(self.quota.scale().min(limit)) {
            self.snapshot.remaining = 0;
            self.snapshot.reset_after = wait(limit).unwrap_or_default().max(wait_for_one);
            self.next_after = Some(wait_for_one);
        }
        self
    }
}
