//! [`DualTokenBucket`]: two token buckets in one [word](parameters), decided by
//! [`algorithm::dual_token_bucket`](crate::algorithm::dual_token_bucket).

mod engine;
mod parameters;
mod state;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;

pub use engine::Dual;

#[cfg(feature = "std")]
use crate::clock::Clock;
use crate::limiter::builder::Builder;
use crate::limiter::{At, RateLimiter};
use crate::primitive::const_unless_loom;
use crate::quota::Quotas;

/// Two quotas that apply together, such as 10 per second *and* 1,000 per day.
///
/// It is two [token buckets](crate::TokenBucket), one for each quota, that are decided together. An operation takes from both
/// or from neither. A refusal costs neither bucket anything. Its retry-after is the longer wait of the two.
///
/// ```text
///              peak: 10/s burst 5        sustained: 1000/day
///                 ▇▇▇▇▇ │                    ▇▇▇▇▇▇▇▇▇▇▇▇▇ │
///                       ╰───────────┬──────────────────────╯
///                          one operation: a token of each
/// ```
///
/// ```
/// use flowgate::{DualTokenBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: DualTokenBucket::new(quotas)
/// let limiter = DualTokenBucket::builder("10/s burst 5; 7/min".parse()?).clock(&time).build()?;
///
/// assert_eq!((0..10).filter(|_| limiter.try_acquire().is_ok()).count(), 5); // the first quota's burst
/// time.advance(Duration::from_secs(1));
/// assert_eq!((0..10).filter(|_| limiter.try_acquire().is_ok()).count(), 2); // the rest of the second
///
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.limit(), Some(1)); // the second quota, counted from 0
/// assert_eq!(denied.retry_after(), Some(Duration::from_nanos(7_571_428_572))); // 60/7 s, less the first
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// The rate of the first quota holds as long as the burst of the second one lasts. Then the second rate holds. The picture
/// shows all requests in gray and the admitted ones in blue:
///
/// ![DualTokenBucket: 20/s, and 4/s once a burst of 40 is used up][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). In any interval of length *t*, the limiter admits at most `burst + rate × t` units of each
///   quota, on every schedule of threads. Across a change of quotas, the bound uses the largest burst in the interval, and adds
///   up the tokens of each rate.
/// - **Never refuses needlessly** (C2). A refusal means that admitting the request would have exceeded that bound.
/// - **Exact rates** (C8), for quotas that fit. For others, [`Quotas`](Quotas#range) states how little it refuses too much.
/// - **Safe under clock anomalies** (C4). A `now` that is older than an earlier one sees fewer tokens and adds none. A `now`
///   from before the last change of quotas is refused until the change.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
///   [`Denied::limit`](crate::Denied::limit) is the quota with that wait: 0 for the first, 1 for the second.
///
/// # When to use another limiter
///
/// - For one quota, a [`TokenBucket`](crate::TokenBucket) does the same in fewer instructions.
/// - For more than two quotas, limits of different kinds, or limits that several callers share, use a [`Gate`](crate::Gate). It
///   asks one limit after the other, under a lock.
/// - For two quotas per user or address, use [`Keyed::dual_token_bucket`](crate::Keyed::dual_token_bucket).
///
/// A pair in which one quota has no effect is accepted: in `"10/s; 1000000/day"` the second is never reached.
///
/// # Amounts
///
/// `n` counts units. A unit is a token unless the quotas divide tokens
/// ([`Quota::units_per_token`](crate::Quota::units_per_token)). Both buckets start full.
///
/// - `n` = 0 succeeds and changes nothing.
/// - `n` above the smaller burst is refused with [`Denied::is_never`](crate::Denied::is_never).
///
/// # Reservations
///
/// [`reserve`](RateLimiter::reserve) takes the units now, for the first time at which both buckets hold them. Later requests
/// come after it.
///
/// [`Reservation::cancel`](crate::Reservation::cancel) of the last reservation undoes it. Canceling an earlier one, or a
/// [refund](RateLimiter::refund), returns nothing while the time of a reservation lies ahead. Otherwise it returns the units
/// that cannot break a guarantee; grants before it then cannot be undone anymore.
///
/// # Changing the quotas
///
/// [`set_quotas`](Self::set_quotas) replaces both. Each bucket keeps its tokens, up to its new burst. A second quota that is new
/// starts full. If reservations lie ahead, tokens flow in at the slower of the rates until the last of them.
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on one 128-bit word. It takes no lock and allocates nothing. On
/// targets without a 128-bit compare-and-swap, the limiter [is not lock-free](RateLimiter::is_lock_free). It is then equally
/// exact, under a lock.
///
/// ```
/// use flowgate::{DualTokenBucket, Quota, Quotas};
///
/// static PAID_API: DualTokenBucket = DualTokenBucket::new(
///     match Quotas::two(Quota::per_second(10).burst(5), Quota::per_day(1000)) {
///         Ok(quotas) => quotas,
///         Err(_) => panic!("out of range"),
///     },
/// );
/// assert!(PAID_API.try_acquire().is_ok());
/// ```
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/dual-token-bucket.md"))]
pub type DualTokenBucket = RateLimiter<Dual>;

/// Settings of a [`DualTokenBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`](crate::Clock::system) |
///
/// Every [`Quotas`] is accepted, so [`build`](Builder::build) cannot fail.
///
/// ```
/// use flowgate::{DualTokenBucket, ManualClock};
///
/// let time = ManualClock::new();
/// let limiter = DualTokenBucket::builder("2/s; 3/min".parse()?).clock(&time).build()?;
/// assert_eq!(limiter.take_up_to(10), 2);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type DualTokenBucketBuilder = Builder<Dual>;

impl DualTokenBucket {
    const_unless_loom! {
        /// Creates two full buckets on [`Clock::system`].
        ///
        /// Every [`Quotas`] is accepted. In a `static` it needs no lazy cell.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(quotas: Quotas) -> Self {
            Self::over(Dual::new(quotas), Clock::system())
        }
    }

    /// Returns a builder, for another clock.
    pub fn builder(quotas: Quotas) -> DualTokenBucketBuilder {
        Builder::new(quotas)
    }

    /// Returns the current quotas.
    pub fn quotas(&self) -> Quotas {
        *self.engine.quotas.lock()
    }

    /// Replaces the quotas. Each bucket keeps its tokens, up to its new burst.
    ///
    /// Concurrent decisions use either the old or the new quotas, never a mix.
    ///
    /// ```
    /// # use flowgate::{DualTokenBucket, ManualClock};
    /// let limiter =
    ///     DualTokenBucket::builder("10/s; 100/day".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(6)?;
    /// limiter.set_quotas("20/s burst 30; 50/day".parse()?);
    /// assert_eq!(limiter.available(), 4); // of the first bucket; the second one holds 50
    /// assert_eq!(limiter.quotas().to_string(), "20/s burst 30; 50/day");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_quotas(&self, quotas: Quotas) {
        let _change = self.queue.reconfigure(self);
        self.engine.replace_quotas(quotas, &self.clock);
    }
}

impl At<'_, DualTokenBucket> {
    /// Does the same as [`DualTokenBucket::set_quotas`], at this time.
    pub fn set_quotas(self, quotas: Quotas) {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        self.limiter.engine.replace_quotas(quotas, &self.time());
    }
}
