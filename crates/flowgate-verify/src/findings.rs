use serde::Serialize;

use crate::Claim;

/// All that was found out.
///
/// ```
/// use flowgate_verify::{Investigation, Kind, Question, Simulated};
/// # use flowgate::{Timestamp, TokenBucket};
/// # let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// # let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
///
/// // A token bucket of 20, which 100 per second flow into.
/// let mut subject = Simulated::new(|asked| decide(asked).into());
/// let Ok(findings) = Investigation::new().run(&mut subject, &mut |_| ());
///
/// let likeness = &findings.likeness;
/// assert_eq!((likeness.kind, likeness.explained), (Kind::TokenBucket, likeness.of));
/// let (rate, burst) = (likeness.rate.ok_or("a rate")?, likeness.burst.ok_or("a burst")?);
/// assert!((rate.value - 100.0).abs() <= rate.plus_minus.max(0.5));
/// assert_eq!(burst.value, 20.0);
/// assert_eq!(findings.faults, []);
///
/// // In no span there was more than 20, and 100 for each second of it.
/// for point in &findings.envelope {
///     assert!(point.admitted as f64 <= 20.0 + 100.0 * point.span + 1e-6);
/// }
/// let even = findings.steady.iter().find(|steady| steady.offered < 95.0).ok_or("below the rate")?;
/// assert!(even.admitted > 0.97 * even.offered);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Findings {
    /// What it looks like.
    pub likeness: Likeness,
    /// The most that was admitted in any span: for some lengths, increasing.
    pub envelope: Vec<Point>,
    /// Where most was admitted beyond what was allowed, by the claim or, without one, by what it looks like; of all
    /// spans the one that is furthest over, and otherwise the one that is nearest to it. None if nothing is claimed and it is
    /// of none of the kinds known.
    pub worst: Option<Worst>,
    /// What it admitted of even streams.
    pub steady: Vec<Steady>,
    /// Whether keys are apart, if several were given.
    pub keys: Option<KeyIsolation>,
    /// Whether what it said was true.
    pub honesty: Honesty,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// What was claimed, and whether that is so.
    pub claim: Option<Judgement>,
    /// How many were sent.
    pub requests: u64,
    /// How many of them were admitted.
    pub admitted: u64,
    /// How many of them got neither yes nor no.
    pub failed: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// What a limiter looks like.
#[derive(Clone, Debug, Serialize)]
pub struct Likeness {
    /// The kind that explains the answers best.
    pub kind: Kind,
    /// Others that explain them as well.
    pub or: Vec<Kind>,
    /// Tokens per second; none without a limit.
    pub rate: Option<Estimate>,
    /// The most at once: a bucket's size, a window's limit, a queue's length and one.
    pub burst: Option<Estimate>,
    /// A window's length, in seconds.
    pub window: Option<Estimate>,
    /// How long its clock stands still between two ticks, in seconds; none if the answers do not ask for such a clock.
    /// What lies between two ticks does not show, so of the rates that would explain the answers this is the lowest.
    pub clock_tick: Option<f64>,
    /// How many answers this kind explains.
    pub explained: u64,
    /// How many it should.
    pub of: u64,
}

/// A number and how far it may be off, either way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// How far it may be off. Infinite if it may be any more.
    pub plus_minus: f64,
}

/// Kinds of limiters, as far as they can be told apart from outside.
///
/// ```
/// use flowgate_verify::{Alignment, Kind};
///
/// assert_eq!(Kind::TokenBucket.to_string(), "token bucket / GCRA");
/// assert_ne!(Kind::FixedWindow(Alignment::Clock), Kind::FixedWindow(Alignment::FirstRequest));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// Token bucket, GCRA, leaky bucket as a meter: one thing under three names.
    TokenBucket,
    /// Those over the rate wait.
    LeakyQueue,
    /// The count begins anew with each window.
    FixedWindow(Alignment),
    /// At most the limit in every window.
    SlidingLog,
    /// At most the limit in the segment that it is now and those before it, so many in all. Windows are as long as
    /// these, or, as others see it, a segment shorter.
    SegmentedWindow(u32),
    /// The window before counts with the share of it that is still in sight.
    SlidingCounter,
    /// Nobody is refused.
    Unlimited,
    /// There is a limit, and none of these explains it.
    Unknown,
}

/// When a fixed window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alignment {
    /// A window begins with the first request after the one before has ended.
    FirstRequest,
    /// One window after the other, whether or not anybody asks.
    Clock,
}

/// A point of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The length of the span, in seconds.
    pub span: f64,
    /// The most that was surely admitted in such a span.
    pub admitted: u64,
}

/// The span in which more was admitted than anywhere else, by what was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// Its length, in seconds.
    pub span: f64,
    /// How many were surely admitted in it.
    pub admitted: u64,
    /// How many may be.
    pub allowed: f64,
    /// When it began, in seconds since the start.
    pub at: f64,
}

/// An even stream, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// Asked for, per second.
    pub offered: f64,
    /// Admitted, per second.
    pub admitted: f64,
    /// How many were asked for.
    pub requests: u64,
}

/// Whether keys have limits of their own.
///
/// ```
/// use flowgate_verify::{Investigation, Question, Simulated};
/// # use flowgate::{Timestamp, TokenBucket};
/// # let limiter = TokenBucket::new("100/s burst 20".parse()?);
/// # let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
///
/// // Both keys get what they get from one limiter.
/// let mut subject = Simulated::new(|asked| decide(asked).into());
/// let Ok(findings) = Investigation::new().keys(2).run(&mut subject, &mut |_| ());
/// let keys = findings.keys.ok_or("two were asked with")?;
/// assert!(keys.are_shared);
/// assert_eq!(keys.keys, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyIsolation {
    /// How many keys asked.
    pub keys: u32,
    /// Whether what one key took another lost.
    pub are_shared: bool,
    /// Jain's index of what the keys were admitted when all asked for too much; 1 if alike. None if the time or the requests
    /// did not suffice for that.
    pub jain: Option<f64>,
}

/// What it said of its limit, and whether that was true.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Honesty {
    /// Refusals with `Retry-After`.
    pub refusals_with_retry_after: u64,
    /// All refusals.
    pub refusals: u64,
    /// How often it was kept to exactly.
    pub retries: u64,
    /// How often that was too early.
    pub too_early: u64,
    /// By how many seconds at most.
    pub too_early_by: f64,
    /// Answers with fields of the kind `RateLimit`.
    pub with_fields: u64,
    /// How often "so many remain" was followed by a request with nothing in between.
    pub remaining_checked: u64,
    /// How often that was refused.
    pub remaining_untrue: u64,
    /// What it said the limit is, if it did.
    pub quota: Option<ToldQuota>,
}

/// A limit as answers told it, and whether it is the one that was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ToldQuota {
    /// The most at once: `RateLimit-Policy`'s `q`, or `X-RateLimit-Limit`.
    pub limit: u64,
    /// `RateLimit-Policy`'s `w`: the time in which as much can be had again, in seconds.
    pub window: Option<f64>,
    /// How many answers said this. If some said something else, this is what most said.
    pub answers: u64,
    /// Whether that was found. `None` if nothing was found that it could be compared with.
    pub agrees: Option<bool>,
}

/// What can be wrong with a limiter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fault {
    /// Those who ask at once get more than those who ask one after the other: a check and an act that are two steps.
    Race {
        /// Of one volley.
        admitted: u64,
        /// At most.
        allowed: f64,
    },
    /// Each of so many connections or nodes has the limit for itself.
    Nodes {
        /// So many were met.
        at_least: u32,
    },
    /// What it admits is so many times the claim in rate and burst, as if each of so many nodes kept it.
    TimesTheClaim {
        /// Two or more.
        times: u32,
    },
    /// The window begins anew later than it should.
    LateReset {
        /// So much longer is the window.
        by_seconds: f64,
    },
    /// `Retry-After` was kept to, and refused again.
    EarlyRetryAfter {
        /// Refused again.
        times: u64,
        /// Kept to.
        of: u64,
        /// At most.
        by_seconds: f64,
    },
    /// "So many remain" was not so.
    UntrueRemaining {
        /// Refused.
        times: u64,
        /// Looked at.
        of: u64,
    },
    /// More was admitted than allowed.
    OverAdmission {
        /// Where it is over by most.
        worst: Worst,
    },
    /// Less is admitted than allowed.
    UnderAdmission {
        /// Admitted.
        per_second: f64,
        /// Claimed, per second.
        allowed: f64,
    },
    /// Asked for more than it has, it admits less.
    Collapse {
        /// Asked for, per second.
        offered: f64,
        /// Admitted of that, per second.
        admitted: f64,
        /// Admitted at the rate itself, per second.
        of: f64,
    },
    /// After some refusals everything is refused.
    Ban {
        /// Before the last that was admitted.
        after_refusals: u64,
    },
    /// So many answers were neither yes nor no.
    Failures {
        /// Failed.
        times: u64,
        /// Sent.
        of: u64,
    },
}

/// What was claimed, and whether it is so.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// What was claimed.
    pub claim: Claim,
    /// Whether it is so.
    pub verdict: Verdict,
}

/// Whether a claim is right.
///
/// ```
/// use flowgate::{Timestamp, TokenBucket};
/// use flowgate_verify::{Claim, Investigation, Judgement, Question, Simulated, Verdict};
///
/// let judge = |claim: &str| {
///     let claim: Claim = claim.parse()?;
///     let limiter = TokenBucket::new("100/s burst 20".parse()?);
///     let decide = |asked: Question| limiter.at(Timestamp::from_nanos(asked.at_ns)).try_acquire().is_ok();
///     let mut subject = Simulated::new(|asked| decide(asked).into());
///     let Ok(findings) = Investigation::new().claim(claim).run(&mut subject, &mut |_| ());
///     let Judgement { verdict, .. } = findings.claim.ok_or("it is judged")?;
///     Ok::<Verdict, Box<dyn std::error::Error>>(verdict)
/// };
/// assert_eq!(judge("100/s burst 20")?, Verdict::Consistent);
/// assert!(matches!(judge("50/s burst 20")?, Verdict::Differs(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Consistent,
    /// It is not, and why not.
    Differs(Vec<String>),
    /// Too little could be seen, and why.
    Undecided(String),
}
