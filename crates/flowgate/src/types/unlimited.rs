//! [`Unlimited`]: a limiter that limits nothing.

use crate::clock::Clock;
use crate::limiter::engine::{Amount, Capabilities, Engine, Request, Reserves, Times};
use crate::limiter::reservation::{Booked, Booking};
use crate::limiter::state::{Exports, LimiterStateError, Numbers};
use crate::limiter::{RateLimiter, Snapshot};
use crate::primitive::const_unless_loom;
use crate::queue::Receipt;
use crate::verdict::Verdict;
use alloc::vec::Vec;
use core::time::Duration;

/// A limiter that admits everything immediately and counts nothing.
///
/// Use it in code that takes a `&dyn Limiter` or an `Arc<dyn Limiter>`, if no limit is wanted, and in tests of such code.
///
/// ```text
///  ops ─▶─▶─▶▶▶─▶─▶▶──▶─▶▶▶▶▶▶▶▶▶─▶─▶   as they come
/// ```
///
/// ```
/// use flowgate::{Limiter, TokenBucket, Unlimited};
///
/// fn limiter(quota: Option<&str>) -> Result<Box<dyn Limiter>, flowgate::QuotaError> {
///     Ok(match quota {
///         Some(quota) => Box::new(TokenBucket::new(quota.parse()?)),
///         None => Box::new(Unlimited::new()),
///     })
/// }
/// let limiter = limiter(None)?;
/// assert!((0..1000).all(|_| limiter.try_acquire().is_ok()));
/// assert_eq!(limiter.snapshot().remaining, u64::MAX);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// It has no quota, no state, and no `refund`, because it counts no units. Every amount is granted. A reservation may be used
/// immediately; if it is cancelled, it returns all its units. [`try_acquire`](RateLimiter::try_acquire) does not read the
/// clock.
///
/// No caller ever waits in its queue. The queue can be [closed](crate::WaitQueue::close), like every other; then every request
/// is refused.
pub type Unlimited = RateLimiter<NoLimit>;

/// No limit, and no state.
#[derive(Debug)]
pub struct NoLimit;

impl Unlimited {
    const_unless_loom! {
        /// Creates a limiter on [`Clock::system`].
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new() -> Self {
            Self::over(NoLimit, Clock::system())
        }
    }

    /// Creates a limiter on `clock`.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Unlimited};
    /// let time = ManualClock::new();
    /// let limiter = Unlimited::with_clock(&time);
    /// assert_eq!(limiter.reserve_n(1_000)?.at(), time.now());
    /// assert_eq!((limiter.take_up_to(7), limiter.available()), (7, u64::MAX));
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn with_clock(clock: impl Into<Clock>) -> Self {
        Self::over(NoLimit, clock.into())
    }
}

impl Default for Unlimited {
    fn default() -> Self {
        Self::with_clock(Clock::default())
    }
}

impl Engine for NoLimit {
    const NAME: &'static str = "Unlimited";

    fn limit(&self) -> u64 {
        u64::MAX
    }

    #[inline(always)]
    fn takes_unread(&self, _: Request, is_held: impl Fn() -> bool) -> bool {
        !is_held()
    }

    #[inline(always)]
    fn decide(&self, _: u64, _: impl Amount) -> Verdict {
        Ok(())
    }

    fn take_most(&self, _: u64, n: u64) -> u64 {
        n
    }

    fn snapshot(&self, _: u64) -> Snapshot {
        Snapshot {
            limit: u64::MAX,
            remaining: u64::MAX,
            reset_after: Duration::ZERO,
        }
    }

    fn delay(&self, _: u64, _: u128, _: u64) -> Verdict {
        Ok(())
    }

    fn take_back(&self, _: u64, _: u64, _: &[Receipt], _: &dyn Times) {}

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().reserves(self)
    }
}

impl Exports for NoLimit {
    fn export(&self, _: u64) -> Vec<i128> {
        Vec::new()
    }

    fn import(&self, taken: Numbers<'_>, _: u64) -> Result<(), LimiterStateError> {
        taken.fields([]).map(drop)
    }
}

impl Reserves for NoLimit {
    fn reserve(&self, now_ns: u64, n: Option<u64>, _: Option<u128>) -> Booked {
        Ok(Booking {
            units: n.unwrap_or(1),
            at_ns: now_ns,
            receipt: Receipt::default(),
        })
    }

    fn revoke(&self, booking: &Booking, _: &dyn Times) -> u64 {
        booking.units
    }
}
