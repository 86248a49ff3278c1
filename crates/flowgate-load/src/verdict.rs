//! Whether the rate was held or the rate limit kept, whether too many requests failed, and why.

use std::fmt;
use std::time::Duration;

use crate::counts::{ErrorCause, RequestCounts};
use crate::failure::Failure;
use crate::report::{Asked, PacingMode, Report, text};

/// Verdict about a run, judged by [`Thresholds`].
///
/// - *Rate held*: every scheduled request was sent on time, and the mean rate matches the target.
/// - *Rate limit kept*: the sends never exceeded the rate.
/// - *Too many errors*: the load was as requested, but more requests failed than allowed.
///
/// `Display` writes the words alone: `RATE HELD`, `RATE NOT HELD`, `RATE LIMIT KEPT`, `RATE LIMIT NOT KEPT`, `UNPACED`,
/// `TOO MANY ERRORS`.
///
/// # Examples
///
/// ```
/// use flowgate_load::Verdict;
///
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// match report.verdict() {
///     Verdict::RateNotHeld(causes) => println!("rate not held: {}", causes[0]),
///     verdict => assert_eq!(verdict, Verdict::RateHeld),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every scheduled request was sent on time, and the mean rate matches the target.
    RateHeld,
    /// The mode was [`PacingMode::Hold`](crate::PacingMode::Hold), and the rate was not held. The first cause is the most
    /// important.
    RateNotHeld(Vec<Cause>),
    /// No interval contains more sends than the limiter allows; see [`PacingMode::Under`](crate::PacingMode::Under).
    ///
    /// The verdict checks the sends against [`Asked::guarantee`](crate::Asked::guarantee) or
    /// [`Asked::window`](crate::Asked::window). Fixed and approximate windows, and windows of more than 1,000,000
    /// requests, have neither. For these, the verdict only means that the limiter allowed each request before it was
    /// sent.
    RateLimitKept,
    /// An interval contains more sends than the limiter allows.
    RateLimitNotKept(Vec<Cause>),
    /// The run had no rate.
    Unpaced,
    /// The load was as requested, but the share of errors exceeds [`Thresholds::error_share`].
    ///
    /// If the rate was not held or the rate limit not kept, those verdicts take precedence, and the errors are their last
    /// cause.
    TooManyErrors(Vec<Cause>),
}

/// Thresholds within which a run is successful.
///
/// # Examples
///
/// ```
/// use flowgate_load::Thresholds;
///
/// # use std::time::Duration;
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// let Thresholds { rate_error, lag_p99, error_share } = report.thresholds();
/// // Two sends that are up to 1 ms late change a mean over 4 ms by up to 25 %.
/// assert_eq!((rate_error, lag_p99), (0.25, Duration::from_millis(1)));
/// assert_eq!(error_share, 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Maximum relative difference between the achieved rate and the target.
    ///
    /// It is 0.001, or more in a short run. The first and the last send may be late by `lag_p99`. In a short run, that alone changes the mean rate by more than
    /// 0.001, so the maximum is `lag_p99` as a share of the time that the sends should have taken.
    ///
    /// Only a constant rate is judged by it. Other rates are held if every request was sent on time.
    pub rate_error: f64,
    /// Maximum 99th percentile of the lag.
    ///
    /// It is one [interval](crate::Schedule::interval), but at least 1 ms.
    pub lag_p99: Duration,
    /// Maximum share of [errors](crate::RequestCounts::errors), from 0 to 1:
    /// [`Asked::max_error_share`](crate::Asked::max_error_share).
    pub error_share: f64,
}

/// Reason for a failed verdict.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Cause, Verdict};
///
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let mut report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// report.is_interrupted = true;
/// report.counts.sent = 3;
/// let Verdict::RateNotHeld(causes) = report.verdict() else {
///     panic!("{}", report.verdict());
/// };
/// assert_eq!(causes[0], Cause::Interrupted); // the first to be looked at
/// assert!(causes.contains(&Cause::Unsent { sent: 3, scheduled: 5, failure: None }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// The run was stopped before its end.
    Interrupted,
    /// Requests waited for a connection, because the load needs more connections than are allowed.
    ///
    /// The number is highest rate × mean service time, by Little's law.
    Busy {
        /// Number of connections that the load needs.
        needed: u64,
        /// Number of connections that the run may use.
        allowed: u64,
    },
    /// Requests waited for a connection although there are enough on average: the server stalled.
    Stalled {
        /// Longest time that a request waited.
        longest: Duration,
        /// Number of connections, all of which were busy.
        allowed: u64,
    },
    /// Not every scheduled request was sent.
    Unsent {
        /// Number of requests sent.
        sent: u64,
        /// Number of requests scheduled.
        scheduled: u64,
        /// Most frequent failure of the unsent requests, if they failed.
        failure: Option<Failure>,
    },
    /// Requests were skipped because they were late.
    Skipped {
        /// Number of requests skipped.
        skipped: u64,
        /// Number of requests scheduled.
        scheduled: u64,
    },
    /// A short interval contains more sends than the limiter allows.
    Over {
        /// Number of sends in the interval.
        sends: u64,
        /// Length of the interval.
        within: Duration,
        /// Number of sends that the limiter allows in it.
        allowed: u64,
    },
    /// Requests were sent too late.
    Lag {
        /// 99th percentile of the lag.
        p99: Duration,
        /// Maximum 99th percentile of the lag.
        limit: Duration,
    },
    /// The mean rate differs from the target.
    Rate {
        /// Relative difference to the target.
        error: f64,
        /// Maximum relative difference.
        limit: f64,
    },
    /// Too many requests failed.
    Errors {
        /// Number of errors.
        errors: u64,
        /// Number of requests that were sent, or failed before.
        tried: u64,
        /// Most frequent cause.
        commonest: ErrorCause,
        /// Maximum share of errors.
        limit: f64,
    },
}

impl Verdict {
    /// Returns the causes of a failed verdict, the most important first.
    ///
    /// ```
    /// use flowgate_load::{Cause, Verdict};
    ///
    /// assert!(Verdict::RateHeld.causes().is_empty());
    /// assert_eq!(Verdict::RateNotHeld(vec![Cause::Interrupted]).causes(), [Cause::Interrupted]);
    /// ```
    pub fn causes(&self) -> &[Cause] {
        match self {
            Verdict::RateNotHeld(causes)
            | Verdict::RateLimitNotKept(causes)
            | Verdict::TooManyErrors(causes) => causes,
            Verdict::RateHeld | Verdict::RateLimitKept | Verdict::Unpaced => &[],
        }
    }
}

/// Judges a report by its numbers alone.
pub(crate) fn judge(report: &Report) -> Verdict {
    let mut verdict = match report.asked.mode {
        PacingMode::Hold => held(report),
        PacingMode::Under => under(report),
        PacingMode::Unpaced => Verdict::Unpaced,
    };
    let Some(errors) = too_many_errors(&report.counts, report.asked.max_error_share) else {
        return verdict;
    };
    match &mut verdict {
        Verdict::RateNotHeld(causes) | Verdict::RateLimitNotKept(causes) => causes.push(errors),
        _ => verdict = Verdict::TooManyErrors(vec![errors]),
    }
    verdict
}

/// Returns the cause, if the share of errors exceeds `limit`.
pub(crate) fn too_many_errors(counts: &RequestCounts, limit: f64) -> Option<Cause> {
    let commonest = counts.errors_by_cause().into_iter();
    let (commonest, _) = commonest.max_by_key(|(_, count)| *count)?;
    counts
        .error_share()
        .is_some_and(|share| share > limit)
        .then(|| Cause::Errors {
            errors: counts.errors(),
            tried: counts.tried(),
            commonest,
            limit,
        })
}

fn held(report: &Report) -> Verdict {
    let thresholds = report.thresholds();
    let (counts, lag) = (&report.counts, report.lag);
    let scheduled = counts.scheduled.unwrap_or(counts.sent);
    let mut causes = Vec::new();
    if counts.skipped > 0 {
        causes.push(Cause::Skipped {
            skipped: counts.skipped,
            scheduled,
        });
    }
    if counts.sent + counts.skipped < scheduled {
        causes.push(Cause::Unsent {
            sent: counts.sent,
            scheduled,
            failure: report.commonest_unsent(),
        });
    }
    if lag.p99 > thresholds.lag_p99 {
        causes.push(Cause::Lag {
            p99: lag.p99,
            limit: thresholds.lag_p99,
        });
    }
    if report.asked.is_constant
        && let Some(error) = report.rate_error()
        && error.abs() > thresholds.rate_error
    {
        causes.push(Cause::Rate {
            error,
            limit: thresholds.rate_error,
        });
    }
    if causes.is_empty() {
        return Verdict::RateHeld;
    }
    // Busy connections explain the causes so far; they are not a cause by themselves.
    if report.connections.longest_wait > thresholds.lag_p99 {
        causes.insert(0, busy(report));
    }
    if report.is_interrupted {
        causes.insert(0, Cause::Interrupted);
    }
    Verdict::RateNotHeld(causes)
}

/// Checks the sends themselves, independently of the limiter that decided them.
fn under(report: &Report) -> Verdict {
    let over = report.pacing.envelope.iter().find_map(|cluster| {
        let allowed = allowed(&report.asked, cluster.within)?;
        (cluster.sends > allowed).then_some(Cause::Over {
            sends: cluster.sends,
            within: cluster.within,
            allowed,
        })
    });
    match over {
        Some(cause) => Verdict::RateLimitNotKept(vec![cause]),
        None => Verdict::RateLimitKept,
    }
}

/// Returns the maximum number of sends in an interval of `within`, both ends included, if it is known.
fn allowed(asked: &Asked, within: Duration) -> Option<u64> {
    if let Some(guarantee) = asked.guarantee {
        // Times are exact to one nanosecond.
        let within = within + Duration::from_nanos(1);
        return Some(guarantee.burst + (guarantee.per_second * within.as_secs_f64()) as u64);
    }
    let window = asked.window?;
    let begun = within.as_nanos() / window.span.as_nanos().max(1) + 1;
    Some(
        window
            .sends
            .saturating_mul(u64::try_from(begun).unwrap_or(u64::MAX)),
    )
}

/// Returns whether there are too few connections, or the server stalled.
fn busy(report: &Report) -> Cause {
    let allowed = report.connections.allowed;
    let needed = report.asked.in_flight(report.service.mean);
    if needed > allowed {
        Cause::Busy { needed, allowed }
    } else {
        Cause::Stalled {
            longest: report.connections.longest_wait,
            allowed,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::RateHeld => "RATE HELD",
            Verdict::RateNotHeld(_) => "RATE NOT HELD",
            Verdict::RateLimitKept => "RATE LIMIT KEPT",
            Verdict::RateLimitNotKept(_) => "RATE LIMIT NOT KEPT",
            Verdict::Unpaced => "UNPACED",
            Verdict::TooManyErrors(_) => "TOO MANY ERRORS",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cause::Interrupted => f.write_str("interrupted"),
            Cause::Busy { needed, allowed } => {
                write!(
                    f,
                    "connections busy: needs about {needed}, allowed {allowed}"
                )
            }
            Cause::Stalled { longest, allowed } => write!(
                f,
                "connections busy: a request waited {} for one of {allowed}",
                text::brief(longest),
            ),
            Cause::Unsent {
                sent,
                scheduled,
                failure,
            } => {
                write!(f, "sent {sent} of {scheduled}")?;
                match failure {
                    Some(failure) => write!(f, " ({failure})"),
                    None => Ok(()),
                }
            }
            Cause::Skipped { skipped, scheduled } => {
                write!(f, "skipped {skipped} late requests of {scheduled}")
            }
            Cause::Over {
                sends,
                within,
                allowed,
            } => write!(
                f,
                "sent {sends} in {}, {allowed} allowed",
                text::brief(within)
            ),
            Cause::Lag { p99, limit } => write!(
                f,
                "lag p99 {} over {}",
                text::brief(p99),
                text::brief(limit)
            ),
            Cause::Rate { error, limit } => write!(
                f,
                "rate off by {}, more than {}",
                text::percent(error),
                text::share(limit)
            ),
            Cause::Errors {
                errors,
                tried,
                commonest,
                limit,
            } => write!(
                f,
                "{errors} of {tried} requests failed ({commonest}), more than {}",
                text::share(limit)
            ),
        }
    }
}
