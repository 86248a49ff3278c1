//! [`DecayingBucket`]: [a level and its steps](level) by
//! [`algorithm::decaying_bucket`](crate::algorithm::decaying_bucket).

mod engine;
mod level;
#[cfg(all(test, flowgate_loom))]
mod model;
mod parameters;
mod past;
mod state;

use crate::clock::Timestamp;
use crate::limiter::builder::Builder;
use crate::limiter::{At, RateLimiter};
use crate::quota::QuotaError;
use core::time::Duration;
pub use level::Decaying;

/// A leaky bucket that leaks faster the fuller it is.
///
/// Its level never exceeds the **capacity**, and halves with every **half-life**. As in a real bucket, water leaves faster the
/// higher it stands. An operation pours in one unit or several, each of which decays from then on. An operation that would make
/// the bucket overflow is refused.
///
/// - A caller that is idle for a short time after a burst gets much of the capacity back.
/// - A caller that keeps trying gets a steady capacity · ln 2 per half-life, which is 69 % of the capacity. With a small
///   capacity it is less, see [below](#small-capacities).
/// - Used units fade slowly, instead of all together at the end of a window.
///
/// ```text
///  level
///  capacity ┤╮
///           │╰╮            after 1 half-life: half of it is free again
///           │ ╰─╮          after 2: three quarters
///      ½    ┤───┴─╮        after 3: seven eighths
///           │     ╰──╮
///           │        ╰────╮
///         0 ┤             ╰──────────────
///           └─────┴─────┴─────┴─────┴────▶ half-lives
/// ```
///
/// ```
/// use flowgate::{DecayingBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: DecayingBucket::new(…)?
/// let limiter = DecayingBucket::builder(100, Duration::from_secs(60)).clock(&time).build()?;
/// limiter.try_acquire_n(100)?;
/// time.advance(Duration::from_secs(60));
/// assert_eq!(limiter.available(), 50);
/// time.advance(Duration::from_secs(60));
/// assert_eq!(limiter.available(), 75);
/// let denied = limiter.try_acquire_n(88).unwrap_err(); // until 12 are left of the 100
/// assert_eq!(denied.retry_after(), Some(Duration::from_nanos(63_533_621_344)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a capacity of 20 and a half-life of 500 ms:
///
/// ![DecayingBucket: 20, and room comes back faster the fuller it is][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). Of every unit admitted, 2^(−t / half-life) is left after a time *t*. At each admission, the
///   sum of what is left of all units is at most the capacity. A change of settings applies from then on to the current level.
/// - **Refuses slightly more than necessary** (C2). The level is kept in integers, the same on every machine, and is rounded
///   up. The error is at most 2⁻³⁰ of the units that have been poured in, including refunded ones, and have not decayed. If the
///   capacity has *b* > 16 bits, the error is at most 2^(b − 46) of them: 1.5 · 10⁻⁸ for a million.
/// - **The level reaches zero.** In exact decay, something is always left. Here a level of less than a tick counts as zero. A
///   tick is 2⁻³² of a unit, or 2^(b − 48) of it. This is the only rounding that is not toward refusing. Until then the last
///   unit is not available: of a full bucket of 100, 99 are available after 7 half-lives and 100 after 39.
/// - **Ticks depend on the settings.** The *b* bits are those of the larger of the capacity and the level that the last
///   [`set`](DecayingBucket::set) found. After a `set` from a high level to a small capacity, ticks stay as coarse as the level
///   was until the next `set`.
/// - **Safe under clock anomalies** (C4). A `now` before the last admission counts as the time of that admission, also after a
///   change of settings.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
///   While others wait in the [queue](RateLimiter::queue), their waits depend on how much each of them asks for. The result is
///   then a lower bound.
///
/// # Small capacities
///
/// A request waits until there is room for all of its units. For a request of the whole capacity, that is until the bucket is
/// empty. With a capacity of 1, one operation is admitted per 32 half-lives, not 0.69 per half-life.
///
/// A caller that keeps asking for one unit of a capacity of *c* gets one per log₂(c / (c − 1)) half-lives. That is 1 per
/// half-life for a capacity of 2, 6.6 for 10, and 69 for 100.
///
/// # Settings
///
/// There is no [`Quota`](crate::Quota), because the steady rate is irrational. The capacity is 1 to 4,294,967,295 units, and
/// the half-life is 1 ns to 292 years. [`set`](DecayingBucket::set) replaces both.
///
/// # Refunds
///
/// [`refund`](DecayingBucket::refund) takes the time at which the units were acquired. They have decayed since, and only the
/// rest comes back out.
///
/// # Cost
///
/// A decision is one clock reading, up to seven multiplications, and one compare-and-swap on one 128-bit word. It takes no lock
/// and allocates nothing. A refusal also computes the time to wait. On targets without a 128-bit compare-and-swap, the limiter
/// [is not lock-free](RateLimiter::is_lock_free). It is then equally exact, under a lock.
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/decaying-bucket.md"))]
pub type DecayingBucket = RateLimiter<Decaying>;

/// Settings of a [`DecayingBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`](crate::Clock::system) |
/// ```
/// use flowgate::{DecayingBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = DecayingBucket::builder(100, Duration::from_secs(1)).clock(&time).build()?;
/// assert_eq!(limiter.take_up_to(1000), 100);
/// time.advance(Duration::from_secs(1));
/// assert_eq!(limiter.available(), 50); // half of it has run out
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] if the capacity is not 1 to 4,294,967,295, or the half-life not 1 ns to 292 years.
pub type DecayingBucketBuilder = Builder<Decaying>;

impl DecayingBucket {
    /// Creates an empty bucket on [`Clock::system`](crate::Clock::system).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `capacity` is not 1 to 4,294,967,295, or `half_life` not 1 ns to 292 years.
    ///
    /// ```
    /// # use flowgate::DecayingBucket;
    /// # use std::time::Duration;
    /// let error = DecayingBucket::new(0, Duration::from_secs(1)).unwrap_err();
    /// assert_eq!(error.to_string(), "a capacity of 0 is out of range: 1 to 4294967295");
    /// ```
    #[cfg(feature = "std")]
    pub fn new(capacity: u64, half_life: Duration) -> Result<Self, QuotaError> {
        Self::builder(capacity, half_life).build()
    }

    /// Returns a builder, for another clock.
    pub fn builder(capacity: u64, half_life: Duration) -> DecayingBucketBuilder {
        Builder::new((capacity, half_life))
    }

    /// Returns `n` unused units that were poured in at `taken`.
    ///
    /// The result is how many units came back. The units then count as never admitted, so the part of them that has not decayed
    /// yet comes out. A `taken` that is later than the true time would return more than that part. Units that were poured in
    /// before the last [`set`](Self::set) do not come back, because it is not known how much of them is left.
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let minute = Duration::from_secs(60);
    /// let limiter = DecayingBucket::builder(100, minute).clock(&time).build()?;
    /// limiter.try_acquire_n(60)?;
    /// let taken = time.now();
    /// limiter.try_acquire_n(40)?;
    /// time.advance(minute);
    /// assert_eq!(limiter.refund(40, taken), 40);
    /// assert_eq!(limiter.available(), 70); // as if only 60 had been poured in
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64, taken: Timestamp) -> u64 {
        self.at_now().refund(n, taken)
    }

    /// Returns the current capacity.
    pub fn capacity(&self) -> u64 {
        self.engine.bucket().capacity()
    }

    /// Returns the current half-life.
    pub fn half_life(&self) -> Duration {
        Duration::from_nanos(self.engine.bucket().half_life.ns)
    }

    /// Replaces the capacity and the half-life.
    ///
    /// The level stays, and decays by the new half-life from now on. While it is above the new capacity, every request is
    /// refused. Units that were poured in before can no longer be [refunded](Self::refund).
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, ManualClock};
    /// # use std::time::Duration;
    /// let limiter = DecayingBucket::builder(100, Duration::from_secs(60))
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// limiter.try_acquire_n(80)?;
    /// limiter.set(41, Duration::from_secs(1))?;
    /// let denied = limiter.try_acquire().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`], and changes nothing, if a setting is out of the range that [`new`](Self::new) accepts.
    pub fn set(&self, capacity: u64, half_life: Duration) -> Result<(), QuotaError> {
        let _change = self.queue.reconfigure(self);
        let now_ns = || self.now_ns();
        self.engine.change(capacity, half_life, now_ns)
    }
}

impl<T> At<'_, DecayingBucket, T> {
    /// Does the same as [`DecayingBucket::refund`], at this time.
    pub fn refund(self, n: u64, taken: Timestamp) -> u64 {
        let _change = self.limiter.queue.change(self.limiter);
        self.limiter.engine.refund(self.now_ns, n, taken.as_nanos())
    }

    /// Does the same as [`DecayingBucket::set`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the same cases as [`DecayingBucket::set`].
    pub fn set(self, capacity: u64, half_life: Duration) -> Result<(), QuotaError> {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        let now_ns = || self.now_ns;
        self.limiter.engine.change(capacity, half_life, now_ns)
    }
}
