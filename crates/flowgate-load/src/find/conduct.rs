//! The search over a service: how long each step takes, what is repeated, and when it ends.

use std::error::Error;
use std::fmt;
use std::slice;
use std::time::Duration;

use super::blocks::{BLOCKS, Blocks, Part};
use super::finding::{End, LoadFinding, SearchStep, StepVerdict};
use super::judgment::{BrokenObjective, Judgment, errors, judge, quantile};
use super::load_search::{LoadSearch, Varied};
use super::search::{Outcome, Search};

/// Least time of a step that narrows the result, and of one that only shows its size.
const LEAST: Duration = Duration::from_secs(3);
const LEAST_QUICK: Duration = Duration::from_millis(1_500);
/// A step that only shows the size needs this part of the requests.
const QUICK_PART: u64 = 4;
/// With this part of the requests, a step that is not clear says next to nothing.
const LITTLE: u64 = 8;
/// A step takes at least this many times the longest response time of the objective.
const TIMES_LONGEST: u32 = 20;
/// Steps that are not clear may use this multiple of their share of the time, because others are clear sooner.
const SLACK: u32 = 3;
/// Longest wait for a service that does not respond as before.
const RECOVERY: Duration = Duration::from_secs(15);
/// Steps in a row with too few requests, after which this machine cannot send more; and with late ones, because of a stall.
const MOST_SHORT: u32 = 2;
const MOST_LATE: u32 = 4;
/// Share of limited responses from which a search that does not count them as errors ends.
const LIMITED: f64 = 0.01;
/// Share of errors from which a service that does not recover counts as lost.
const TOO_MANY_ERRORS: f64 = 0.5;

/// A service under load: a server, or a model of one.
pub(super) trait Service {
    /// Applies the load of `level` for `span`, with at most `most` requests.
    fn offer(&mut self, level: f64, span: Duration, most: u64) -> Result<Offered, ServiceLost>;

    /// Waits until the service responds as before, for at most `limit`. Returns whether it does.
    fn recover(&mut self, limit: Duration) -> Result<bool, ServiceLost>;

    /// Returns the time since the search began.
    fn elapsed(&self) -> Duration;

    /// Returns whether the user has ended the search.
    fn is_stopped(&self) -> bool;
}

/// What came of a load.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) blocks: Blocks,
    pub(super) sent: u64,
    pub(super) connections: u64,
    /// Completed requests per second while the load lasted.
    pub(super) completed_per_second: f64,
    /// Number of requests without a response when the load was ended early, because too many waited.
    pub(super) overrun: Option<u64>,
    /// Why this client could not apply the load.
    pub(super) behind: Option<Behind>,
}

/// Why a client could not apply a load.
#[derive(Clone, Debug)]
pub(super) enum Behind {
    /// It sent too few requests.
    Short(String),
    /// It sent requests late, which counts as response time. If the objective is kept all the same, the server kept it.
    Late(String),
}

/// The service could not be reached, or stopped responding.
///
/// # Examples
///
/// ```
/// use flowgate_load::find::{Condition, HttpService, Slo, LoadSearch};
/// use flowgate_load::{Stop, Target};
///
/// // Nothing listens on this port.
/// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let mut service = HttpService::new(Target::parse(&format!("http://{free}/"))?, &Stop::new());
/// let slo = Slo::new([Condition::errors(0.01)?])?;
/// let lost = service.find(&LoadSearch::new(slo), |_| {}).unwrap_err();
/// assert!(lost.to_string().starts_with("cannot connect to"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLost(pub(super) String);

impl fmt::Display for ServiceLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ServiceLost {}

/// Searches. `tell` gets each step when it has been judged.
///
/// # Errors
///
/// Returns an error if the service is lost before the first step is complete. Later, the finding has what was found until then.
pub(super) fn conduct(
    service: &mut impl Service,
    wish: &LoadSearch,
    mut tell: impl FnMut(&SearchStep),
) -> Result<LoadFinding, ServiceLost> {
    let mut search = Search::new(wish.range());
    let mut steps: Vec<SearchStep> = Vec::new();
    let mut requests = 0;
    let mut behind_in_a_row = 0;
    let end = loop {
        let Some(level) = search.next() else {
            break End::Found;
        };
        let left = wish.within.saturating_sub(service.elapsed());
        let most = wish.max_requests.saturating_sub(requests);
        let span = match span(wish, &search, level, left, most) {
            Ok(span) => span,
            Err(end) => break end,
        };
        let budget = (left / (search.left() + 1) * SLACK).min(left);
        let tried = attempt(service, wish, level, span, budget, most);
        let attempt = match tried {
            Ok(attempt) => attempt,
            Err(lost) if steps.is_empty() => return Err(lost),
            Err(lost) => break End::ServiceLost(lost.to_string()),
        };
        requests += attempt.sent;
        if service.is_stopped() {
            break End::Interrupted;
        }
        if let Some(needs) = attempt.lacks(wish, level) {
            break End::OutOfTime { needs };
        }
        let step = attempt.step(wish, level);
        tell(&step);
        if !wish.counts_limited && step.limited > LIMITED {
            steps.push(step);
            break End::Limited;
        }
        let verdict = step.verdict.clone();
        let (share_of_errors, is_far) = (step.errors.value, attempt.judgment.is_far);
        steps.push(step);
        match verdict {
            StepVerdict::Kept => search.tell(Outcome::Met { is_far }),
            StepVerdict::Behind(why) => {
                // Once more: another program may have had the processor.
                behind_in_a_row += 1;
                let most = match attempt.behind() {
                    Some(Behind::Late(_)) => MOST_LATE,
                    Some(Behind::Short(_)) | None => MOST_SHORT,
                };
                if behind_in_a_row >= most {
                    search.give_up();
                    break End::Client(why);
                }
                continue;
            }
            StepVerdict::Broken(broken) => {
                let is_overload = matches!(
                    broken,
                    BrokenObjective::Overrun { .. } | BrokenObjective::Growing { .. }
                );
                let hint = (is_overload && wish.mode == Varied::Rate)
                    .then_some(attempt.completed_per_second);
                search.tell(Outcome::Broken { hint });
                if search.next().is_none() {
                    break End::Found;
                }
                let left = wish.within.saturating_sub(service.elapsed());
                match service.recover(RECOVERY.min(left)) {
                    Ok(true) => {}
                    Ok(false) if share_of_errors > TOO_MANY_ERRORS => {
                        break End::ServiceLost("it still answers with errors".to_owned());
                    }
                    Ok(false) => break End::NotRecovered,
                    Err(lost) => break End::ServiceLost(lost.to_string()),
                }
            }
        }
        behind_in_a_row = 0;
    };
    let (kept, broken) = search.bracket();
    Ok(LoadFinding {
        target: String::new(),
        slo: wish.slo.clone(),
        mode: wish.mode,
        steps,
        kept,
        broken,
        end,
        elapsed: service.elapsed(),
        requests,
    })
}

/// Returns how long the next step takes.
///
/// # Errors
///
/// Returns how the search ends if there is no time, or too few requests, for it.
fn span(
    wish: &LoadSearch,
    search: &Search,
    level: f64,
    left: Duration,
    most: u64,
) -> Result<Duration, End> {
    let is_quick = search.is_quick();
    let longest = wish.slo.longest().unwrap_or_default();
    if wish.mode == Varied::Burst {
        // One burst in each part, after the one before is over.
        let pause = (longest * 4).max(Duration::from_millis(500));
        let span = pause * (BLOCKS + 1);
        return match span <= left {
            true => Ok(span),
            false => Err(End::OutOfTime { needs: span }),
        };
    }
    let needed = wish.slo.requests() / if is_quick { QUICK_PART } else { 1 };
    // The number of requests of a closed loop is not known before.
    let for_requests = match wish.mode {
        Varied::Rate => Duration::try_from_secs_f64(needed as f64 / level).unwrap_or(Duration::MAX),
        Varied::Connections | Varied::Burst => Duration::ZERO,
    };
    let least = if is_quick { LEAST_QUICK } else { LEAST };
    let wanted = for_requests.max(least).max(longest * TIMES_LONGEST);
    // What is left is for this step and those after it.
    let share = left / (search.left() + 1);
    let span = wanted.min(share.max(least));
    if span > left {
        return Err(End::OutOfTime { needs: span });
    }
    if wish.mode == Varied::Rate && level * span.as_secs_f64() > most as f64 {
        return Err(End::OutOfRequests);
    }
    Ok(span)
}

/// One level that has been tried, perhaps twice.
struct Attempt {
    offered: Vec<Offered>,
    judgment: Judgment,
    sent: u64,
    completed_per_second: f64,
}

/// Tries a level, and again for twice as long while that is not clear and there is time.
fn attempt(
    service: &mut impl Service,
    wish: &LoadSearch,
    level: f64,
    span: Duration,
    budget: Duration,
    most: u64,
) -> Result<Attempt, ServiceLost> {
    let mut attempt = Attempt::of(wish, service.offer(level, span, most)?);
    let (mut again, mut left) = (span * 2, budget.saturating_sub(span));
    while !attempt.judgment.is_clear
        && attempt.behind().is_none()
        && again <= left
        && attempt.sent.saturating_mul(3) <= most
        && !service.is_stopped()
    {
        let more = service.offer(level, again, most - attempt.sent)?;
        attempt.add(wish, more);
        left = left.saturating_sub(again);
        again *= 2;
    }
    Ok(attempt)
}

fn judged(wish: &LoadSearch, offered: &[Offered]) -> Judgment {
    if let Some(waiting) = offered.iter().find_map(|offered| offered.overrun) {
        return Judgment {
            broken: Some(BrokenObjective::Overrun { waiting }),
            is_clear: true,
            is_far: false,
        };
    }
    judge(&wish.slo, &parts(wish, offered))
}

/// Returns the parts of the steps, with the errors that the wish counts.
fn parts(wish: &LoadSearch, offered: &[Offered]) -> Vec<Part> {
    let parts = offered.iter().flat_map(|offered| offered.blocks.parts());
    let counted = parts.map(|mut part| {
        if !wish.counts_limited {
            part.counts.failed -= part.counts.limited;
        }
        part
    });
    counted.collect()
}

impl Attempt {
    fn of(wish: &LoadSearch, first: Offered) -> Attempt {
        Attempt {
            judgment: judged(wish, slice::from_ref(&first)),
            sent: first.sent,
            completed_per_second: first.completed_per_second,
            offered: vec![first],
        }
    }

    fn add(&mut self, wish: &LoadSearch, more: Offered) {
        self.sent += more.sent;
        self.offered.push(more);
        self.judgment = judged(wish, &self.offered);
    }

    /// Returns why this client could not apply the load, if that may have decided.
    fn behind(&self) -> Option<&Behind> {
        let broken = self.judgment.broken;
        let is_by_time = broken.is_some_and(|broken| !broken.is_by_errors());
        let mut behind = self
            .offered
            .iter()
            .filter_map(|offered| offered.behind.as_ref());
        behind.find(|behind| match behind {
            Behind::Short(_) => true,
            Behind::Late(_) => is_by_time,
        })
    }

    /// Returns the time that a step at `level` needs, if this one was too short to be judged.
    fn lacks(&self, wish: &LoadSearch, level: f64) -> Option<Duration> {
        let needed = wish.slo.requests();
        let is_short = wish.mode == Varied::Rate && self.sent < needed / LITTLE;
        let needs = Duration::try_from_secs_f64(needed as f64 / level).ok()?;
        (is_short && !self.judgment.is_clear).then_some(needs)
    }

    fn step(&self, wish: &LoadSearch, level: f64) -> SearchStep {
        let parts = parts(wish, &self.offered);
        let seconds: f64 = self
            .offered
            .iter()
            .map(|offered| offered.blocks.width().as_secs_f64() * f64::from(BLOCKS))
            .sum();
        let waited_ns: f64 = parts.iter().map(|part| part.counts.sum_ns).sum();
        let requests: u64 = parts.iter().map(|part| part.counts.requests).sum();
        let limited: u64 = parts.iter().map(|part| part.counts.limited).sum();
        SearchStep {
            mode: wish.mode,
            level,
            seconds,
            sent: self.sent,
            connections: self
                .offered
                .iter()
                .map(|offered| offered.connections)
                .max()
                .unwrap_or(0),
            completed_per_second: self.completed_per_second,
            p50: quantile(&parts, 0.5),
            p99: quantile(&parts, 0.99),
            errors: errors(&parts),
            limited: limited as f64 / requests.max(1) as f64,
            in_flight: waited_ns / 1e9 / seconds,
            verdict: match (self.behind(), self.judgment.broken) {
                (Some(Behind::Short(why) | Behind::Late(why)), _) => {
                    StepVerdict::Behind(why.clone())
                }
                (None, Some(broken)) => StepVerdict::Broken(broken),
                (None, None) => StepVerdict::Kept,
            },
            is_clear: self.judgment.is_clear,
        }
    }
}
