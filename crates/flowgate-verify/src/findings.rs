use std::time::Duration;

use flowgate::Quota;
use serde::Serialize;

use crate::ExpectedLimit;

/// Results of an investigation.
///
/// ```
/// use flowgate_verify::{Investigation, DetectedKind, Question, Simulated};
/// # use flowgate::{Timestamp, TokenBucket};
/// # let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// # let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
///
/// // A token bucket with a burst of 20 that refills at 100/s.
/// let mut subject = Simulated::new(|asked| decide(asked).into());
/// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
///
/// let detected = &findings.detected;
/// assert_eq!((detected.kind, detected.consistent), (DetectedKind::TokenBucket, detected.answers));
/// let (rate, burst) = (detected.rate.ok_or("a rate")?, detected.burst.ok_or("a burst")?);
/// assert!((rate.value - 100.0).abs() <= rate.plus_minus.max(0.5));
/// assert_eq!(burst.value, 20.0);
/// assert_eq!(findings.defects, []);
///
/// // No interval admits more than 20 + 100 per second.
/// for point in &findings.envelope {
///     assert!(point.admitted as f64 <= 20.0 + 100.0 * point.interval + 1e-6);
/// }
/// let even = findings.steady.iter().find(|steady| steady.offered < 95.0).ok_or("below the rate")?;
/// assert!(even.admitted > 0.97 * even.offered);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Findings {
    /// Detected algorithm, with rate and burst.
    pub detected: DetectedAlgorithm,
    /// Findings so far, and what would resolve the rest, if no algorithm was detected.
    pub unresolved: Option<String>,
    /// Admitted and refused requests over time, in up to 120 slots of equal length.
    pub slots: Vec<SeenSlot>,
    /// Most requests admitted in an interval, by its length, in increasing order.
    pub envelope: Vec<EnvelopePoint>,
    /// Interval in which the most was admitted, relative to the limit.
    ///
    /// The limit is the expected limit or, without one, the detected limit. `None` if there is neither.
    pub worst: Option<Worst>,
    /// Admitted rates of steady streams.
    pub steady: Vec<Steady>,
    /// Whether keys have separate limits, if several keys were given.
    pub keys: Option<KeyIsolation>,
    /// Accuracy of `Retry-After` and the `RateLimit` headers.
    pub headers: HeaderAccuracy,
    /// Defects of the limiter.
    pub defects: Vec<Defect>,
    /// Expected limit and whether the limiter matches it, if a limit was expected.
    pub expected: Option<Judgement>,
    /// Number of requests sent.
    pub requests: u64,
    /// Number of requests admitted.
    pub admitted: u64,
    /// Number of requests without a conclusive response.
    pub failed: u64,
    /// Duration of the investigation, in seconds.
    pub seconds: f64,
}

/// Share of the lowest rate that a client can send at constant intervals: in general, and if the burst is one.
const SAFE: f64 = 0.99;
const SAFE_WITHOUT_BURST: f64 = 0.95;

/// Fewer requests than this in a period are written for a longer one.
const ENOUGH_DIGITS: f64 = 20.0;

impl Findings {
    /// Returns a rate that this server admits if a client sends at constant intervals.
    ///
    /// It is 1 % to 5 % below the detected rate or, of two limits, below the slower one. Of a limit with a block, it is
    /// below [`DetectedBlock::admitted_rate`]. `None` if no limit was detected, or no such rate.
    ///
    /// ```
    /// use flowgate_verify::{Investigation, Question, Simulated};
    /// # use flowgate::{Timestamp, TokenBucket};
    /// # let limiter = TokenBucket::new("100/s burst 20".parse()?);
    /// # let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
    ///
    /// let mut subject = Simulated::new(|asked| decide(asked).into());
    /// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
    /// assert_eq!(findings.safe_rate().ok_or("no limit")?.to_string(), "98/s");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn safe_rate(&self) -> Option<Quota> {
        let detected = &self.detected;
        if let Some(block) = &detected.block {
            return slightly_below(SAFE * block.admitted_rate?);
        }
        let single = detected.rate.zip(detected.burst);
        let single = single.filter(|_| detected.kind != DetectedKind::Unknown);
        let of_two = detected.limits.iter();
        // Below the rate of the window, its pool is not asked.
        let of_two = of_two.take(match detected.kind {
            DetectedKind::BurstPool => 1,
            _ => detected.limits.len(),
        });
        let of_two = of_two.map(|limit| (limit.rate, limit.burst));
        let rates = single.into_iter().chain(of_two).map(|(rate, burst)| {
            let share = match burst.value < 2.0 {
                true => SAFE_WITHOUT_BURST,
                false => SAFE,
            };
            share * (rate.value - rate.plus_minus)
        });
        slightly_below(rates.min_by(f64::total_cmp)?)
    }
}

/// Returns this rate per second as a quota, rounded down.
fn slightly_below(rate: f64) -> Option<Quota> {
    let periods = [1, 60, 3_600, 86_400];
    let fits = |seconds: &u64| rate * *seconds as f64 >= ENOUGH_DIGITS;
    let seconds = periods.into_iter().find(fits).unwrap_or(86_400);
    let count = (rate * seconds as f64).floor() as u64;
    Quota::new(count, Duration::from_secs(seconds)).ok()
}

/// Algorithm that a limiter appears to use, with its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct DetectedAlgorithm {
    /// Algorithm that is consistent with the most responses.
    pub kind: DetectedKind,
    /// Other algorithms that are consistent with about as many responses.
    ///
    /// If `kind` is [`DetectedKind::Unknown`], this is the closest match.
    pub alternatives: Vec<DetectedKind>,
    /// Rate in requests per second; `None` if no limit was found.
    pub rate: Option<Estimate>,
    /// Burst: bucket size, limit of a window, or queue length + 1.
    pub burst: Option<Estimate>,
    /// Length of the window, in seconds; `None` for buckets and queues.
    pub window: Option<Estimate>,
    /// Resolution of the limiter's clock, in seconds; `None` if the clock appears to be exact.
    ///
    /// Responses do not show what happens between two clock ticks. Of the rates that are consistent with the responses,
    /// `rate` is then the lowest.
    pub clock_tick: Option<f64>,
    /// The limits, if there are two.
    ///
    /// If `kind` is [`DetectedKind::TwoLimits`], these are the two, the faster one first. If it is [`DetectedKind::BurstPool`], they are the
    /// window and its pool. Otherwise the list is empty.
    pub limits: Vec<DetectedLimit>,
    /// The delays if `kind` is [`DetectedKind::Delays`]; otherwise `None`.
    ///
    /// `burst` is then the number of requests in a window that are not delayed.
    pub delays: Option<DetectedDelays>,
    /// The block if `kind` is [`DetectedKind::BlocksAfterLimit`]; otherwise `None`.
    ///
    /// `burst` is then the number of requests that are admitted before it.
    pub block: Option<DetectedBlock>,
    /// Number of responses that are consistent with `kind`.
    pub consistent: u64,
    /// Number of conclusive responses.
    pub answers: u64,
}

/// One of two limits.
#[derive(Clone, Debug, Serialize)]
pub struct DetectedLimit {
    /// Algorithm of this limit.
    pub kind: DetectedKind,
    /// Other algorithms that are consistent with the responses. The error bounds hold for these, too.
    pub alternatives: Vec<DetectedKind>,
    /// Rate in requests per second.
    pub rate: Estimate,
    /// Burst: bucket size, or limit of a window.
    pub burst: Estimate,
    /// Length of the window, in seconds; `None` for buckets.
    pub window: Option<Estimate>,
    /// Whether requests that the other limit refused certainly count, too.
    pub counts_refused: bool,
}

/// Delays of the requests of a window after the first [`burst`](DetectedAlgorithm::burst), in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DetectedDelays {
    /// Delay of the first of these requests.
    pub first: Estimate,
    /// Additional delay of each further request. It is 0 if all of them have the same delay.
    pub step: Estimate,
    /// Longest delay; `None` if it was not reached, or if all have the same delay.
    pub longest: Option<Estimate>,
}

/// Time for which nothing is admitted once [`burst`](DetectedAlgorithm::burst) requests were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DetectedBlock {
    /// Length of the block, in seconds.
    pub length: Estimate,
    /// What the length is counted from.
    pub counted_from: BlockStart,
    /// Rate of a stream at constant intervals without a refusal, in requests per second.
    ///
    /// The stream began after a block, and had more requests than the limit. `None` if no such stream was found.
    pub admitted_rate: Option<f64>,
}

/// What the length of a [block](DetectedBlock) is counted from.
///
/// ```
/// use flowgate_verify::BlockStart;
///
/// assert_eq!(BlockStart::LastRefusal.to_string(), "the last refused request");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockStart {
    /// The admission that used up the limit.
    LastAdmission,
    /// The first refusal. Later ones do not lengthen the block.
    FirstRefusal,
    /// The last refusal. A request during the block starts it anew.
    LastRefusal,
}

/// Number with an error bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Best estimate.
    pub value: f64,
    /// Error bound in both directions. Infinite if the number has only a lower bound.
    pub plus_minus: f64,
}

impl Estimate {
    /// Widens the error bound by other estimates that are as good.
    pub(crate) fn or_any(self, others: impl Iterator<Item = Self>) -> Self {
        let off = others.map(|other| (other.value - self.value).abs() + other.plus_minus);
        Self {
            plus_minus: off.fold(self.plus_minus, f64::max),
            ..self
        }
    }
}

/// Algorithm of a limiter, as far as responses distinguish algorithms.
///
/// ```
/// use flowgate_verify::{Alignment, DetectedKind};
///
/// assert_eq!(DetectedKind::TokenBucket.to_string(), "token bucket / GCRA");
/// assert_ne!(DetectedKind::FixedWindow(Alignment::Clock), DetectedKind::FixedWindow(Alignment::FirstRequest));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DetectedKind {
    /// Token bucket, GCRA, or leaky bucket as a meter. These three behave identically.
    TokenBucket,
    /// Leaky bucket in which requests over the rate wait.
    LeakyQueue,
    /// Fixed window: the count restarts with each window.
    FixedWindow(Alignment),
    /// Sliding window: at most the limit in every window.
    SlidingLog,
    /// Sliding window in segments; the number is the number of segments that count.
    ///
    /// At most the limit is admitted in the current segment and those before it.
    SegmentedWindow(u32),
    /// Sliding window of two counters: the previous window counts in proportion to its overlap.
    SlidingCounter,
    /// Sliding window in which every request counts, refused ones too.
    ///
    /// A client that retries before the window has passed stays refused.
    CountsRefused,
    /// Sliding window of two counters of every request, refused ones too.
    ///
    /// A client is admitted again once it sends less than the limit in a window, and those of the window before count less and less.
    CounterCountsRefused,
    /// Requests over the limit are delayed, not refused. [`DetectedAlgorithm::delays`] has by how much.
    ///
    /// The delay depends on the number of requests in the window, not on how many are in flight.
    Delays,
    /// Once the limit is used up, nothing is admitted for a time. [`DetectedAlgorithm::block`] has for how long.
    ///
    /// The time is not that of a window: it is counted from the end of the admissions or from a refusal.
    BlocksAfterLimit,
    /// Two limits: a request is admitted if both admit it. [`DetectedAlgorithm::limits`] has them.
    TwoLimits,
    /// A window, and a pool that admits some of what the window refuses. [`DetectedAlgorithm::limits`] has the window, then the
    /// pool.
    ///
    /// The pool is a window of its own, such as 5 in 10 s. A client below the rate of the first window never uses it.
    BurstPool,
    /// No request is refused.
    Unlimited,
    /// A limit, but no known algorithm is consistent with the responses.
    Unknown,
}

/// Start of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alignment {
    /// A window starts with the first request after the previous window has ended.
    FirstRequest,
    /// Windows follow each other without gaps, whether or not requests arrive.
    Clock,
}

/// Admitted and refused requests of a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeenSlot {
    /// Start of the slot, in seconds since the investigation began.
    pub at: f64,
    /// Length of the slot, in seconds.
    pub seconds: f64,
    /// Number of requests sent in the slot and admitted.
    pub admitted: u64,
    /// Number of requests sent in the slot and refused.
    pub refused: u64,
}

/// Point of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EnvelopePoint {
    /// Length of the interval, in seconds.
    pub interval: f64,
    /// Most requests that were certainly admitted in an interval of this length.
    pub admitted: u64,
}

/// Interval with the most admissions, relative to what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Length of the interval, in seconds.
    pub interval: f64,
    /// Number of requests that were certainly admitted in the interval.
    pub admitted: u64,
    /// Number of requests that the limit allows in the interval.
    pub allowed: f64,
    /// Start of the interval, in seconds since the first request.
    pub at: f64,
}

/// Steady stream of requests, and its admitted rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// Offered rate, in requests per second.
    pub offered: f64,
    /// Admitted rate, in requests per second.
    pub admitted: f64,
    /// Number of requests in the stream that were sent on time. The rates are those of these requests.
    pub requests: u64,
}

/// Whether keys have separate limits.
///
/// ```
/// use flowgate_verify::{Investigation, Question, Simulated};
/// # use flowgate::{Timestamp, TokenBucket};
/// # let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// # let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
///
/// // Both keys share one limiter.
/// let mut subject = Simulated::new(|asked| decide(asked).into());
/// let Ok(findings) = Investigation::new().keys(2).run(&mut subject, &mut |_| ());
/// let keys = findings.keys.ok_or("only one key")?;
/// assert!(keys.are_shared);
/// assert_eq!(keys.keys, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyIsolation {
    /// Number of keys.
    pub keys: u32,
    /// Whether requests of one key reduce what another key is admitted.
    pub are_shared: bool,
    /// Accuracy of the headers that describe a limit.
    ///
    /// `None` if the budget was too small to measure it.
    pub jain: Option<f64>,
}

/// Accuracy of the headers in which a server describes its limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeaderAccuracy {
    /// Number of refusals with `Retry-After`.
    pub refusals_with_retry_after: u64,
    /// Number of refusals.
    pub refusals: u64,
    /// Number of retries sent exactly when `Retry-After` allowed it.
    pub retries: u64,
    /// Number of those retries that were refused again.
    pub too_early: u64,
    /// Longest time by which `Retry-After` was too early, in seconds.
    pub too_early_by: f64,
    /// Number of responses with `RateLimit` or `X-RateLimit` headers.
    pub with_fields: u64,
    /// Number of requests that directly followed a response with remaining requests.
    pub remaining_checked: u64,
    /// Number of those requests that were refused.
    pub remaining_wrong: u64,
    /// Limit that the responses advertise, if they do.
    pub advertised: Option<AdvertisedQuota>,
}

/// Limit that responses advertise, compared with the detected one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AdvertisedQuota {
    /// Burst: `RateLimit-Policy`'s `q`, or `X-RateLimit-Limit`.
    pub limit: u64,
    /// Window, in seconds: `RateLimit-Policy`'s `w`.
    pub window: Option<f64>,
    /// Number of responses that advertise this limit. If they differ, this is the most frequent one.
    pub answers: u64,
    /// Whether the advertised limit matches the detected one; `None` if no comparable limit was detected.
    pub agrees: Option<bool>,
}

/// Defect of a limiter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Defect {
    /// Concurrent requests are admitted beyond the limit: the limiter checks and updates in two steps.
    Race {
        /// Number of requests of one batch that were admitted.
        admitted: u64,
        /// Number of requests that the limit allows.
        allowed: f64,
    },
    /// Each connection or node has a separate limit.
    Nodes {
        /// Number of separate limits that were observed.
        at_least: u32,
    },
    /// Rate and burst are a multiple of the expected limit, as if several nodes each enforced it.
    MultipleOfExpected {
        /// Factor, at least 2.
        times: u32,
    },
    /// The window resets later than expected.
    LateReset {
        /// Additional length of the window, in seconds.
        by_seconds: f64,
    },
    /// `Retry-After` is too early: a request sent at that time is refused again.
    EarlyRetryAfter {
        /// Number of retries that were refused again.
        times: u64,
        /// Number of retries.
        of: u64,
        /// Longest time by which `Retry-After` was too early, in seconds.
        by_seconds: f64,
    },
    /// A response reports remaining requests, but the next request is refused.
    WrongRemaining {
        /// Number of requests that were refused although some remained.
        times: u64,
        /// Number of requests that were checked.
        of: u64,
    },
    /// More requests are admitted than the limit allows.
    OverAdmission {
        /// Interval with the largest excess.
        worst: Worst,
    },
    /// Fewer requests are admitted than the limit allows.
    UnderAdmission {
        /// Admitted rate, in requests per second.
        per_second: f64,
        /// Expected rate, in requests per second.
        allowed: f64,
    },
    /// Under overload, the limiter admits fewer requests than at its rate.
    Collapse {
        /// Offered rate, in requests per second.
        offered: f64,
        /// Admitted rate at that offered rate, in requests per second.
        admitted: f64,
        /// Admitted rate when the rate itself is offered, in requests per second.
        of: f64,
    },
    /// After a number of refusals, everything is refused for a time.
    ///
    /// Afterward more is admitted than any second, slower limit would admit.
    Ban {
        /// Number of refusals before the last admission.
        after_refusals: u64,
    },
    /// Nothing is admitted for longer than the expected limit takes to refill.
    ///
    /// There is a second, slower limit, or a ban.
    NoRecovery {
        /// Number of requests that were admitted before.
        admitted: u64,
        /// Time without admissions, in seconds.
        silent_seconds: f64,
    },
    /// Requests without a conclusive response.
    Failures {
        /// Number of requests without a conclusive response.
        times: u64,
        /// Number of requests sent.
        of: u64,
    },
}

impl Defect {
    /// Names of all defects.
    pub const NAMES: [&'static str; 12] = [
        "race",
        "nodes",
        "multiple-of-expected",
        "late-reset",
        "early-retry-after",
        "wrong-remaining",
        "over-admission",
        "under-admission",
        "collapse",
        "ban",
        "failures",
        "no-recovery",
    ];

    /// Returns the name of the defect, as in JSON.
    ///
    /// ```
    /// use flowgate_verify::Defect;
    ///
    /// assert_eq!(Defect::Ban { after_refusals: 7 }.name(), "ban");
    /// assert!(Defect::NAMES.contains(&"ban"));
    /// ```
    pub fn name(&self) -> &'static str {
        let index = match self {
            Self::Race { .. } => 0,
            Self::Nodes { .. } => 1,
            Self::MultipleOfExpected { .. } => 2,
            Self::LateReset { .. } => 3,
            Self::EarlyRetryAfter { .. } => 4,
            Self::WrongRemaining { .. } => 5,
            Self::OverAdmission { .. } => 6,
            Self::UnderAdmission { .. } => 7,
            Self::Collapse { .. } => 8,
            Self::Ban { .. } => 9,
            Self::Failures { .. } => 10,
            Self::NoRecovery { .. } => 11,
        };
        Self::NAMES[index]
    }
}

/// Expected limit, and whether the limiter matches it.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// Expected limit.
    pub limit: ExpectedLimit,
    /// Whether the limiter matches the expected limit.
    pub verdict: ExpectedVerdict,
}

/// Whether a limiter matches an expected limit.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use flowgate_verify::{ExpectedLimit, Investigation, Judgement, Question, Simulated, ExpectedVerdict};
///
/// let judge = |expected: &str| {
///     let expected: ExpectedLimit = expected.parse()?;
///     let limiter = TokenBucket::new("100/s burst 20".parse()?);
///     let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
///     let mut subject = Simulated::new(|asked| decide(asked).into());
///     let Ok(findings) = Investigation::new().expected(expected).run(&mut subject, &mut |_| ());
///     let Judgement { verdict, .. } = findings.expected.ok_or("no expected limit")?;
///     Ok::<ExpectedVerdict, Box<dyn std::error::Error>>(verdict)
/// };
/// assert_eq!(judge("100/s burst 20")?, ExpectedVerdict::Consistent);
/// assert!(matches!(judge("50/s burst 20")?, ExpectedVerdict::Differs(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedVerdict {
    /// The limiter matches.
    Consistent,
    /// The limiter does not match, for these reasons.
    Differs(Vec<String>),
    /// The responses do not decide, for this reason.
    Undecided(String),
}
