//! `flowgate simulate`: what a limit does to given traffic, in virtual time.

use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use flowgate_sim::{
    ArrivalsConfig, Distribution, DurationReader, Fault, Keys, LimitConfig, LogFormat, LogOptions,
    QueueOrder, Retries, Scenario, Server, Share, TextError, TrafficConfig, Wish,
};

use crate::argument::{duration, output};
use crate::exit::{Exit, Refusal, exit_codes, print};
use crate::reports::open_all;
use crate::simulate::suggestion::{self, LimiterTemplate};
use crate::simulate::{self, Reports};

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate simulate --limiter 'token 100/s burst 20' --arrivals 'poisson 150/s'
      Show what a token bucket does to 150 random requests per second.
  flowgate simulate --limiter 'fixed 100/s' --limiter 'sliding 100/s' \\
      --arrivals 'bursts 200 every 2s' --html compare.html
      Compare two limits on the same traffic.
  flowgate simulate --limiter none --limiter 'concurrency 20 wait 100ms' \\
      --arrivals 'poisson 2500/s' --workers 20 --service 'exponential 10ms'
      Protect a server of 20 workers that is overloaded.
  flowgate simulate --arrivals log:access.log \
      --limiter 'keyed token 10/s burst 30 by ip'
      Replay a log: which clients would this limit refuse?
  flowgate simulate --arrivals log:access.log --suggest 'refused <= 1%' \
      --limiter 'keyed token N/s burst 30 by ip'
      Find the smallest rate that refuses at most 1 % of a log.
  flowgate simulate crates/flowgate-sim/scenarios/retry-storm.toml
      Run a scenario from a file; --print-scenario writes one.

Limiters (--limiter): a text of flowgate serve --limiter, and
  'keyed token 10/s burst 30'         a limit for each key; with a log, add by
                                      and a field: 'keyed token 10/s by user'
  'concurrency 40'                    at most 40 requests at a time
  'token 100/s + concurrency 40'      both: all admit, or none; one of them may
                                      be keyed: 'keyed token 9/s + token 100/s'
  'token 100/s wait 500ms queue 50'   up to 50 requests wait, for at most 500 ms
  'concurrency 40 wait 1s order lifo codel 5ms'
                                      the newest first; also 'adaptive-lifo';
                                      waits over 10 ms are shed under overload
  'adaptive gradient'                 a concurrency limit that finds its number
  none                                no limit

Arrivals (--arrivals):
  150/s                               at a constant rate
  'poisson 150/s'                     at random, independent times
  'bursts 200 every 2s'               200 at a time
  'ramp 10/s to 500/s'                at a rate that grows over the whole run
  'sine 100/s by 50/s every 10s'      at a rate from 50/s to 150/s
  'plan 10s@50/s, 5s@0, 9s@1/s:99/s'  at rates in sequence; a colon is a ramp
  'users 50 think exponential 1s'     50 users, each of whom asks again after
                                      an answer and a time to think
  log:access.log                      as in a log; log:- is standard input

Times (--service, think): 10ms, 'exponential 10ms', 'lognormal 10ms 1' (mean,
sigma), 'bimodal 5ms 50ms 10%'. For --service also file:times.txt, with a time on
each line, or a CSV or JSON lines with a usual field such as duration

Suggestions (--suggest): the limiter has an N in place of a number. The command
finds the smallest N, or for a latency the largest, with which the run keeps the
wish, and prints what it tried.

Faults (--fault): 'capacity 25% at 20s for 10s', 'service 3x at 20s for 10s',
'pause at 20s for 2s', 'outage at 20s for 30s'

The simulation takes no real time and sends nothing. Equal seeds give equal
results, on every machine.

",
    exit_codes!()
);

/// Simulate what a limit does to traffic, in virtual time
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Simulate {
    /// Run the scenario in this TOML file; --limiter, --seed and --for replace its own
    #[arg(value_name = "SCENARIO", conflicts_with_all = ["Clients", "Log", "Service"])]
    scenario: Option<PathBuf>,

    /// Simulate this limit: 'token 100/s burst 20'; repeat it to compare
    #[arg(
        long,
        visible_alias = "limit",
        value_name = "LIMITER",
        required_unless_present = "scenario"
    )]
    limiter: Vec<LimiterArgument>,

    /// Find the N in --limiter 'token N/s burst 20' that keeps this: 'refused <= 1%',
    /// 'p99 <= 200ms', 'goodput >= 100/s', 'in-time >= 99%'
    #[arg(long, value_name = "WISH", conflicts_with = "print_scenario")]
    suggest: Option<Wish>,

    /// Run for this time: 30s, 5m, 1h [default: 30s]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Seed all random numbers [default: 0]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    #[command(flatten)]
    clients: Clients,

    #[command(flatten)]
    log: Log,

    #[command(flatten)]
    service: Service,

    #[command(flatten)]
    output: Outputs,
}

/// The traffic.
#[derive(Args, Debug)]
#[command(next_help_heading = "Traffic")]
struct Clients {
    /// Send requests at these times: 150/s, 'poisson 150/s', 'bursts 200 every 2s'
    #[arg(long, value_name = "ARRIVALS", required_unless_present = "scenario")]
    arrivals: Option<ArrivalsConfig>,

    /// Give requests these keys: 'uniform 1000', 'zipf 1000 1.1' [default: one]
    #[arg(long, value_name = "KEYS")]
    keys: Option<Keys>,

    /// Take COUNT tokens per request [default: 1]
    #[arg(long, value_name = "COUNT")]
    cost: Option<u64>,

    /// Let clients give up after TIME, retries included [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    deadline: Option<Duration>,

    /// Let clients give up each attempt after TIME, and retry [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    attempt_timeout: Option<Duration>,

    /// Let clients retry up to COUNT times after a refusal or failure [default: 0]
    #[arg(long, value_name = "COUNT")]
    retries: Option<u32>,

    /// Wait a random time up to TIME before the first retry; it doubles each time
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration::parse,
        default_value = "100ms",
        requires = "retries")]
    backoff: Duration,

    /// Allow this share of retries per request: 10% [default: any number]
    #[arg(long, value_name = "SHARE", requires = "retries")]
    retry_budget: Option<Share>,
}

/// How to read a log.
#[derive(Args, Debug)]
#[command(next_help_heading = "Log (--arrivals log:FILE)")]
struct Log {
    /// Read a log of this format [default: detected]
    #[arg(long, value_name = "access|json|csv")]
    log_format: Option<LogFormat>,

    /// Take the time of a request from this field [default: by the usual names]
    #[arg(long, value_name = "FIELD")]
    time_field: Option<String>,

    /// Take the tokens of a request from this field [default: 1 token each]
    #[arg(long, value_name = "FIELD")]
    cost_field: Option<String>,

    /// Stop at the first malformed line instead of skipping it
    #[arg(long)]
    strict: bool,

    /// Keep whole seconds as they are, instead of spreading their requests
    #[arg(long)]
    whole_seconds: bool,
}

/// The server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
struct Service {
    /// Serve COUNT requests at a time [default: no server, and no service time]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = workers,
        requires = "service"
    )]
    workers: Option<u32>,

    /// Take this time per request: 10ms, 'exponential 10ms', file:times.txt
    #[arg(
        long,
        value_name = "TIME",
        value_parser = service_time,
        requires = "workers")]
    service: Option<Distribution>,

    /// Let up to COUNT admitted requests wait for a worker [default: any number]
    #[arg(long, value_name = "COUNT", requires = "workers")]
    server_queue: Option<usize>,

    /// Serve waiting requests in this order
    #[arg(
        long,
        value_name = "ORDER",
        value_enum,
        default_value = "fifo",
        requires = "workers"
    )]
    server_order: Order,

    /// Drop requests from the server's queue after their deadline
    #[arg(long, requires = "workers")]
    drop_expired: bool,

    /// Inject a fault: 'capacity 25% at 20s for 10s'; repeatable
    #[arg(long, value_name = "FAULT", requires = "workers")]
    fault: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Fifo,
    Lifo,
}

/// The output.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
struct Outputs {
    /// Write the report as a page with charts; - is standard output
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,

    /// Write the chart of what was admitted as SVG
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    svg: Option<PathBuf>,

    /// Write the same chart as PNG
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    png: Option<PathBuf>,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    json: Option<PathBuf>,

    /// Write counts over time as CSV
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    csv: Option<PathBuf>,

    /// Print only errors: no table, no progress
    #[arg(long)]
    quiet: bool,

    /// Print the scenario as TOML, and simulate nothing
    #[arg(long)]
    print_scenario: bool,
}

/// Runs the subcommand.
pub(crate) fn run(simulate: Simulate) -> Exit {
    let wish = simulate.suggest;
    let template = match template(&simulate) {
        Ok(template) => template,
        Err(refusal) => return refusal.say(),
    };
    let shown = simulate.into_scenario().and_then(|(scenario, outputs)| {
        if outputs.print_scenario {
            let text = scenario.to_toml();
            Scenario::from_toml(&text).map_err(|_| {
                Refusal::usage("a scenario cannot contain the times of a file: write --service 'exponential 10ms'")
            })?;
            return print(&text).map(|()| Exit::Success);
        }
        let inputs = logs(&scenario);
        let reports = Reports::open(outputs, &inputs)?;
        match wish.zip(template) {
            Some((wish, template)) => suggestion::show(&scenario, wish, template, reports),
            None => simulate::show(&scenario, reports),
        }
    });
    shown.unwrap_or_else(Refusal::say)
}

impl Simulate {
    /// The scenario that file and flags mean, and what to do with it.
    fn into_scenario(self) -> Result<(Scenario, Outputs), Refusal> {
        let mut scenario = match &self.scenario {
            Some(path) => {
                Scenario::from_file(path).map_err(|error| Refusal::usage(error.to_string()))?
            }
            None => Scenario {
                traffic: self.clients.traffic(self.log)?.into_iter().collect(),
                server: self.service.server(),
                faults: self.service.fault,
                ..Scenario::default()
            },
        };
        let limiters = self.limiter.into_iter();
        let limits: Vec<_> = limiters.filter_map(LimiterArgument::fixed).collect();
        if !limits.is_empty() {
            scenario.limits = limits;
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.duration = self.duration.or(scenario.duration);
        Ok((scenario, self.output))
    }
}

/// Parses the value of `--workers`.
fn workers(text: &str) -> Result<u32, String> {
    let workers = text.parse().ok().filter(|workers| *workers > 0);
    workers.ok_or_else(|| "not a whole number above 0: write 20".to_owned())
}

/// Parses the value of `--service`, and reads the file that it names.
fn service_time(text: &str) -> Result<Distribution, String> {
    let Some(path) = text.strip_prefix("file:") else {
        return text.parse().map_err(|error: TextError| error.to_string());
    };
    let file = File::open(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let recorded = DurationReader::new().read(file);
    let recorded = recorded.map_err(|error| format!("{path}: {error}"))?;
    Ok(recorded.into())
}

/// The value of `--limiter`.
#[derive(Clone, Debug)]
enum LimiterArgument {
    Fixed(LimitConfig),
    /// With an `N` in it.
    Template(LimiterTemplate),
}

impl LimiterArgument {
    fn fixed(self) -> Option<LimitConfig> {
        match self {
            Self::Fixed(limit) => Some(limit),
            Self::Template(_) => None,
        }
    }
}

impl FromStr for LimiterArgument {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        match LimiterTemplate::new(text) {
            Some(template) => template.with(1).map(|_| Self::Template(template)),
            None => text.parse().map(Self::Fixed),
        }
    }
}

/// The limiter with an `N`, which there is if and only if there is a wish.
fn template(simulate: &Simulate) -> Result<Option<LimiterTemplate>, Refusal> {
    let usage = |why: &str| Err(Refusal::usage(why));
    let has_template = simulate
        .limiter
        .iter()
        .any(|limiter| matches!(limiter, LimiterArgument::Template(_)));
    match (&simulate.suggest, simulate.limiter.as_slice()) {
        (Some(_), [LimiterArgument::Template(template)]) => Ok(Some(template.clone())),
        (Some(_), _) => usage("--suggest finds an N: write one --limiter 'token N/s burst 20'"),
        (None, _) if has_template => {
            usage("N in --limiter is to be found: add --suggest 'refused <= 1%', or write a number")
        }
        (None, _) => Ok(None),
    }
}

/// The files that the scenario reads.
fn logs(scenario: &Scenario) -> Vec<PathBuf> {
    let traffic = scenario.traffic.iter();
    let paths = traffic.filter_map(|traffic| match &traffic.arrivals {
        ArrivalsConfig::Log(path) => Some(scenario.folder.join(path)),
        _ => None,
    });
    paths.collect()
}

impl Reports {
    fn open(outputs: Outputs, inputs: &[PathBuf]) -> Result<Reports, Refusal> {
        let [html, svg, png, json, csv] = open_all(
            [
                ("--html", outputs.html),
                ("--svg", outputs.svg),
                ("--png", outputs.png),
                ("--json", outputs.json),
                ("--csv", outputs.csv),
            ],
            inputs,
        )?;
        Ok(Reports {
            html,
            svg,
            png,
            json,
            csv,
            is_quiet: outputs.quiet,
        })
    }
}

impl Clients {
    fn traffic(&self, log: Log) -> Result<Option<TrafficConfig>, Refusal> {
        let Some(arrivals) = self.arrivals.clone() else {
            return Ok(None);
        };
        match &arrivals {
            ArrivalsConfig::Log(_) => self.without_those_of_a_log()?,
            _ => log.unused()?,
        }
        let mut traffic = TrafficConfig::new(arrivals);
        traffic.keys = self.keys.unwrap_or_default();
        traffic.cost = self.cost.unwrap_or(1);
        traffic.log = LogOptions {
            format: log.log_format,
            time: log.time_field,
            cost: log.cost_field,
            strict: log.strict,
            whole_seconds: log.whole_seconds,
        };
        traffic.deadline = self.deadline;
        traffic.attempt_timeout = self.attempt_timeout;
        traffic.retries = self.retries.filter(|retries| *retries > 0).map(|retries| {
            let retries = Retries::new(retries.saturating_add(1), self.backoff);
            match self.retry_budget {
                Some(share) => retries.budget(share),
                None => retries,
            }
        });
        Ok(Some(traffic))
    }

    /// Refuses the flags for which a log has values of its own.
    fn without_those_of_a_log(&self) -> Result<(), Refusal> {
        let refused = |why: &str| Err(Refusal::usage(why));
        match (self.keys, self.cost) {
            (Some(_), _) => refused(
                "--keys: a log has its own keys; name their field in --limiter 'keyed token 10/s by ip'",
            ),
            (_, Some(_)) => refused(
                "--cost: requests of a log have their own tokens; name their field with --cost-field",
            ),
            _ => Ok(()),
        }
    }
}

impl Log {
    /// Refuses all flags, because there is no log.
    fn unused(&self) -> Result<(), Refusal> {
        let flags = [
            ("--log-format", self.log_format.is_some()),
            ("--time-field", self.time_field.is_some()),
            ("--cost-field", self.cost_field.is_some()),
            ("--strict", self.strict),
            ("--whole-seconds", self.whole_seconds),
        ];
        match flags.into_iter().find(|(_, is_set)| *is_set) {
            Some((flag, _)) => Err(Refusal::usage(format!(
                "{flag} is about a log: write --arrivals log:access.log, or leave it out"
            ))),
            None => Ok(()),
        }
    }
}

impl Service {
    fn server(&self) -> Option<Server> {
        let (workers, service) = self.workers.zip(self.service.clone())?;
        let server = Server::new(workers, service)
            .order(match self.server_order {
                Order::Fifo => QueueOrder::Fifo,
                Order::Lifo => QueueOrder::Lifo,
            })
            .drops_expired(self.drop_expired);
        Some(match self.server_queue {
            Some(queue) => server.queue(queue),
            None => server,
        })
    }
}
