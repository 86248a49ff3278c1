//! [`LeakyBucket`]: the [`TokenBucket`](crate::TokenBucket) that allows nothing at once unless it is told to.

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

/// Evenly spaced: at most **1 + slack + rate · t** in every span of time t, and so, without slack, never two
/// closer together than the quota says.
///
/// A bucket with a hole in it. An operation pours in a drop, which runs out at the quota's rate; what would
/// make the bucket overflow is refused. That is the token bucket seen from below, of which the burst is 1
/// where the quota sets none:
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
/// # Slack
///
/// [`slack`](LeakyBucketBuilder::slack), or a burst in the quota, lets as many operations beyond the first catch up
/// after a rest, which makes a jittery caller come nearer to the rate. With slack s, s + 1 can come at once.
///
/// # Methods
///
/// It has those of [`TokenBucket`](crate::TokenBucket), with the guarantees, costs and errors that are described there.
/// [`set_quota`](RateLimiter::set_quota) keeps the slack unless the new quota sets a burst.
/// [`Carry::Reset`](crate::Carry::Reset) lets 1 + slack operations more through, less what the bucket is in debt.
/// [`reserve`](RateLimiter::reserve) returns when the next operation may start, for callers that pace themselves.
///
/// # Source
///
/// J. Turner, *New directions in communications*, IEEE Communications Magazine, 1986, as a meter; the
/// continuous-state leaky bucket of ITU-T I.371, which also says that it and the virtual scheduling that
/// is used here decide alike.
pub type LeakyBucket = RateLimiter<Bucket<Drops>>;

impl LeakyBucket {
    const_unless_loom! {
        /// An empty bucket on [`Clock::system`], without slack unless `quota` sets a burst.
        ///
        /// Every [`Quota`] can be honoured, so this cannot fail. In a `static` it needs no lazy cell.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::over(Bucket::new(quota), Clock::system())
        }
    }

    /// A bucket with another clock, or slack.
    pub fn builder(quota: Quota) -> LeakyBucketBuilder {
        Builder::new(Settings {
            slack: None,
            drain: Drain::Constant,
            bucket: builder::Settings::new(quota),
        })
    }
}

impl LeakyBucket {
    /// Blocks this thread until its turn, which is counted from when the one before really went on its way, and says
    /// when that was: two that return are never closer together than the quota says, unless there is slack.
    ///
    /// For a schedule that does not slip when a thread wakes up late, use
    /// [`acquire`](Self::acquire), which counts from when a turn was due ([`Spacing`] has a drawing); for tasks,
    /// `acquire().spacing(Spacing::AtLeast).await`.
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
    /// [`Denied`] if the [queue](Self::queue) is full or closed.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn take(&self) -> Result<Timestamp, Denied> {
        let turn = self.acquire().spacing(Spacing::AtLeast);
        turn.block().map(|grant| grant.at())
    }

    /// [`take`](Self::take), unless that would mean waiting for longer than `max_wait`.
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
    /// Also if the wait would be longer; at once, if that is known.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn take_within(&self, max_wait: Duration) -> Result<Timestamp, Denied> {
        let turn = self.acquire().spacing(Spacing::AtLeast);
        turn.within(max_wait).block().map(|grant| grant.at())
    }

    /// [`take`](Self::take), unless that would mean waiting beyond `deadline`.
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
    /// [`Denied`] as from [`take_within`](Self::take_within).
    ///
    /// # Panics
    ///
    /// As [`Acquire::by`](crate::Acquire::by).
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    #[track_caller]
    pub fn take_by(&self, deadline: impl Into<Deadline>) -> Result<Timestamp, Denied> {
        let turn = self.acquire().spacing(Spacing::AtLeast);
        turn.by(deadline).block().map(|grant| grant.at())
    }
}

/// How fast a queue of those who wait flows out.
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
    /// At the quota's rate.
    #[default]
    Constant,
    /// As water leaves a bucket: at the quota's rate times what those in the queue ask for together, the one who goes
    /// included, so that n who came together are gone after 1 + 1/2 + … + 1/n intervals.
    ///
    /// At most 1 + slack · `up_to` + `up_to` · rate · t are then granted in every span of time t. Who does not wait is
    /// counted at the rate. What is given back counts as if it had been granted at the fastest, since nobody knows.
    Proportional {
        /// The most that the rate is multiplied by, 1 or more.
        up_to: u64,
    },
}

/// Settings of a [`LeakyBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`slack`](LeakyBucketBuilder::slack) | 0, or what the quota's burst leaves beside the first |
/// | [`initial_tokens`](LeakyBucketBuilder::initial_tokens) | 1 + slack: it starts empty, and so with room for all |
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
/// [`build`](Builder::build) returns [`QuotaError`] if the slack or the debt is too large to be kept exactly at this rate, the
/// initial tokens are more than 1 + slack, or the drain is to be 0 times as fast.
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
    /// How many operations beyond the first may come at once after a rest, in tokens: the same as a burst of
    /// 1 + `tokens`, which it takes the place of.
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

    /// How many units can be taken to begin with; all of 1 + slack unless it is said. With 1, slack has to be
    /// earned by a rest first.
    pub fn initial_tokens(self, units: u64) -> Self {
        self.set(|settings| settings.bucket.initial = Some(units))
    }

    /// How fast drops run out for those who wait in the queue.
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

    /// How drops run out; see [`TokenBucketBuilder::refill`](crate::TokenBucketBuilder::refill).
    pub fn refill(self, refill: Refill) -> Self {
        self.set(|settings| settings.bucket.refill = refill)
    }

    /// How far [`overdraw`](crate::TokenBucket::overdraw) may go below zero, in units.
    pub fn max_debt(self, units: u64) -> Self {
        self.set(|settings| settings.bucket.max_debt = Some(units))
    }
}
