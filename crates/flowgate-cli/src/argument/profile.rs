//! The arguments that define a schedule: rate, duration and shape.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flowgate::Quota;
use flowgate_load::{Extent, Late, Pace, PacingLimiter, ReplayError, Schedule, ScheduleError};

use super::{duration, input, plan, rate};
use crate::exit::Refusal;

/// Default duration of a run.
const LASTING: Duration = Duration::from_secs(10);
/// Minimum lag at which `--late skip` skips a request.
const PUNCTUAL: Duration = Duration::from_millis(1);

/// Default seed: random times are reproducible.
const SEED: u64 = 1;

/// When requests are scheduled.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rate")]
pub(crate) struct Profile {
    /// Hold this total rate: 1000/s, 2.5k, 90/min; 100:5000 ramps from one to the other
    #[arg(
        short = 'q',
        long,
        value_name = "RATE",
        value_parser = target,
        allow_hyphen_values = true,
    )]
    rate: Option<Target>,

    /// Run for this time: 5s, 250ms, 1m30s [default: 10s, or until -n]
    #[arg(
        short = 'z',
        long,
        value_name = "TIME",
        value_parser = duration::parse,
        allow_hyphen_values = true,
    )]
    duration: Option<Duration>,

    /// Stop after COUNT requests
    #[arg(
        short = 'n',
        long,
        value_name = "COUNT",
        value_parser = count,
        allow_hyphen_values = true,
    )]
    requests: Option<u64>,

    /// Send for TIME before the run, without counting those requests
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration::parse,
        allow_hyphen_values = true,
    )]
    warm_up: Option<Duration>,

    /// Run rates in sequence: '30s@50,1m@200,10s@200:1000'; rate 0 is a pause
    #[arg(
        long,
        value_name = "PLAN",
        value_parser = plan::parse,
        group = "shape",
        conflicts_with_all = ["rate", "duration"],
        allow_hyphen_values = true,
    )]
    plan: Option<Schedule>,

    /// Vary --rate by a sine of period TIME and amplitude RATE: 60s@300
    #[arg(
        long,
        value_name = "TIME@RATE",
        value_parser = swing,
        group = "shape",
        allow_hyphen_values = true,
    )]
    sine: Option<Swing>,

    /// Send bursts of COUNT requests: -q 100 --burst 20 sends 20 every 200 ms
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = count,
        group = "shape",
        allow_hyphen_values = true,
    )]
    burst: Option<u64>,

    /// Send at random, independent times, with --rate as the mean
    #[arg(long, group = "shape")]
    poisson: bool,

    /// Seed the random times: equal seeds give equal times [default: 1]
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = seed,
        requires = "poisson",
        allow_hyphen_values = true,
    )]
    seed: Option<u64>,

    /// Send at the times in FILE: one per line, in seconds since the start; - is stdin
    #[arg(
        long,
        value_name = "FILE",
        group = "shape",
        conflicts_with_all = ["rate", "duration"],
    )]
    replay: Option<PathBuf>,

    /// Send late requests (queue), skip them, or skip those more than TIME late
    #[arg(
        long,
        value_name = "queue|skip|TIME",
        value_parser = lateness,
        default_value = "queue",
        allow_hyphen_values = true,
    )]
    late: Lateness,
}

/// Value of `--late`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lateness {
    Queue,
    Skip,
    Within(Duration),
}

/// Value of `--rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Constant(Quota),
    Ramp(Option<Quota>, Option<Quota>),
}

/// Value of `--sine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Swing {
    period: Duration,
    amplitude: Quota,
}

impl Profile {
    /// Returns the input file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.replay.as_deref()
    }

    /// Returns the time before the run.
    pub(crate) fn warm_up(&self) -> Duration {
        self.warm_up.unwrap_or_default()
    }

    /// Returns when to send: by the schedule or the limiter, else as fast as possible.
    ///
    /// An unpaced run requires a URL (`is_aimed`).
    pub(crate) fn pace(
        &self,
        limiter: Option<PacingLimiter>,
        is_aimed: bool,
    ) -> Result<Pace, Refusal> {
        if let Some(limiter) = limiter {
            return Ok(Pace::Under(limiter, self.one_extent()?));
        }
        let has_rate = self.rate.is_some() || self.plan.is_some() || self.replay.is_some();
        if has_rate {
            return self.schedule().map(Pace::Hold);
        }
        let shape = [
            (self.sine.is_some(), "--sine needs"),
            (self.burst.is_some(), "--burst needs"),
            (self.poisson, "--poisson needs"),
            (self.late != Lateness::Queue, "--late needs"),
        ];
        if let Some((_, what)) = shape.iter().find(|(is_given, _)| *is_given) {
            return Err(Refusal::usage(format!(
                "{what} a rate: write --rate 1000/s"
            )));
        }
        match is_aimed {
            true => Ok(Pace::Unpaced(self.one_extent()?)),
            false => Err(Refusal::usage("no rate: write --rate 1000/s")),
        }
    }

    /// Returns what to do with late requests.
    pub(crate) fn late(&self, pace: &Pace) -> Late {
        match (self.late, pace) {
            (Lateness::Queue, _) => Late::Queue,
            (Lateness::Within(time), _) => Late::Within(time),
            // The largest lag that the report accepts.
            (Lateness::Skip, Pace::Hold(schedule)) => {
                Late::Within(schedule.interval().max(PUNCTUAL))
            }
            (Lateness::Skip, _) => Late::Within(PUNCTUAL),
        }
    }

    /// Returns the schedule.
    fn schedule(&self) -> Result<Schedule, Refusal> {
        if let Some(path) = &self.replay {
            return Ok(self.cut(replay(path)?));
        }
        if let Some(plan) = &self.plan {
            return Ok(self.cut(plan.clone()));
        }
        let schedule = match self.rate {
            None => return Err(Refusal::usage("no rate: write --rate 1000/s")),
            Some(Target::Constant(rate)) => {
                self.holds_a_burst(rate)?;
                self.around(rate)
            }
            Some(Target::Ramp(from, to)) => {
                let duration = self.ramp_duration()?;
                Schedule::ramp(from, to, duration)
            }
        };
        schedule
            .map(|schedule| self.cut(schedule))
            .map_err(|error| Refusal::usage(self.explain(error)))
    }

    /// Returns the end of the run. A duration takes precedence over a count.
    fn extent(&self) -> Extent {
        match (self.duration, self.requests) {
            (None, Some(requests)) => Extent::Requests(requests),
            (duration, _) => Extent::Lasting(duration.unwrap_or(LASTING)),
        }
    }

    /// Returns the end of the run, if the number of requests per time is unknown.
    fn one_extent(&self) -> Result<Extent, Refusal> {
        match (self.duration, self.requests) {
            (Some(_), Some(_)) => Err(Refusal::usage(
                "--duration and --requests exclude each other without --rate: remove one",
            )),
            _ => Ok(self.extent()),
        }
    }

    /// Returns a schedule with this rate, or with this mean rate.
    fn around(&self, rate: Quota) -> Result<Schedule, ScheduleError> {
        let extent = self.extent();
        if let Some(Swing { period, amplitude }) = self.sine {
            return Schedule::sine(rate, amplitude, period, extent);
        }
        if let Some(size) = self.burst {
            return Schedule::bursts(rate, size, extent);
        }
        if self.poisson {
            return Schedule::poisson(rate, self.seed.unwrap_or(SEED), extent);
        }
        match extent {
            Extent::Lasting(duration) => Schedule::lasting(rate, duration),
            Extent::Requests(requests) => Schedule::of(rate, requests),
        }
    }

    /// Refuses a burst that is larger than the total number of requests.
    fn holds_a_burst(&self, rate: Quota) -> Result<(), Refusal> {
        let Some(size) = self.burst else {
            return Ok(());
        };
        let in_time = match self.extent() {
            // An overflow is reported elsewhere.
            Extent::Lasting(time) => {
                Schedule::lasting(rate, time).map_or(u64::MAX, |all| all.len())
            }
            Extent::Requests(_) => u64::MAX,
        };
        let all = in_time.min(self.requests.unwrap_or(u64::MAX));
        match size > all {
            true => Err(Refusal::usage(format!(
                "--burst: {size} is more than the {all} requests of the run: write a smaller --burst, or a larger -q, -z or -n"
            ))),
            false => Ok(()),
        }
    }

    fn ramp_duration(&self) -> Result<Duration, Refusal> {
        let shape = [
            (self.sine.is_some(), "--sine"),
            (self.burst.is_some(), "--burst"),
            (self.poisson, "--poisson"),
        ];
        if let Some((_, name)) = shape.iter().find(|(is_given, _)| *is_given) {
            return Err(Refusal::usage(format!(
                "{name} needs a constant rate: write --rate 1000/s"
            )));
        }
        match (self.duration, self.requests) {
            (None, Some(_)) => Err(Refusal::usage(
                "a ramp needs a duration: write --duration 60s",
            )),
            (duration, _) => Ok(duration.unwrap_or(LASTING)),
        }
    }

    fn cut(&self, schedule: Schedule) -> Schedule {
        schedule.at_most(self.requests.unwrap_or(u64::MAX))
    }

    fn explain(&self, error: ScheduleError) -> String {
        match error {
            ScheduleError::TooLong | ScheduleError::TooManyPoisson(_) => {
                format!("{error}: write a shorter --duration or fewer --requests")
            }
            _ if self.sine.is_some() => format!("--sine: {error}"),
            _ => format!("--rate: {error}"),
        }
    }
}

/// Reads the file. Its contents count as an argument.
fn replay(path: &Path) -> Result<Schedule, Refusal> {
    let times = input::read("--replay", path, input::REQUESTS_MIB)?;
    Schedule::replay(&times[..]).map_err(|error| {
        let message = format!("--replay: {}: {error}", path.display());
        match error {
            ReplayError::Read(_) => Refusal::could_not_run(message),
            _ => Refusal::usage(message),
        }
    })
}

fn lateness(text: &str) -> Result<Lateness, String> {
    match text.trim() {
        "queue" => Ok(Lateness::Queue),
        "skip" => Ok(Lateness::Skip),
        time => duration::parse(time)
            .map(Lateness::Within)
            .map_err(|error| format!("not queue, skip or a time: {error}")),
    }
}

fn target(text: &str) -> Result<Target, String> {
    match text.split_once(':') {
        Some((from, to)) => plan::ramp(from, to).map(|(from, to)| Target::Ramp(from, to)),
        None => rate::parse(text).map(Target::Constant),
    }
}

fn swing(text: &str) -> Result<Swing, String> {
    let (period, amplitude) = text
        .split_once('@')
        .ok_or("write TIME@RATE, such as 60s@300: period 60 s, amplitude 300/s")?;
    Ok(Swing {
        period: duration::parse(period)?,
        amplitude: rate::parse(amplitude)?,
    })
}

fn count(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!(
            "not a whole number from 1 to {}: write 1000",
            u64::MAX
        )),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    let read = text.trim().parse();
    read.map_err(|_| format!("not a whole number from 0 to {}: write 7", u64::MAX))
}
