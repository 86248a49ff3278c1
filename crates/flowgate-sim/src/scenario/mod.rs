//! Scenarios: limits, traffic, a server and its faults, as a file.
//!
//! ```text
//!  TOML ──▶ Scenario ──▶ Simulation ──▶ a RunOutcome for each limit
//!               ▲
//!  flags ───────┘
//! ```

mod arrivals;
mod error;
mod limit;
mod reading;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use arrivals::ArrivalsConfig;
pub use error::ScenarioError;
pub use limit::{LimitConfig, LimiterText};

use crate::keys::Keys;
use crate::outcome::RunOutcome;
use crate::server::{Fault, Server};
use crate::simulation::Simulation;
use crate::text::as_text;
use crate::traffic::{Retries, Traffic};

/// How long requests arrive if a scenario does not say so.
const DURATION: Duration = Duration::from_secs(30);

/// A scenario: limits to compare, on the same traffic and server.
///
/// ```
/// use flowgate_sim::Scenario;
///
/// let scenario = Scenario::from_toml(
///     r#"
///     duration = "30s"
///
///     [[limit]]
///     limiter = "token 100/s burst 20"
///
///     [[limit]]
///     limiter = "fixed 100/s"
///
///     [[traffic]]
///     arrivals = "poisson 150/s"
///     "#,
/// )?;
/// let outcomes = scenario.run()?;
/// assert_eq!(outcomes[0].policy, "token 100/s burst 20");
/// assert!(outcomes[0].counts.admitted > outcomes[1].counts.admitted);
/// # Ok::<(), flowgate_sim::ScenarioError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// A title for reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the scenario shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The seed of all random numbers (default: 0).
    pub seed: u64,
    /// How long requests arrive (default: 30 s, or as long as the log).
    #[serde(with = "as_text::option", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// How long the run goes on after the last arrival (default: the duration).
    #[serde(with = "as_text::option", skip_serializing_if = "Option::is_none")]
    pub drain: Option<Duration>,
    /// The limits to compare.
    #[serde(rename = "limit")]
    pub limits: Vec<LimitConfig>,
    /// The sources of requests.
    pub traffic: Vec<TrafficConfig>,
    /// The server behind the limit (default: none, and requests are served immediately).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// The faults of the server.
    #[serde(rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The folder of the files that the scenario names.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A source of requests in a [`Scenario`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// The name in reports.
    #[serde(default = "unnamed")]
    pub name: String,
    /// When requests begin.
    pub arrivals: ArrivalsConfig,
    /// Whose the requests are (default: all of one key). Logs have their own keys.
    #[serde(default, skip_serializing_if = "Keys::is_one")]
    pub keys: Keys,
    /// How many tokens each request takes (default: 1).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u64,
    /// How long a client waits for an answer, with all retries (default: no deadline).
    #[serde(
        default,
        with = "as_text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline: Option<Duration>,
    /// What a client does after a refusal or a failure (default: nothing).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
}

fn unnamed() -> String {
    "traffic".to_owned()
}

fn one() -> u64 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(cost: &u64) -> bool {
    *cost == 1
}

impl TrafficConfig {
    /// Creates traffic of one key, a cost of one token, no deadline and no retries.
    pub fn new(arrivals: ArrivalsConfig) -> Self {
        Self {
            name: unnamed(),
            arrivals,
            keys: Keys::one(),
            cost: 1,
            deadline: None,
            retries: None,
        }
    }
}

impl Scenario {
    /// Reads a scenario from TOML.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] with the line, and what to write instead.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        reading::scenario(text)
    }

    /// Reads a scenario from a TOML file. The files that it names are in the same folder.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] if the file cannot be read, or contains no scenario.
    pub fn from_file(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ScenarioError::new(format!("cannot read {}: {error}", path.display()))
        })?;
        let mut scenario =
            Self::from_toml(&text).map_err(|error| error.of(&path.display().to_string()))?;
        scenario.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(scenario)
    }

    /// Returns the scenario as TOML, which [`from_toml`](Self::from_toml) reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| unreachable!("all of it has a text: {error}"))
    }

    /// Builds the simulation, without its limits. It reads the files that the scenario names.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] if the scenario has no traffic, or a value is out of range.
    pub fn simulation(&self) -> Result<Simulation, ScenarioError> {
        if self.traffic.is_empty() {
            return Err(ScenarioError::new(
                "no traffic; add [[traffic]] with arrivals",
            ));
        }
        let duration = self.duration.unwrap_or(DURATION);
        if duration.is_zero() {
            return Err(ScenarioError::new(
                "the duration is 0; write a time such as '30s'",
            ));
        }
        let mut simulation = Simulation::new(self.seed, duration);
        if let Some(drain) = self.drain {
            simulation = simulation.drain(drain);
        }
        for (index, config) in self.traffic.iter().enumerate() {
            let arrivals = config.arrivals.build(duration, self.seed, index as u64)?;
            let mut traffic = Traffic::new(config.name.clone(), arrivals)
                .keys(config.keys)
                .cost(config.cost);
            if let Some(deadline) = config.deadline {
                traffic = traffic.deadline(deadline);
            }
            if let Some(retries) = config.retries {
                traffic = traffic.retries(retries);
            }
            simulation = simulation.traffic(traffic);
        }
        if let Some(server) = &self.server {
            simulation = simulation.server(server.clone());
        }
        for fault in &self.faults {
            simulation = simulation.fault(*fault);
        }
        Ok(simulation)
    }

    /// Runs the scenario with each of its limits, in order.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] in the cases of [`simulation`](Self::simulation), and if a limit cannot be built.
    pub fn run(&self) -> Result<Vec<RunOutcome>, ScenarioError> {
        if self.limits.is_empty() {
            return Err(ScenarioError::new(
                "no limit; add [[limit]] with a limiter, or limiter = \"none\"",
            ));
        }
        let simulation = self.simulation()?;
        let keys = self.traffic.iter().map(|traffic| traffic.keys.count());
        let keys = keys.fold(1, u64::max);
        let run =
            |limit: &LimitConfig| simulation.run(&limit.title(), |time| limit.policy(time, keys));
        self.limits.iter().map(run).collect()
    }
}
