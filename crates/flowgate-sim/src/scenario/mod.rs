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
mod prepared;
mod reading;
mod waiting;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use arrivals::ArrivalsConfig;
pub use error::ScenarioError;
pub use limit::{LimitConfig, LimiterText};
pub use prepared::PreparedScenario;

use crate::keys::Keys;
use crate::log::{LogFormat, LogProgress};
use crate::outcome::RunOutcome;
use crate::server::{Fault, Server};
use crate::text::as_text;
use crate::traffic::Retries;

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
    /// The file that the scenario was read from, which errors name.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// A source of requests in a [`Scenario`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
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
    /// How long a client waits for the answer to each attempt (default: until the deadline).
    #[serde(
        default,
        with = "as_text::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub attempt_timeout: Option<Duration>,
    /// What a client does after a refusal or a failure (default: nothing).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
    /// How to read the log, if the arrivals are one.
    #[serde(default, skip_serializing_if = "LogOptions::is_default")]
    pub log: LogOptions,
}

/// How to read the log of a [`TrafficConfig`].
///
/// The field of the key is in the limiter: `keyed token 10/s by user`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LogOptions {
    /// The format (default: found out from the first lines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<LogFormat>,
    /// The field with the time (default: by the usual names).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The field with the cost of a request (default: each costs one token).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// Whether a malformed line is an error (default: it is skipped).
    pub strict: bool,
    /// Whether whole seconds stay as they are (default: their requests are spread).
    pub whole_seconds: bool,
}

impl LogOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
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
            attempt_timeout: None,
            retries: None,
            log: LogOptions::default(),
        }
    }

    /// Whether a request may take another number of tokens than one.
    fn has_cost(&self) -> bool {
        self.cost != 1 || self.log.cost.is_some()
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
        scenario.file = Some(path.to_owned());
        Ok(scenario)
    }

    /// Returns the scenario as TOML, which [`from_toml`](Self::from_toml) reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| unreachable!("all of it has a text: {error}"))
    }

    /// Reads the logs that the scenario names, and builds the simulation. It calls `progress` while it reads.
    ///
    /// If `progress` returns [`ControlFlow::Break`], the simulation has the part of the log that was read.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] in these cases:
    ///
    /// - The scenario has no limit or no traffic, or a value is out of range.
    /// - A log cannot be read, or two limits name different fields of it.
    /// - Limits are combined, and requests have a cost.
    /// - Traffic has keys beside a log.
    pub fn prepare(
        &self,
        progress: &mut dyn FnMut(LogProgress) -> ControlFlow<()>,
    ) -> Result<PreparedScenario, ScenarioError> {
        PreparedScenario::new(self, progress).map_err(|error| match &self.file {
            Some(file) => error.of(&file.display().to_string()),
            None => error,
        })
    }

    /// Runs the scenario with each of its limits, in order.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError`] in the cases of [`prepare`](Self::prepare), and if a limit cannot be built.
    pub fn run(&self) -> Result<Vec<RunOutcome>, ScenarioError> {
        let prepared = self.prepare(&mut |_| ControlFlow::Continue(()))?;
        let limits = self.limits.iter();
        limits.map(|limit| prepared.run(limit)).collect()
    }
}
