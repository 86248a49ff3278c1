//! Whether the rate was held or the rate limit kept, and if not, why not.

use std::fmt;
use std::time::Duration;

use crate::failure::Failure;
use crate::report::{Asked, Mode, Report, text};

/// Whether a run did what it was asked to, judged by [`Thresholds`].
///
/// - *Rate held*: every scheduled request was sent, on time, and the mean rate was the one asked for.
/// - *Rate limit kept*: the sends never exceeded the rate.
///
/// `Display` writes the words alone: `RATE HELD`, `RATE NOT HELD`, `RATE LIMIT KEPT`, `RATE LIMIT NOT KEPT`, `UNPACED`.
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
    /// Every scheduled request was sent, at the rate asked for, and on time.
    RateHeld,
    /// The mode was [`Mode::Hold`](crate::Mode::Hold), and the rate was not held. The first cause is the most important.
    RateNotHeld(Vec<Cause>),
    /// No more was sent than the limiter allows, in any interval; see [`Mode::Under`](crate::Mode::Under). The verdict
    /// checks the sends against [`Asked::guarantee`](crate::Asked::guarantee) or [`Asked::window`](crate::Asked::window).
    /// Fixed and approximate windows, and windows of more than 1,000,000 requests, have neither. There, only this is
    /// known: the limiter had allowed each request before it was sent.
    RateLimitKept,
    /// More was sent in some interval than the limiter allows.
    RateLimitNotKept(Vec<Cause>),
    /// The run had no rate.
    Unpaced,
}

/// The limits inside which a rate counts as held.
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
/// let Thresholds { rate_error, lag_p99 } = report.thresholds();
/// assert_eq!((rate_error, lag_p99), (0.001, Duration::from_millis(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// How far the achieved rate may be from the target, as a fraction of it: 0.001. Only a constant
    /// rate is judged by it; others are held when every request was sent on time.
    pub rate_error: f64,
    /// The 99th percentile that lag may have: one [interval](crate::Schedule::interval), but at
    /// least 1 ms.
    pub lag_p99: Duration,
}

/// One reason why a rate was not held, or a rate limit not kept.
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
    /// Requests waited for a connection: at this rate and service time more connections are needed
    /// (highest rate · mean service time, by Little's law) than are allowed.
    Busy {
        /// How many connections the load takes.
        needed: u64,
        /// How many it may use.
        allowed: u64,
    },
    /// Requests waited for a connection although there are enough on average: the server stood
    /// still for a while.
    Stalled {
        /// The longest that a request waited.
        longest: Duration,
        /// How many connections were all busy.
        allowed: u64,
    },
    /// Not every scheduled request was sent.
    Unsent {
        /// How many were.
        sent: u64,
        /// How many should have been.
        scheduled: u64,
        /// Why most of the others were not, when trying them failed.
        failure: Option<Failure>,
    },
    /// Requests were skipped because they were late.
    Skipped {
        /// How many were.
        skipped: u64,
        /// Of so many.
        scheduled: u64,
    },
    /// More was sent in a short time than may be.
    Over {
        /// How much was sent, …
        sends: u64,
        /// … in this time.
        within: Duration,
        /// How much may be sent in that.
        allowed: u64,
    },
    /// Requests were sent too late.
    Lag {
        /// How late, as the 99th percentile.
        p99: Duration,
        /// How late they may be.
        limit: Duration,
    },
    /// The mean rate was off.
    Rate {
        /// By how much, as a fraction of the target.
        error: f64,
        /// How much it may be off.
        limit: f64,
    },
}

impl Verdict {
    /// Returns why the rate was not held or the rate limit not kept, the most important cause first.
    ///
    /// ```
    /// use flowgate_load::{Cause, Verdict};
    ///
    /// assert!(Verdict::RateHeld.causes().is_empty());
    /// assert_eq!(Verdict::RateNotHeld(vec![Cause::Interrupted]).causes(), [Cause::Interrupted]);
    /// ```
    pub fn causes(&self) -> &[Cause] {
        match self {
            Verdict::RateNotHeld(causes) | Verdict::RateLimitNotKept(causes) => causes,
            Verdict::RateHeld | Verdict::RateLimitKept | Verdict::Unpaced => &[],
        }
    }
}

/// Judges a report by its numbers alone.
pub(crate) fn judge(report: &Report) -> Verdict {
    match report.asked.mode {
        Mode::Hold => held(report),
        Mode::Under => under(report),
        Mode::Unpaced => Verdict::Unpaced,
    }
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
    // What follows explains the causes found so far; by itself it would break nothing.
    if report.connections.longest_wait > thresholds.lag_p99 {
        causes.insert(0, busy(report));
    }
    if report.is_interrupted {
        causes.insert(0, Cause::Interrupted);
    }
    Verdict::RateNotHeld(causes)
}

/// Looks at what was sent, and does not trust the limiter that decided it.
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

/// The most sends from one to another that comes so much later, if that is known.
fn allowed(asked: &Asked, within: Duration) -> Option<u64> {
    if let Some(guarantee) = asked.guarantee {
        // An instant is known to a nanosecond.
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

/// Whether the connections are too few, or the server stood still.
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
                write!(f, "skipped {skipped} of {scheduled} that were late")
            }
            Cause::Over {
                sends,
                within,
                allowed,
            } => write!(
                f,
                "sent {sends} in {}, of {allowed} that may be",
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
                "rate off by {}, more than {} %",
                text::percent(error),
                limit * 100.0
            ),
        }
    }
}
