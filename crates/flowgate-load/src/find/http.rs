//! A server behind HTTP as a service whose load is varied: each step is a run.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use flowgate::Quota;
use flowgate_schedule::{Extent, Schedule, ScheduleError};

use super::blocks::{BLOCKS, Blocks};
use super::conduct::{Behind, Offered, Service, ServiceLost, conduct};
use super::finding::{LoadFinding, SearchStep};
use super::load_search::{LoadSearch, Varied};
use crate::connection::ConnectOptions;
use crate::engine::{self, RunError};
use crate::plan::{Pace, Plan, Template};
use crate::progress::Progress;
use crate::report::{Report, text};
use crate::stop::Stop;
use crate::target::Target;

/// Connections of a search by rate that does not name their number, at the most.
const MOST_CONNECTIONS: f64 = 2_000.0;
/// Response time beyond the objective's, or this time, at which a step is ended early, as a multiple.
const TOO_MANY: f64 = 4.0;
const WITHOUT_A_TIME: Duration = Duration::from_secs(1);
/// Progress reports in a row, ten per second, that have to show it: one stall is not enough.
const PATIENT: u32 = 10;
/// Requests that show whether the service has recovered, per second and in all.
const PULSE_PER_SECOND: u64 = 20;
const PULSE: u64 = 10;
/// Share of the requests that may be missing at the end of a step.
const SHORT: f64 = 0.01;
/// A service has recovered if it takes at most this many times its median of before, plus this time.
const SLOWER: u32 = 2;
const SLOWER_BY: Duration = Duration::from_millis(2);

/// A server whose highest load is searched for.
///
/// # Examples
///
/// ```no_run
/// use flowgate_load::find::{Condition, HttpService, Slo, LoadSearch};
/// use flowgate_load::{Stop, Target};
/// use std::time::Duration;
///
/// let target = Target::parse("http://127.0.0.1:8080/")?;
/// let mut service = HttpService::new(target, &Stop::new());
/// assert!(service.is_local()?);
///
/// let slo = Slo::new([Condition::quantile(0.99, Duration::from_millis(50))?])?;
/// let finding = service.find(&LoadSearch::new(slo), |step| println!("{step}"))?;
/// if let Some(rate) = finding.kept {
///     println!("{rate}/s");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HttpService {
    /// URLs of the requests, used in turn.
    pub targets: Vec<Target>,
    /// Method, headers and body of each request.
    pub template: Template,
    /// Options for opening connections.
    pub connect: ConnectOptions,
    /// Number of connections of a search by rate or burst.
    ///
    /// The default depends on the rate and the objective: 10 to 2,000.
    pub connections: Option<NonZeroUsize>,
    /// Number of requests in flight on an HTTP/2 connection (default: 1).
    pub streams: NonZeroUsize,
    /// Maximum time of a request (default: 10 s).
    pub timeout: Duration,
    /// Whether requests are sent at random, independent times (default: at constant intervals).
    pub is_poisson: bool,
    stop: Stop,
}

/// A search that has begun.
struct Searched<'a> {
    service: &'a HttpService,
    wish: &'a LoadSearch,
    began: Instant,
    /// Median response time of the first step.
    usual: Option<Duration>,
    /// Number of steps, which seeds random times.
    steps: u64,
}

impl HttpService {
    /// Creates a service with the defaults. When `stop` is stopped, a search ends.
    pub fn new(target: Target, stop: &Stop) -> HttpService {
        HttpService {
            targets: vec![target],
            template: Template::default(),
            connect: ConnectOptions::default(),
            connections: None,
            streams: NonZeroUsize::MIN,
            timeout: Duration::from_secs(10),
            is_poisson: false,
            stop: stop.clone(),
        }
    }

    /// Returns whether all addresses of the service are on this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has no address.
    pub fn is_local(&self) -> Result<bool, ServiceLost> {
        let Some(target) = self.targets.first() else {
            return Ok(true);
        };
        engine::is_local(target, &self.connect, &self.stop).map_err(lost)
    }

    /// Searches for the highest load that keeps the objective. `tell` gets each step. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the service cannot be reached before the first step is complete. If it is lost later, the
    /// finding has what was found until then.
    pub fn find(
        &mut self,
        wish: &LoadSearch,
        tell: impl FnMut(&SearchStep),
    ) -> Result<LoadFinding, ServiceLost> {
        let mut searched = Searched {
            service: self,
            wish,
            began: Instant::now(),
            usual: None,
            steps: 0,
        };
        let found = conduct(&mut searched, wish, tell)?;
        let target = self.targets.first().map(Target::to_string);
        Ok(LoadFinding {
            target: target.unwrap_or_default(),
            ..found
        })
    }

    /// Returns the plan of a step.
    fn plan(&self, wish: &LoadSearch, pace: Pace, connections: f64) -> Result<Plan, ServiceLost> {
        let Some(first) = self.targets.first() else {
            return Err(ServiceLost("no URL is given".to_owned()));
        };
        let connections = match (wish.mode, self.connections) {
            (Varied::Rate | Varied::Burst, Some(connections)) => connections,
            _ => NonZeroUsize::new(connections as usize).unwrap_or(NonZeroUsize::MIN),
        };
        Ok(Plan {
            targets: self.targets.clone(),
            template: self.template.clone(),
            connect: self.connect.clone(),
            connections,
            streams: self.streams,
            timeout: self.timeout,
            ..Plan::new(first.clone(), pace)
        })
    }
}

impl Searched<'_> {
    fn step(&self, level: f64, span: Duration) -> Result<Plan, ServiceLost> {
        let seed = self.steps;
        let patience = self.wish.slo.longest().unwrap_or(WITHOUT_A_TIME);
        let in_flight = |per_second: f64| (2.0 * per_second * patience.as_secs_f64()).ceil();
        let schedule = |made: Result<Schedule, ScheduleError>| {
            made.map(Pace::Hold)
                .map_err(|error| ServiceLost(error.to_string()))
        };
        let (pace, connections) = match self.wish.mode {
            Varied::Rate => {
                let (rate, extent) = (rate(level), Extent::Lasting(span));
                let made = match self.service.is_poisson {
                    true => Schedule::poisson(rate, seed, extent),
                    false => Schedule::lasting(rate, span),
                };
                let connections = in_flight(level).clamp(10.0, MOST_CONNECTIONS);
                (schedule(made)?, connections)
            }
            Varied::Connections => (Pace::Unpaced(Extent::Lasting(span)), level),
            Varied::Burst => {
                let (size, bursts) = (level as u64, u64::from(BLOCKS + 1));
                let mean = quota(size, span / (BLOCKS + 1));
                let made = Schedule::bursts(mean, size, Extent::Requests(size * bursts));
                (schedule(made)?, level.clamp(10.0, MOST_CONNECTIONS))
            }
        };
        self.service.plan(self.wish, pace, connections)
    }

    /// Returns the number of waiting requests from which a step at `level` is ended early.
    fn too_many(&self, level: f64) -> f64 {
        let patience = self.wish.slo.longest().unwrap_or(WITHOUT_A_TIME);
        match self.wish.mode {
            Varied::Rate => (TOO_MANY * level * patience.as_secs_f64()).max(20.0),
            // Never more than the level are on their way.
            Varied::Connections | Varied::Burst => f64::INFINITY,
        }
    }
}

impl Service for Searched<'_> {
    fn offer(&mut self, level: f64, span: Duration, most: u64) -> Result<Offered, ServiceLost> {
        self.steps += 1;
        let plan = self.step(level, span)?;
        let too_many = self.too_many(level);
        let ending = Stop::new();
        let (mut overrun, mut in_a_row, mut last) = (None, 0, Progress::default());
        let run = engine::run_in_blocks(plan, &ending, Blocks::new(span), |progress| {
            if ending.is_stopped() {
                return;
            }
            last = progress.clone();
            let waiting = progress.in_flight + progress.waiting;
            in_a_row = if waiting as f64 > too_many {
                in_a_row + 1
            } else {
                0
            };
            if in_a_row == PATIENT {
                overrun = Some(waiting);
            }
            if overrun.is_some() || progress.sent >= most || self.service.stop.is_stopped() {
                ending.stop();
            }
        });
        let (report, blocks) = match run {
            Ok(run) => run,
            Err(RunError::Stopped) => return Err(ServiceLost("stopped".to_owned())),
            Err(error) => return Err(lost(error)),
        };
        let answered = last.admitted + last.limited + last.failed;
        let completed_per_second = match overrun {
            Some(_) => answered as f64 / last.elapsed.as_secs_f64().max(1e-3),
            None => blocks.completed_per_second(),
        };
        self.usual.get_or_insert(report.response.p50);
        let behind = behind(&report, self.wish, level);
        Ok(Offered {
            blocks,
            sent: report.counts.sent,
            connections: report.connections.allowed,
            completed_per_second,
            overrun: overrun.filter(|_| behind.is_none()),
            behind,
        })
    }

    fn recover(&mut self, limit: Duration) -> Result<bool, ServiceLost> {
        let began = Instant::now();
        let usual = self.usual.unwrap_or(SLOWER_BY);
        let most = (usual * SLOWER + SLOWER_BY).max(usual);
        while began.elapsed() < limit && !self.service.stop.is_stopped() {
            let rate = Quota::per_second(PULSE_PER_SECOND);
            let schedule =
                Schedule::of(rate, PULSE).map_err(|error| ServiceLost(error.to_string()))?;
            let mut plan = self
                .service
                .plan(self.wish, Pace::Hold(schedule), PULSE as f64)?;
            plan.timeout = plan.timeout.min(limit);
            let report = engine::run(plan, &self.service.stop).map_err(lost)?;
            let is_good = report.counts.statuses.admitted() == PULSE;
            if is_good && report.response.p50 <= most {
                return Ok(true);
            }
        }
        Ok(self.service.stop.is_stopped())
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn is_stopped(&self) -> bool {
        self.service.stop.is_stopped()
    }
}

/// Returns the rate with a thousandth of a request per second.
fn rate(per_second: f64) -> Quota {
    let thousandths = (per_second * 1e3).round().max(1.0) as u64;
    quota(thousandths, Duration::from_secs(1_000))
}

fn quota(count: u64, period: Duration) -> Quota {
    Quota::new(count, period).expect("levels are in the range of quotas")
}

/// Returns why this client could not apply the load, if the service is not the cause.
fn behind(report: &Report, wish: &LoadSearch, level: f64) -> Option<Behind> {
    if wish.mode != Varied::Rate {
        return None;
    }
    let patience = wish.slo.longest().unwrap_or(WITHOUT_A_TIME);
    let limit = report.thresholds().lag_p99.max(patience / 10);
    let connections = &report.connections;
    if connections.longest_wait > limit {
        // All connections were busy. The service is the cause if its responses took longer than the objective allows.
        let bearable = connections.allowed as f64 / level;
        return (bearable < patience.as_secs_f64() && report.service.p50 < patience).then(|| {
            let needed = report.asked.in_flight(report.service.mean).max(1);
            Behind::Late(format!(
                "all of {} connections were busy, and about {needed} are needed",
                connections.allowed
            ))
        });
    }
    let counts = &report.counts;
    let scheduled = counts.scheduled.unwrap_or(counts.sent);
    let sent = counts.sent + counts.unsent;
    if !report.is_interrupted && (sent as f64) < scheduled as f64 * (1.0 - SHORT) {
        return Some(Behind::Short(format!("{sent} of {scheduled} were sent")));
    }
    (report.lag.p99 > limit).then(|| {
        let lag = text::brief(report.lag.p99);
        Behind::Late(format!("requests were sent {lag} late (p99 of lag)"))
    })
}

fn lost(error: RunError) -> ServiceLost {
    ServiceLost(error.to_string())
}
