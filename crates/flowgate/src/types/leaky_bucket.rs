//! [`LeakyBucket`]: a [`TokenBucket`](crate::TokenBucket) with a burst of 1 by default.

use crate::clock::Clock;
#[cfg(all(feature = "std", not(flowgate_loom)))]
use crate::clock::Timestamp;
use crate::limiter::RateLimiter;
use crate::limiter::builder::{Build, Builder};
use crate::primitive::const_unless_loom;
#[cfg(all(feature = "std", not(flowgate_loom)))]
use crate::queue::{Deadline, Spacing};
use crate::quota::{Quota, QuotaError};
use crate::types::token_bucket::{Bucket, Drops, Refill, builder};
#[cfg(all(feature = "std", not(flowgate_loom)))]
use crate::verdict::Denied;
#[cfg(all(feature = "std", not(flowgate_loom)))]
use core::time::Duration;

/// A minimum gap between operations, without bursts unless slack is set.
///
/// Use it where operations must be evenly spaced. Without slack, two operations are never closer together than the quota
/// allows.
///
/// It is a bucket with a hole. Each operation pours in one drop. Drops run out at the quota's rate. An operation that would
/// make the bucket overflow is refused. This is a token bucket seen from below, with a burst of 1 unless the quota sets one:
///
/// ```text
///  drops    each operation adds one, if there is room
///       1 ┤  ╭╮        ╭╮      ╭╮
///         │  │╰─╮      │╰─╮    │╰─╮     runs out at the rate
///       0 ┤──╯  ╰──────╯  ╰────╯  ╰────
///         └─────────────────────────────▶ time
/// ```
///
/// ```
/// use flowgate::{LeakyBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: LeakyBucket::new(quota)
/// let limiter = LeakyBucket::builder("2/s".parse()?).clock(&time).build()?;
/// assert!(limiter.try_acquire().is_ok());
/// assert!(limiter.try_acquire().is_err()); // a TokenBucket of 2/s would allow 2
/// time.advance(Duration::from_millis(500));
/// assert!(limiter.try_acquire().is_ok());
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![LeakyBucket: one every 50 ms][picture]
///
/// # Slack
///
/// [`slack`](LeakyBucketBuilder::slack), or a burst in the quota, lets callers catch up on missed operations after idle time. A
/// caller with jitter then comes closer to the rate. With a slack of *s*, a burst of *s* + 1 operations is possible.
///
/// # Guarantees
///
/// **Never over-admits** ([C1](crate::guide::guarantees)). In any interval of length *t*, the limiter admits at most
/// `1 + slack + rate × t` operations.
///
/// # Methods
///
/// It has the methods of [`TokenBucket`](crate::TokenBucket), with the guarantees, costs and errors that are described there.
///
/// - [`set_quota`](RateLimiter::set_quota) keeps the slack unless the new quota sets a burst.
/// - [`Carry::Reset`](crate::Carry::Reset) admits at most 1 + slack more operations, less the debt of the bucket.
/// - [`reserve`](RateLimiter::reserve) returns when the next operation may start, for callers that pace themselves.
///
/// # Source
///
/// J. Turner, *New directions in communications*, IEEE Communications Magazine, 1986, as a meter. It is also the
/// continuous-state leaky bucket of ITU-T I.371. That standard states that the leaky bucket and the virtual scheduling that is
/// used here make the same decisions.
#[cfg_attr(doc, doc = include_str!("../guide/pictures/leaky-bucket.md"))]
pub type LeakyBucket = RateLimiter<Bucket<Drops>>;

impl LeakyBucket {
    const_unless_loom! {
        /// Creates an empty bucket on [`Clock::system`], without slack unless `quota` sets a burst.
        ///
        /// Every [`Quota`] is accepted. In a `static` it needs no lazy cell.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::over(Bucket::new(quota), Clock::system())
        }
    }

    /// Returns a builder, for another clock or for slack.
    pub fn builder(quota: Quota) -> LeakyBucketBuilder {
        Builder::new(Settings {
            slack: None,
            drain: Drain::Constant,
            bucket: builder::Settings::new(quota),
        })
    }
}

impl LeakyBucket {
    /// Blocks the current thread until the next operation may start, and returns that time.
    ///
    /// Without slack, two calls never return closer together than the quota allows. The gap is measured from the previous
    /// *actual* return, so a thread that wakes up late delays the following ones.
    ///
    /// To keep a fixed schedule instead, use [`acquire`](Self::acquire), which measures from scheduled times ([`Spacing`] has a
    /// drawing). In tasks, use `acquire().spacing(Spacing::AtLeast).await`.
    ///
    /// ```
    /// use flowgate::LeakyBucket;
    ///
    /// let crawl = LeakyBucket::new("500/s".parse()?);
    /// let first = crawl.take()?;
    /// let second = crawl.take()?;
    /// assert!(second.as_nanos() - first.as_nanos() >= 2_000_000);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the [queue](Self::queue) is full ([`is_queue_full`](Denied::is_queue_full)) or closed
    /// ([`is_closed`](Denied::is_closed)).
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn take(&self) -> Result<Timestamp, Denied> {
        let turn = self.acquire().spacing(Spacing::AtLeast);
        turn.block().map(|grant| grant.at())
    }

    /// Does the same as [`take`](Self::take), but waits for at most `max_wait`.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1/h".parse()?);
    /// limiter.take()?;
    /// let denied = limiter.take_within(Duration::from_secs(1)).unwrap_err(); // says so at once
    /// assert!(denied.retry_after().unwrap() > Duration::from_secs(3000));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the wait would be longer than `max_wait`, immediately if that is certain. Also returns it if the
    /// [queue](Self::queue) is full ([`is_queue_full`](Denied::is_queue_full)) or closed ([`is_closed`](Denied::is_closed)).
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn take_within(&self, max_wait: Duration) -> Result<Timestamp, Denied> {
        let turn = self.acquire().spacing(Spacing::AtLeast);
        turn.within(max_wait).block().map(|grant| grant.at())
    }

    /// Does the same as [`take`](Self::take), but waits until `deadline` at the latest.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::{Duration, Instant};
    /// let limiter = LeakyBucket::new("500/s".parse()?);
    /// let deadline = Instant::now() + Duration::from_secs(10); // for all of them
    /// for _ in 0..3 {
    ///     limiter.take_by(deadline)?;
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the wait would end after `deadline`, and for the other reasons of
    /// [`take_within`](Self::take_within).
    ///
    /// # Panics
    ///
    /// Panics if `deadline` is an `Instant`, and the limiter's clock is not related to it. So does
    /// [`Acquire::by`](crate::Acquire::by).
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    #[track_caller]
    pub fn take_by(&self, deadline: impl Into<Deadline>) -> Result<Timestamp, Denied> {
        let turn = self.acquire().spacing(Spacing::AtLeast);
        turn.by(deadline).block().map(|grant| grant.at())
    }
}

/// How fast the queue of waiters flows out.
///
/// ```text
///   Constant       ●───●───●───●───●───●───●───●   one by one at the rate, however many wait
///   Proportional   ●●●─●─●──●───●──────●           faster the more do: 6 wait, then 5, …
/// ```
///
/// ```
/// use flowgate::{Drain, LeakyBucket};
///
/// let limiter =
///     LeakyBucket::builder("10/s".parse()?).drain(Drain::Proportional { up_to: 20 }).build()?;
/// # Ok::<_, flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Drain {
    /// The queue flows out at the quota's rate.
    #[default]
    Constant,
    /// The queue flows out faster the more units its waiters ask for.
    ///
    /// Its speed is the quota's rate times the units that all waiters ask for together, including the waiter that is granted.
    /// So *n* waiters that came together are all granted after 1 + 1/2 + … + 1/*n* intervals.
    ///
    /// In any interval of length *t*, the limiter then grants at most `1 + slack × up_to + up_to × rate × t` operations. An
    /// operation that does not wait is counted at the rate. Returned units count as if they had been granted at the highest
    /// speed, because the limiter does not record the speed.
    Proportional {
        /// The largest factor that multiplies the rate, 1 or more.
        up_to: u64,
    },
}

/// Settings of a [`LeakyBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`slack`](LeakyBucketBuilder::slack) | the quota's burst − 1; 0 if it sets no burst |
/// | [`initial_tokens`](LeakyBucketBuilder::initial_tokens) | 1 + slack: the bucket starts empty |
/// | [`drain`](LeakyBucketBuilder::drain) | [`Drain::Constant`] |
/// | [`refill`](LeakyBucketBuilder::refill) | [`Refill::Continuous`] |
/// | [`max_debt`](LeakyBucketBuilder::max_debt) | 1 + slack |
///
/// ```
/// use flowgate::{LeakyBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = LeakyBucket::builder("10/s".parse()?)
///     .clock(&time)
///     .slack(4) // a rest earns up to four more at once,
///     .initial_tokens(1) // but the first is alone
///     .build()?;
/// let at_once = || (0..9).filter(|_| limiter.try_acquire().is_ok()).count();
/// assert_eq!(at_once(), 1);
/// time.advance(Duration::from_secs(60));
/// assert_eq!(at_once(), 5);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] in these cases:
///
/// - The slack or the debt is too large to be kept exactly at this rate.
/// - There are more initial tokens than 1 + slack.
/// - `up_to` of [`Drain::Proportional`] is 0.
pub type LeakyBucketBuilder = Builder<Bucket<Drops>>;

#[derive(Clone, Debug)]
pub struct Settings {
    slack: Option<u64>,
    drain: Drain,
    bucket: builder::Settings,
}

impl Build for Bucket<Drops> {
    type Settings = Settings;

    fn build(settings: Settings, clock: &Clock) -> Result<Self, QuotaError> {
        let Settings {
            slack,
            drain,
            mut bucket,
        } = settings;
        let burst = match slack {
            None => bucket.quota.explicit_burst().unwrap_or(1),
            Some(slack) => slack.saturating_add(1),
        };
        bucket.quota = bucket.quota.try_burst(burst)?;
        bucket.default_burst = Some(burst);
        bucket.drain_up_to = match drain {
            Drain::Constant => 1,
            Drain::Proportional { up_to: 0 } => {
                return Err(QuotaError::out_of_range("a drain", 0, 1, u64::MAX));
            }
            Drain::Proportional { up_to } => up_to,
        };
        bucket.bucket(clock)
    }
}

impl LeakyBucketBuilder {
    /// Sets how many missed operations may be caught up, in tokens.
    ///
    /// After idle time, a burst of 1 + `tokens` operations is possible. This setting replaces the burst of the quota.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, ManualClock};
    ///
    /// let limiter = LeakyBucket::builder("10/s".parse()?)
    ///     .clock(ManualClock::new())
    ///     .slack(2)
    ///     .build()?;
    /// assert_eq!((0..9).filter(|_| limiter.try_acquire().is_ok()).count(), 3);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn slack(self, tokens: u64) -> Self {
        self.set(|settings| settings.slack = Some(tokens))
    }

    /// Sets how many units can be taken at the start (default: 1 + slack).
    ///
    /// With 1, the limiter first has to be idle before callers can use the slack.
    pub fn initial_tokens(self, units: u64) -> Self {
        self.set(|settings| settings.bucket.initial = Some(units))
    }

    /// Sets how fast drops run out for waiters in the queue.
    ///
    /// ```
    /// # use flowgate::{Drain, LeakyBucket};
    /// // A hundred who come together are gone after about five seconds, not after ten.
    /// let queue = LeakyBucket::builder("10/s".parse()?)
    ///     .drain(Drain::Proportional { up_to: 2 })
    ///     .build()?;
    /// # drop(queue);
    /// # Ok::<_, flowgate::QuotaError>(())
    /// ```
    pub fn drain(self, drain: Drain) -> Self {
        self.set(|settings| settings.drain = drain)
    }

    /// Sets how drops run out; see [`TokenBucketBuilder::refill`](crate::TokenBucketBuilder::refill).
    pub fn refill(self, refill: Refill) -> Self {
        self.set(|settings| settings.bucket.refill = refill)
    }

    /// Sets how far [`overdraw`](crate::TokenBucket::overdraw) may go below zero, in units.
    pub fn max_debt(self, units: u64) -> Self {
        self.set(|settings| settings.bucket.max_debt = Some(units))
    }
}
