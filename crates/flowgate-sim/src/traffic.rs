//! Sources of requests: when each begins, its key, and what its client does after a refusal.

use std::sync::Arc;
use std::time::Duration;

use flowgate_schedule::Schedule;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::keys::Keys;
use crate::share::Share;
use crate::text::{as_text, at_least_one, at_least_one_times};

/// A source of requests.
///
/// ```
/// use flowgate_schedule::Schedule;
/// use flowgate_sim::{Arrivals, Keys, Retries, Traffic};
/// use std::time::Duration;
///
/// let schedule = Schedule::poisson("150/s".parse()?, 1, 4_500)?;
/// let users = Traffic::new("users", Arrivals::Scheduled(schedule))
///     .keys(Keys::zipf(1_000, 1.1))
///     .deadline(Duration::from_millis(500))
///     .retries(Retries::new(3, Duration::from_millis(100)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Traffic {
    pub(crate) name: String,
    pub(crate) arrivals: Arrivals,
    pub(crate) keys: Keys,
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) retries: Option<Retries>,
}

/// When requests begin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Arrivals {
    /// At these times, whatever becomes of those before (an open loop).
    Scheduled(Schedule),
    /// Users who think after each answer, and then ask again (a closed loop).
    Closed {
        /// The number of users. They begin within the first think time.
        users: u32,
        /// How long a user thinks.
        think: Distribution,
    },
    /// As they were recorded, by time.
    Recorded(Arc<[Recorded]>),
}

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it began, since the first one.
    pub at: Duration,
    /// Whose it was.
    pub key: u64,
    /// How many tokens it takes.
    pub cost: u64,
}

/// What a client does after a refusal or a failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Retries {
    #[serde(deserialize_with = "at_least_one")]
    pub(crate) attempts: u32,
    #[serde(with = "as_text")]
    pub(crate) backoff: Duration,
    #[serde(default = "twice", deserialize_with = "at_least_one_times")]
    pub(crate) factor: f64,
    #[serde(default = "yes", rename = "jitter")]
    pub(crate) has_jitter: bool,
    #[serde(default = "yes")]
    pub(crate) heeds_retry_after: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<Share>,
}

fn twice() -> f64 {
    2.0
}

fn yes() -> bool {
    true
}

impl Traffic {
    /// Creates traffic with one key, a cost of one token, no deadline and no retries.
    pub fn new(name: impl Into<String>, arrivals: Arrivals) -> Self {
        Self {
            name: name.into(),
            arrivals,
            keys: Keys::one(),
            cost: 1,
            deadline: None,
            attempt_timeout: None,
            retries: None,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets whose the requests are (default: all of one key). Recorded requests have their own keys.
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = keys;
        self
    }

    /// Sets how many tokens or slots each request takes (default: 1).
    ///
    /// Rate limiters have tokens, and concurrency limits have slots. Recorded requests have their own costs.
    pub fn cost(mut self, tokens: u64) -> Self {
        self.cost = tokens;
        self
    }

    /// Sets how long a client waits for an answer, with all retries (default: no deadline).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets how long a client waits for each attempt (default: until the deadline).
    ///
    /// After that it tries again, if it has retries left. The server still serves the attempt that was abandoned.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// Sets that clients try again after a refusal, failure or timeout (default: no).
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = Some(retries);
        self
    }
}

impl Retries {
    /// Creates retries up to `attempts` attempts, the first included.
    ///
    /// The time before the first retry is random, up to `backoff`; each further one is up to twice as long.
    pub fn new(attempts: u32, backoff: Duration) -> Self {
        Self {
            attempts: attempts.max(1),
            backoff,
            factor: 2.0,
            has_jitter: true,
            heeds_retry_after: true,
            budget: None,
        }
    }

    /// Sets by how much each backoff is longer than the one before (default: 2).
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets whether a backoff is a random share of its length (default: it is).
    pub fn jitter(mut self, has_jitter: bool) -> Self {
        self.has_jitter = has_jitter;
        self
    }

    /// Sets whether a client waits as long as a refusal asks for (default: yes).
    pub fn heeds_retry_after(mut self, heeds: bool) -> Self {
        self.heeds_retry_after = heeds;
        self
    }

    /// Sets how many retries the source makes per request (default: any number).
    ///
    /// With 10 %, it makes one retry for ten requests.
    pub fn budget(mut self, share: Share) -> Self {
        self.budget = Some(share);
        self
    }

    /// The backoff before attempt number `attempt`, which is 2 for the first retry, in nanoseconds.
    pub(crate) fn backoff_ns(&self, attempt: u32, share: f64) -> u64 {
        let longer = libm::pow(self.factor, f64::from(attempt.saturating_sub(2)));
        let share = if self.has_jitter { share } else { 1.0 };
        (self.backoff.as_nanos() as f64 * longer * share) as u64
    }
}
