use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{ArrivalsConfig, LimitConfig, Scenario, ScenarioError, TrafficConfig};
use crate::keys::Keys;
use crate::log::{LogKeys, LogProgress, LogReader, RecordedLog};
use crate::outcome::RunOutcome;
use crate::simulation::{RunProgress, Simulation};
use crate::traffic::{Arrivals, Recorded, Traffic};

/// How long requests arrive if a scenario does not say so, and has no log.
const DURATION: Duration = Duration::from_secs(30);

/// A [`Scenario`] whose logs have been read, ready to run.
#[derive(Debug)]
pub struct PreparedScenario {
    simulation: Simulation,
    sources: Vec<Source>,
    logs: Vec<RecordedLog>,
    keys: u64,
}

/// The keys of a source of requests: from `first` on.
#[derive(Debug)]
struct Source {
    name: String,
    first: u64,
    count: u64,
    names: Option<LogKeys>,
}

impl PreparedScenario {
    pub(super) fn new(
        scenario: &Scenario,
        progress: &mut dyn FnMut(LogProgress) -> ControlFlow<()>,
    ) -> Result<Self, ScenarioError> {
        if scenario.limits.is_empty() {
            let why = "no limit; add [[limit]] with a limiter, or limiter = 'none'";
            return Err(ScenarioError::new(why));
        }
        if scenario.traffic.is_empty() {
            let why = "no traffic; add [[traffic]] with arrivals";
            return Err(ScenarioError::new(why));
        }
        if let Some(limit) = scenario.limits.iter().find(|limit| limit.is_combined())
            && scenario.traffic.iter().any(TrafficConfig::has_cost)
        {
            let limit = &limit.limiter;
            let why = format!(
                "limit '{limit}': combined limits count requests, not tokens; remove the cost"
            );
            return Err(ScenarioError::new(why));
        }
        let field = key_field(&scenario.limits)?;
        let logs = scenario
            .traffic
            .iter()
            .map(|traffic| match &traffic.arrivals {
                ArrivalsConfig::Log(_) if !traffic.keys.is_one() => {
                    let name = &traffic.name;
                    Err(ScenarioError::new(format!(
                        "traffic '{name}': a log has its own keys; remove the keys, and name their field as in 'keyed token 10/s by ip'"
                    )))
                }
                ArrivalsConfig::Log(path) => {
                    read(traffic, path, &scenario.folder, field, progress).map(Some)
                }
                _ => Ok(None),
            });
        let logs: Vec<Option<RecordedLog>> = logs.collect::<Result<_, _>>()?;
        if let (Some(field), true) = (field, logs.iter().all(Option::is_none)) {
            let why = format!("there is no log with a field '{field}'; remove 'by {field}'");
            return Err(ScenarioError::new(why));
        }
        let span = logs.iter().flatten().map(RecordedLog::span).max();
        // The last request of a log is in the run.
        let span = span.map(|span| span + Duration::from_nanos(1));
        let duration = scenario.duration.or(span).unwrap_or(DURATION);
        if duration.is_zero() {
            let why = "the duration is 0; write a time such as '30s'";
            return Err(ScenarioError::new(why));
        }
        let mut simulation = Simulation::new(scenario.seed, duration);
        if let Some(drain) = scenario.drain {
            simulation = simulation.drain(drain);
        }
        let mut sources = Vec::new();
        let mut keys = 0;
        for window in windows(&scenario.limits, duration) {
            simulation = simulation.watch_window(window);
        }
        for (index, (config, log)) in scenario.traffic.iter().zip(&logs).enumerate() {
            let arrivals = match log {
                Some(log) => Arrivals::Recorded(with_keys_from(keys, &log.requests)),
                None => config
                    .arrivals
                    .build(duration, scenario.seed, index as u64)?,
            };
            let count = log
                .as_ref()
                .map_or(config.keys.count(), |log| log.keys.len().max(1) as u64);
            sources.push(Source {
                name: config.name.clone(),
                first: keys,
                count,
                names: log.as_ref().map(|log| log.keys.clone()),
            });
            simulation =
                simulation.traffic(traffic(config, arrivals, config.keys.starting_at(keys)));
            keys += count;
        }
        if let Some(server) = &scenario.server {
            simulation = simulation.server(server.clone());
        }
        for fault in &scenario.faults {
            simulation = simulation.fault(*fault);
        }
        Ok(Self {
            simulation,
            sources,
            logs: logs.into_iter().flatten().collect(),
            keys,
        })
    }

    /// Ends each run soon after `is_interrupted` is set, with the outcome so far.
    pub fn interrupt(mut self, is_interrupted: Arc<AtomicBool>) -> Self {
        self.simulation = self.simulation.interrupt(is_interrupted);
        self
    }

    /// Sets a function that each run calls every few thousand events.
    pub fn on_progress(mut self, call: impl Fn(RunProgress) + Send + Sync + 'static) -> Self {
        self.simulation = self.simulation.on_progress(call);
        self
    }

    /// Runs the simulation with a limit.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] if the limit cannot be built.
    pub fn run(&self, limit: &LimitConfig) -> Result<RunOutcome, ScenarioError> {
        self.simulation
            .run(&limit.title(), |time| limit.policy(time, self.keys))
    }

    /// Returns the simulation, to run it with a policy of your own.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Returns the logs that were read.
    pub fn logs(&self) -> &[RecordedLog] {
        &self.logs
    }

    /// Returns the name of a key.
    ///
    /// It is the name in the log, or the name of the traffic with the number of the key.
    pub fn key_name(&self, key: u64) -> Cow<'_, str> {
        let source = self.sources.iter().rev().find(|source| source.first <= key);
        let Some(source) = source else {
            return Cow::Owned(key.to_string());
        };
        let number = key - source.first;
        let name = source.names.as_ref().and_then(|names| names.name(number));
        name.unwrap_or_else(|| match source.count {
            1 => Cow::Borrowed(&source.name),
            _ => Cow::Owned(format!("{} {}", source.name, number + 1)),
        })
    }
}

/// The periods of all quotas, of which a run reports the worst window.
fn windows(limits: &[LimitConfig], duration: Duration) -> BTreeSet<Duration> {
    let periods = limits.iter().flat_map(LimitConfig::periods);
    periods.filter(|period| *period <= duration).collect()
}

/// The field of the logs that is the key, which all limits have in common.
fn key_field(limits: &[LimitConfig]) -> Result<Option<&str>, ScenarioError> {
    let mut fields = limits.iter().filter_map(LimitConfig::key_field);
    let first = fields.next();
    match fields.find(|field| Some(*field) != first) {
        Some(other) => Err(ScenarioError::new(format!(
            "limits by different fields, '{}' and '{other}'; run them one after the other",
            first.unwrap_or_default()
        ))),
        None => Ok(first),
    }
}

fn read(
    config: &TrafficConfig,
    path: &Path,
    folder: &Path,
    field: Option<&str>,
    progress: &mut dyn FnMut(LogProgress) -> ControlFlow<()>,
) -> Result<RecordedLog, ScenarioError> {
    let options = &config.log;
    let mut reader = LogReader::new()
        .strict(options.strict)
        .spread_seconds(!options.whole_seconds);
    if let Some(format) = options.format {
        reader = reader.format(format);
    }
    if let Some(time) = &options.time {
        reader = reader.time(time);
    }
    if let Some(cost) = &options.cost {
        reader = reader.cost(cost);
    }
    if let Some(field) = field {
        reader = reader.key(field);
    }
    let error = |error: &dyn std::fmt::Display| {
        ScenarioError::new(format!("log {}: {error}", path.display()))
    };
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(folder.join(path)).map_err(|why| error(&why))?)
    };
    reader.read(input, progress).map_err(|why| error(&why))
}

/// The requests, with the numbers of their keys from `first` on.
fn with_keys_from(first: u64, requests: &Arc<[Recorded]>) -> Arc<[Recorded]> {
    if first == 0 {
        return Arc::clone(requests);
    }
    let requests = requests.iter().map(|request| Recorded {
        key: first + request.key,
        ..*request
    });
    requests.collect()
}

fn traffic(config: &TrafficConfig, arrivals: Arrivals, keys: Keys) -> Traffic {
    let mut traffic = Traffic::new(config.name.clone(), arrivals)
        .keys(keys)
        .cost(config.cost);
    if let Some(deadline) = config.deadline {
        traffic = traffic.deadline(deadline);
    }
    if let Some(timeout) = config.attempt_timeout {
        traffic = traffic.attempt_timeout(timeout);
    }
    match config.retries {
        Some(retries) => traffic.retries(retries),
        None => traffic,
    }
}
