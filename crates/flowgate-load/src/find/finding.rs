//! What a search found, as data and as text.

use std::fmt;
use std::time::Duration;

use flowgate_chart::{grouped, significant};
use serde::Serialize;

use super::judgment::{BrokenObjective, Measured, time};
use super::load_search::Varied;
use super::slo::Slo;
use crate::report::{nanos, text};

/// Version of the layout that [`LoadFinding::to_json`] writes.
const SCHEMA: u64 = 1;
/// p99 at the knee, as a multiple of that at the lowest level.
const KNEE: f64 = 2.0;
/// Share of requests that a concurrency limit of the suggested size refuses.
const REFUSED: f64 = 0.001;

/// What a search found. `Display` writes the steps and the result as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadFinding {
    /// The service.
    pub target: String,
    /// The objective.
    pub slo: Slo,
    /// What was varied.
    pub mode: Varied,
    /// The steps, in the order in which they were tried.
    pub steps: Vec<SearchStep>,
    /// The highest level that kept the objective.
    pub kept: Option<f64>,
    /// The lowest level that broke it.
    pub broken: Option<f64>,
    /// How the search ended.
    pub end: End,
    /// Time of the search.
    #[serde(rename = "elapsed_ns", with = "nanos")]
    pub elapsed: Duration,
    /// Number of requests sent.
    pub requests: u64,
}

/// One step of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchStep {
    /// What was varied.
    pub mode: Varied,
    /// The level: requests per second, connections, or requests in a burst.
    pub level: f64,
    /// Seconds that were judged.
    pub seconds: f64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of connections.
    pub connections: u64,
    /// Completed requests per second.
    pub completed_per_second: f64,
    /// Median response time, in nanoseconds.
    pub p50: Measured,
    /// 99th percentile of the response time, in nanoseconds.
    pub p99: Measured,
    /// Share of requests without a good response.
    pub errors: Measured,
    /// Share of responses with 429 or 503.
    pub limited: f64,
    /// Mean number of requests in flight (Little's law: rate × mean response time).
    pub in_flight: f64,
    /// Whether the objective was kept.
    pub verdict: StepVerdict,
    /// Whether the intervals exclude the opposite verdict.
    pub is_clear: bool,
}

/// Verdict about one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepVerdict {
    /// The service kept the objective.
    Kept,
    /// The service broke it.
    Broken(BrokenObjective),
    /// This client could not apply the load, for this reason. The step says nothing about the service.
    Behind(String),
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// No further step was needed.
    Found,
    /// This client cannot send more, for this reason.
    Client(String),
    /// The time did not suffice for the next step.
    OutOfTime {
        /// Time that the next step needs.
        #[serde(rename = "needs_ns", with = "nanos")]
        needs: Duration,
    },
    /// The number of requests did not suffice for the next step.
    OutOfRequests,
    /// The server limits the load: it answered with 429 or 503, and the wish does not count these as errors.
    Limited,
    /// After a step that broke the objective, the service did not respond as before.
    NotRecovered,
    /// The service could not be reached any more, for this reason.
    ServiceLost(String),
    /// The search was stopped.
    Interrupted,
}

impl LoadFinding {
    /// Returns the last step at the highest level that kept the objective.
    pub fn best(&self) -> Option<&SearchStep> {
        self.step_at(self.kept?)
    }

    /// Returns the levels between which the result certainly is.
    ///
    /// They are the highest that clearly kept the objective, and the lowest that clearly broke it; `None` if no step was clear.
    pub fn certain(&self) -> (Option<f64>, Option<f64>) {
        let clear = |step: &&SearchStep| step.is_clear && step.is_about_service();
        let broken = self
            .steps
            .iter()
            .filter(clear)
            .filter(|step| !step.is_kept());
        let broken = broken.map(|step| step.level).min_by(f64::total_cmp);
        let kept = self
            .steps
            .iter()
            .filter(clear)
            .filter(|step| step.is_kept());
        let kept = kept
            .map(|step| step.level)
            .filter(|&level| level < broken.unwrap_or(f64::INFINITY));
        (kept.max_by(f64::total_cmp), broken)
    }

    fn step_at(&self, level: f64) -> Option<&SearchStep> {
        self.steps.iter().rev().find(|step| step.level == level)
    }

    /// Returns the highest level whose p99 is at most twice that of the lowest level.
    ///
    /// This is called the knee of the curve. It is `None` if no tried level is above it.
    pub fn knee(&self) -> Option<f64> {
        let mut steps: Vec<&SearchStep> = self
            .steps
            .iter()
            .filter(|step| step.is_about_service())
            .collect();
        steps.sort_by(|one, other| one.level.total_cmp(&other.level));
        let most = steps.first()?.p99.value * KNEE;
        let beyond = steps.iter().position(|step| step.p99.value > most)?;
        steps.get(beyond.checked_sub(1)?).map(|step| step.level)
    }

    /// Returns the concurrency limit that refuses fewer than 0.1 % of the requests.
    ///
    /// It is for independent arrivals at the highest rate that kept the objective.
    /// It counts the mean response time of the lowest rate, at which requests do not wait for each other.
    pub fn concurrency_limit(&self) -> Option<u32> {
        let kept = self.kept.filter(|_| self.mode == Varied::Rate)?;
        let steps = self.steps.iter().filter(|step| step.is_kept());
        let lowest = steps.min_by(|one, other| one.level.total_cmp(&other.level))?;
        let mean = Duration::try_from_secs_f64(lowest.in_flight / lowest.level).ok()?;
        flowgate::sizing::limit_for(kept, mean, REFUSED).ok()
    }

    /// Returns the finding as indented JSON with a final line end.
    ///
    /// - `level`, `kept` and `broken` are requests per second, connections, or requests in a burst, depending on `mode`.
    /// - `p50`, `p99` and fields that end with `_ns` are nanoseconds.
    /// - Shares are fractions of 1. `low` and `high` are the ends of an interval at 95 %; `null` is no end.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Written<'a> {
            schema: u64,
            flowgate: &'static str,
            certain: (Option<f64>, Option<f64>),
            knee: Option<f64>,
            concurrency_limit: Option<u32>,
            #[serde(flatten)]
            finding: &'a LoadFinding,
        }
        let written = Written {
            schema: SCHEMA,
            flowgate: env!("CARGO_PKG_VERSION"),
            certain: self.certain(),
            knee: self.knee(),
            concurrency_limit: self.concurrency_limit(),
            finding: self,
        };
        let json = serde_json::to_string_pretty(&written);
        json.expect("all keys are texts") + "\n"
    }

    /// Returns the result in one line.
    pub fn conclusion(&self) -> String {
        let name = |level: f64| self.mode.in_words(level);
        let why = |level: f64| match self.step_at(level).map(|step| &step.verdict) {
            Some(StepVerdict::Broken(broken)) => format!(": {broken}"),
            _ => String::new(),
        };
        let certain = match self.certain() {
            (Some(kept), Some(broken)) => format!("; certain: {} and {}", name(kept), name(broken)),
            _ => String::new(),
        };
        match (self.kept, self.broken) {
            (Some(kept), Some(broken)) => format!(
                "{} kept the objective, {} did not{}{certain}",
                name(kept),
                name(broken),
                why(broken)
            ),
            (Some(kept), None) => {
                format!("{} kept the objective, and no step broke it", name(kept))
            }
            (None, Some(broken)) => format!(
                "no level kept the objective, down to {}{}",
                name(broken),
                why(broken)
            ),
            (None, None) => "no step could be judged".to_owned(),
        }
    }
}

impl SearchStep {
    /// Returns whether the service kept the objective.
    pub fn is_kept(&self) -> bool {
        self.verdict == StepVerdict::Kept
    }

    /// Returns whether the step says something about the service.
    pub fn is_about_service(&self) -> bool {
        !matches!(self.verdict, StepVerdict::Behind(_))
    }
}

/// Widths of the columns of the table.
const WIDTHS: [usize; 6] = [15, 9, 8, 30, 7, 9];

/// One row of the table.
impl fmt::Display for SearchStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = [
            self.mode.in_words(self.level),
            grouped(self.sent),
            text::brief(Duration::from_nanos(self.p50.value as u64)),
            time(self.p99),
            format!("{} %", significant(self.errors.value * 100.0, 2)),
            significant(self.in_flight, 3),
        ];
        row(f, cells)?;
        let unclear = if self.is_clear { "" } else { ", uncertain" };
        match &self.verdict {
            StepVerdict::Kept => write!(f, "kept{unclear}"),
            StepVerdict::Broken(broken) => write!(f, "broken{unclear}: {broken}"),
            StepVerdict::Behind(why) => write!(f, "not judged: {why}"),
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, cells: [String; 6]) -> fmt::Result {
    for (cell, width) in cells.iter().zip(WIDTHS) {
        write!(f, "{cell:<width$}  ")?;
    }
    Ok(())
}

impl fmt::Display for LoadFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target       {}", self.target)?;
        writeln!(f, "objective    {}", self.slo)?;
        writeln!(
            f,
            "sent         {} requests in {}\n",
            grouped(self.requests),
            text::brief(self.elapsed)
        )?;
        let heads = [
            self.mode.to_string(),
            "sent".into(),
            "p50".into(),
            "p99".into(),
            "errors".into(),
            "in flight".into(),
        ];
        row(f, heads)?;
        writeln!(f, "objective")?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        writeln!(f, "\nresult       {}", self.conclusion())?;
        if let Some(knee) = self.knee() {
            writeln!(
                f,
                "knee         {}: above it, p99 is over twice that of the lowest level",
                self.mode.in_words(knee)
            )?;
        }
        if let (Some(best), Some(limit)) = (self.best(), self.concurrency_limit()) {
            writeln!(
                f,
                "concurrency  {} in flight on average; a limit of {limit} refuses fewer than 0.1 %",
                significant(best.in_flight, 3)
            )?;
        }
        match &self.end {
            End::Found => Ok(()),
            end => writeln!(f, "ended        {end}"),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Found => f.write_str("no further step was needed"),
            End::Client(why) => write!(f, "this machine cannot send more: {why}"),
            End::OutOfTime { needs } => write!(
                f,
                "the time is up; the next step needs {}",
                text::brief(*needs)
            ),
            End::OutOfRequests => f.write_str("the next step needs more requests than allowed"),
            End::Limited => f.write_str("the server limits the load: 429 or 503"),
            End::NotRecovered => {
                f.write_str("the service did not respond as before after the last step")
            }
            End::ServiceLost(why) => write!(f, "the service was lost: {why}"),
            End::Interrupted => f.write_str("stopped"),
        }
    }
}
