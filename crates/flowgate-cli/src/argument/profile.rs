//! How often, for how long, and in what shape: the arguments that make a schedule.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flowgate::Quota;
use flowgate_load::{Extent, Schedule, ScheduleError};

use super::{duration, plan, rate};
use crate::exit::Exit;

/// Random times are the same each time, unless someone asks for others.
const SEED: u64 = 1;

/// When requests are due.
#[derive(Args, Debug)]
pub(crate) struct Profile {
    /// How often, in all: 1000/s, 2.5k/s, 90/min, 1/10s; a bare number is per second. 100:5000 goes
    /// evenly from one rate to the other
    #[arg(
        short = 'q',
        long,
        value_name = "RATE",
        value_parser = target,
        allow_hyphen_values = true,
    )]
    rate: Option<Target>,

    /// For how long: 5s, 250ms, 1m30s [default: 10s, or as long as -n takes]
    #[arg(
        short = 'z',
        long,
        value_name = "TIME",
        value_parser = duration::parse,
        allow_hyphen_values = true,
    )]
    duration: Option<Duration>,

    /// Stop after this many requests
    #[arg(
        short = 'n',
        long,
        value_name = "COUNT",
        value_parser = count,
        allow_hyphen_values = true,
    )]
    requests: Option<u64>,

    /// Instead of --rate, several one after the other, each for a time: '30s@50,1m@200,10s@200:1000';
    /// a rate of 0 is a pause
    #[arg(
        long,
        value_name = "PLAN",
        value_parser = plan::parse,
        group = "shape",
        conflicts_with_all = ["rate", "duration"],
        allow_hyphen_values = true,
    )]
    plan: Option<Schedule>,

    /// Swing evenly around --rate, in each TIME once up and down by RATE: -q 500 --sine 60s@300
    #[arg(
        long,
        value_name = "TIME@RATE",
        value_parser = swing,
        group = "shape",
        allow_hyphen_values = true,
    )]
    sine: Option<Swing>,

    /// Send this many at once, over and over, at --rate in all: -q 100 --burst 20 sends 20 every 200 ms
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = count,
        group = "shape",
        allow_hyphen_values = true,
    )]
    burst: Option<u64>,

    /// Send at random times that know nothing of each other, --rate on average
    #[arg(long, group = "shape")]
    poisson: bool,

    /// Which random times: the same number gives the same [default: 1]
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = seed,
        requires = "poisson",
        allow_hyphen_values = true,
    )]
    seed: Option<u64>,

    /// Instead of --rate, send at the times in a file: on each line one, in seconds since the start
    #[arg(
        long,
        value_name = "FILE",
        group = "shape",
        conflicts_with_all = ["rate", "duration"],
    )]
    replay: Option<PathBuf>,
}

/// What `--rate` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Constant(Quota),
    Ramp(Option<Quota>, Option<Quota>),
}

/// What `--sine` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Swing {
    period: Duration,
    amplitude: Quota,
}

impl Profile {
    /// The schedule that was asked for, or what to say and how to exit.
    pub(crate) fn schedule(&self) -> Result<Schedule, (String, Exit)> {
        if let Some(path) = &self.replay {
            return Ok(self.cut(replay(path)?));
        }
        let usage = |message| (message, Exit::Usage);
        if let Some(plan) = &self.plan {
            return Ok(self.cut(plan.clone()));
        }
        let schedule = match self.rate {
            None => return Err(usage("how often? type --rate 1000/s".to_owned())),
            Some(Target::Constant(rate)) => self.around(rate),
            Some(Target::Ramp(from, to)) => {
                let duration = self.ramp_duration().map_err(usage)?;
                Schedule::ramp(from, to, duration)
            }
        };
        schedule
            .map(|schedule| self.cut(schedule))
            .map_err(|error| usage(self.explain(error)))
    }

    /// A schedule with this rate, or with this as its mean.
    fn around(&self, rate: Quota) -> Result<Schedule, ScheduleError> {
        let extent = match (self.duration, self.requests) {
            (None, Some(requests)) => Extent::Requests(requests),
            (duration, _) => Extent::Lasting(duration.unwrap_or(Duration::from_secs(10))),
        };
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

    fn ramp_duration(&self) -> Result<Duration, String> {
        let shape = [
            (self.sine.is_some(), "--sine"),
            (self.burst.is_some(), "--burst"),
            (self.poisson, "--poisson"),
        ];
        if let Some((_, name)) = shape.iter().find(|(is_given, _)| *is_given) {
            return Err(format!(
                "{name} needs one rate, not two: type --rate 1000/s"
            ));
        }
        match (self.duration, self.requests) {
            (None, Some(_)) => Err("how long does the ramp take? type --duration 60s".to_owned()),
            (duration, _) => Ok(duration.unwrap_or(Duration::from_secs(10))),
        }
    }

    fn cut(&self, schedule: Schedule) -> Schedule {
        schedule.at_most(self.requests.unwrap_or(u64::MAX))
    }

    fn explain(&self, error: ScheduleError) -> String {
        match error {
            ScheduleError::TooLong | ScheduleError::TooManyPoisson(_) => {
                format!("{error}: type a shorter --duration or fewer --requests")
            }
            _ if self.sine.is_some() => format!("--sine: {error}"),
            _ => format!("--rate: {error}"),
        }
    }
}

/// Reads the file; what it holds is an argument as others are.
fn replay(path: &PathBuf) -> Result<Schedule, (String, Exit)> {
    let file = File::open(path).map_err(|error| {
        let message = format!("--replay: cannot open {}: {error}", path.display());
        (message, Exit::CouldNotRun)
    })?;
    Schedule::replay(BufReader::new(file)).map_err(|error| {
        let exit = match error {
            flowgate_load::ReplayError::Read(_) => Exit::CouldNotRun,
            _ => Exit::Usage,
        };
        (format!("--replay: {}: {error}", path.display()), exit)
    })
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
        .ok_or("type TIME@RATE, such as 60s@300: once a minute, by 300/s")?;
    Ok(Swing {
        period: duration::parse(period)?,
        amplitude: rate::parse(amplitude)?,
    })
}

fn count(text: &str) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("not a whole number of at least 1: type 1000".to_owned()),
    }
}

fn seed(text: &str) -> Result<u64, String> {
    let read = text.trim().parse();
    read.map_err(|_| format!("not a whole number from 0 to {}: type 7", u64::MAX))
}
