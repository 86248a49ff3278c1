//! `flowgate verify`: detects what the rate limiter of a server admits.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flowgate_load::verify::{
    Asking, HttpSubject, Inconclusive, MAX_CONNECTIONS, StatusRanges, VerifyError, to_json,
};
use flowgate_load::{Stop, Target, html};
use flowgate_verify::{
    Budget, Defect, ExpectedLimit, ExpectedVerdict, Findings, Investigation, Phase, ProbeProgress,
    Worst,
};
use hyper::header::{HeaderName, HeaderValue};

use crate::argument::connecting::Certificates;
use crate::argument::request::Request;
use crate::argument::{duration, output, url};
use crate::exit::{Exit, Refusal, complain, exit_codes, print};
use crate::reports::{Destinations, Reports};
use crate::{descriptors, figure, interrupt};

/// Upper bound of `--max-requests`.
const MAX_REQUESTS: u64 = 10_000_000;
/// Maximum number of keys.
const MAX_KEYS: usize = 100;

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate verify http://127.0.0.1:8080/
      Detect the algorithm, the rate and the burst.
  flowgate verify http://127.0.0.1:8080/ --expect '100/s burst 20'
      In a pipeline: exit with 3 if the limiter is another, or admits more.
  flowgate verify https://api.example.com/ --own api.example.com \\
      --max-requests 2000
      Test a server of yours on another machine.
  flowgate verify http://127.0.0.1:8080/ --key-header X-Api-Key=ann,bob
      Check whether requests of Ann reduce what Bob is admitted.
  flowgate serve --limiter 'sliding 100/s' --fault race
      Start a server to try it on.

What it sends, within --max-requests and --max-time:
  hello       one request: does the server respond?
  burst       batches that double: how large is the burst?
  saturate    a stream of three times the rate: how many are admitted?
  steady      streams at 0.9 to 2 times the rate
  refill      pauses: how much refills in how much time?
  shape       sequences that the remaining algorithms would decide differently
  race        concurrent requests: are more admitted than the limit allows?
  nodes       other connections: do they have separate limits?
  keys        requests with several keys: do keys share a limit?
  headers     retries at the time of Retry-After: is it accurate?
Before it starts, verify prints the maximum number of requests. Requests of
other clients distort the result.

A response with a status of --admitted was admitted, one of --refused was
refused. Any other response, and a missing one, is inconclusive. The
investigation ends if three requests time out on one connection.

Expected limits (--expect):
  '100/s burst 20'      at most 20 + 100 per second in any interval
  'token 100/s burst 20', 'queue 100/s burst 20'
  'fixed 100/s', 'sliding 100/s', 'approximate 100/s'
                        the same bound, and this algorithm

The report:
  algorithm        the algorithm that is consistent with the responses, its rate
                   and burst with error bounds, and other consistent algorithms
  worst interval   the interval with the most admissions, relative to the limit
  steady           offered and admitted rate of a steady stream
  Retry-After      whether a retry at that time was admitted: up to 50 retries,
                   for at most a quarter of --max-time beyond the first five
  so far           what is known if no algorithm was detected
  advertised       the limit in the headers, compared with the detected one
  keys             whether keys have separate limits
  defect           a violation of the limit, or an inaccurate header
  safe rate        a rate at constant intervals that this server admits
Defects (--fail-on):
  race, nodes, multiple-of-expected, late-reset, early-retry-after,
  wrong-remaining, over-admission, under-admission, collapse, ban, failures,
  no-recovery

If more than 3 % of the requests fail, the limiter is not known: only what the
other responses prove is a defect, and --expect is undecided otherwise. Ctrl-C
ends with the findings so far.

A decision falls between sending a request and the head of its response. verify
reports over-admission only if these bounds prove it.

",
    exit_codes!()
);

/// Detect a server's rate limiter: algorithm, rate, burst and defects
///
/// It contacts only this machine, unless you name another host with --own.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Verify {
    /// Send to this http:// or https:// URL, behind the limiter
    url: String,

    /// Compare with this limit: '100/s burst 20', 'sliding 100/s'; exit with 3 if it differs
    #[arg(long, value_name = "LIMIT")]
    expect: Option<ExpectedLimit>,

    /// Allow the server's clock to be off by TIME: as much as its tick
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1ms",
        value_parser = tolerance,
        allow_hyphen_values = true,
    )]
    tolerance: Duration,

    /// Exit with 3 if one of these defects is found: any, or early-retry-after,race,…
    #[arg(long, value_name = "DEFECTS", value_parser = defects)]
    fail_on: Option<Faults>,

    /// Send at most COUNT requests, 1 to 10000000
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "20000",
        value_parser = clap::value_parser!(u64).range(1..=MAX_REQUESTS),
    )]
    max_requests: u64,

    /// Send no request after TIME
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    max_time: Duration,

    /// Allow this host of yours, which is not this machine; repeatable
    #[arg(long, value_name = "HOST")]
    own: Vec<String>,

    /// Test with 2 to 100 keys, sent in this header: X-Api-Key=a,b,c
    #[arg(long, value_name = "NAME=VALUES", value_parser = keys)]
    key_header: Option<Keys>,

    /// Count these statuses as admitted
    #[arg(long, value_name = "STATUSES", default_value = "200-299")]
    admitted: StatusRanges,

    /// Count these statuses as refused
    #[arg(long, value_name = "STATUSES", default_value = "429,503")]
    refused: StatusRanges,

    #[command(flatten)]
    request: Request,

    #[command(flatten)]
    connecting: Connecting,

    #[command(flatten)]
    output: Output,
}

/// Options of the connections.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
struct Connecting {
    /// Open at most COUNT connections, 1 to 1000
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        default_value = "32",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONNECTIONS)),
    )]
    connections: u32,

    /// Fail a request after TIME; a bare number is seconds
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = duration::or_seconds)]
    timeout: Duration,

    #[command(flatten)]
    certificates: Certificates,
}

/// Destinations of the report.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Write the report as JSON; - is standard output, then without the text
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    json: Option<PathBuf>,

    /// Write the report as a page with charts
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,

    /// Print only errors: no report, no progress
    #[arg(long)]
    quiet: bool,
}

/// A header, and its value for each key.
#[derive(Clone, Debug)]
struct Keys {
    name: HeaderName,
    values: Vec<HeaderValue>,
}

/// Names of defects.
#[derive(Clone, Debug)]
struct Faults(Vec<String>);

impl Faults {
    fn have(&self, defect: &Defect) -> bool {
        let is_it = |name: &String| name == "any" || name == defect.name();
        self.0.iter().any(is_it)
    }
}

/// Runs the subcommand.
pub(crate) fn run(verify: Verify) -> Exit {
    investigate(verify).unwrap_or_else(Refusal::say)
}

fn investigate(verify: Verify) -> Result<Exit, Refusal> {
    let target = url::parse(&verify.url).map_err(Refusal::usage)?;
    if verify.admitted.overlaps(&verify.refused) {
        return Err(Refusal::usage(format!(
            "--admitted {} and --refused {} have a status in common",
            verify.admitted, verify.refused
        )));
    }
    let budget = Budget {
        requests: verify.max_requests,
        time: verify.max_time,
    };
    let keys = verify
        .key_header
        .as_ref()
        .map_or(1, |keys| keys.values.len());
    let connections = verify.connecting.connections;
    let mut investigation = Investigation::new()
        .keys(u32::try_from(keys).unwrap_or(u32::MAX))
        .connections(connections)
        .budget(budget)
        .tolerance(verify.tolerance);
    if let Some(expected) = verify.expect {
        investigation = investigation.expected(expected);
    }
    let outlook = outlook(&investigation, verify.expect, &budget)?;

    let files = (verify.request.files()).chain(verify.connecting.certificates.files());
    let inputs: Vec<PathBuf> = files.map(PathBuf::from).collect();
    let mut asking = Asking::new(target.clone());
    asking.template = verify.request.template()?;
    asking.keys = verify.key_header.map(|keys| (keys.name, keys.values));
    asking.admitted = verify.admitted;
    asking.refused = verify.refused;
    asking.timeout = verify.connecting.timeout;
    asking.connect.timeout = verify.connecting.timeout;
    let certificates = verify.connecting.certificates;
    certificates.apply(&mut asking.connect, std::slice::from_ref(&target))?;
    let destinations = Destinations {
        json: verify.output.json,
        html: verify.output.html,
        ..Destinations::default()
    };
    let reports = destinations.open(&inputs)?;

    let stop = Stop::new();
    let could_not = |error: VerifyError| Refusal::could_not_run(format!("{target}: {error}"));
    let mut subject = HttpSubject::new(asking, &stop).map_err(could_not)?;
    let is_own = |host: &String| host.trim().eq_ignore_ascii_case(target.host());
    if !subject.is_local() && !verify.own.iter().any(is_own) {
        let host = target.host();
        return Err(Refusal::usage(format!(
            "{host} is not this machine, and verify exceeds its limit: \
             if the host is yours, add --own {host}"
        )));
    }
    // Each connection needs a timer.
    descriptors::provide(u64::from(connections), 2, 1).map_err(Refusal::could_not_run)?;
    let ending = stop.clone();
    interrupt::listen(move || ending.stop())?;

    let is_quiet = verify.output.quiet;
    let mut steps = Steps::default();
    if !is_quiet {
        tell(&outlook);
    }
    let outcome = investigation.run(&mut subject, &mut |progress| {
        if !is_quiet {
            steps.tell(progress);
        }
    });
    match outcome {
        Ok(findings) => {
            let gates = Gates {
                tolerance: verify.tolerance,
                fail_on: verify.fail_on,
                is_stopped: stop.is_stopped(),
            };
            let exit = conclude(&target, &findings, reports, is_quiet, &gates);
            if let Some(unclear) = unclear(subject.inconclusive()) {
                complain(&unclear);
            }
            exit
        }
        Err(VerifyError::Stopped) => {
            complain(&"stopped before there was a result");
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(could_not(error)),
    }
}

/// Returns the cost of the investigation as one line.
///
/// # Errors
///
/// Returns what to write if the budget is too small.
fn outlook(
    investigation: &Investigation,
    expected: Option<ExpectedLimit>,
    budget: &Budget,
) -> Result<String, Refusal> {
    let (Some(forecast), Some(expected)) = (investigation.forecast(), expected) else {
        return Ok(format!(
            "sends at most {} requests, for at most {}",
            budget.requests,
            figure::span(budget.time)
        ));
    };
    if let Some(needs) = forecast.needs {
        return Err(Refusal::usage(too_little(expected, budget, &needs)));
    }
    let time = figure::span(forecast.time);
    Ok(format!(
        "sends about {} requests in {time} if the limit is as expected, and more to test Retry-After; at most {} requests, for at most {}",
        forecast.requests,
        budget.requests,
        figure::span(budget.time)
    ))
}

/// Returns what a verdict needs beyond `budget`, and what to type.
fn too_little(expected: ExpectedLimit, budget: &Budget, needs: &Budget) -> String {
    let (mut takes, mut is, mut typed) = (Vec::new(), Vec::new(), Vec::new());
    if needs.time > budget.time {
        takes.push(figure::span(needs.time));
        is.push(format!("--max-time is {}", figure::span(budget.time)));
        let seconds = needs.time.as_secs_f64().ceil() as u64;
        typed.push(match seconds % 60 {
            0 => format!("--max-time {}m", seconds / 60),
            _ => format!("--max-time {seconds}s"),
        });
    }
    if needs.requests > budget.requests {
        takes.push(format!("{} requests", needs.requests));
        is.push(format!("--max-requests is {}", budget.requests));
        typed.push(format!("--max-requests {}", needs.requests));
    }
    format!(
        "'{expected}' takes about {} to verify, but {}: write {}",
        takes.join(" and "),
        is.join(" and "),
        typed.join(" ")
    )
}

/// Prints one line per phase.
#[derive(Default)]
struct Steps {
    last: Option<Phase>,
}

impl Steps {
    fn tell(&mut self, progress: ProbeProgress<'_>) {
        if self.last.replace(progress.phase) == Some(progress.phase) {
            return;
        }
        let guess = match progress.guess {
            Some(detected) => format!("; {detected}"),
            None => String::new(),
        };
        tell(&format!(
            "{:>6.1} s  {:<9} {} sent{guess}",
            progress.elapsed.as_secs_f64(),
            name(progress.phase),
            progress.requests,
        ));
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Hello => "hello",
        Phase::Burst => "burst",
        Phase::Saturate => "saturate",
        Phase::Steady => "steady",
        Phase::Refill => "refill",
        Phase::Shape => "shape",
        Phase::Race => "race",
        Phase::Nodes => "nodes",
        Phase::Keys => "keys",
        Phase::Headers => "headers",
        _ => "more",
    }
}

/// Prints a message on standard error.
fn tell(text: &str) {
    // A closed standard error is not a failure.
    let _ = writeln!(stderr(), "{text}");
}

/// What decides the exit code.
struct Gates {
    tolerance: Duration,
    fail_on: Option<Faults>,
    is_stopped: bool,
}

/// Prints the report, writes it to files, and returns the exit code.
fn conclude(
    target: &Target,
    findings: &Findings,
    reports: Reports,
    is_quiet: bool,
    gates: &Gates,
) -> Result<Exit, Refusal> {
    if !is_quiet && !reports.take_stdout() {
        let seconds = figure::time(Duration::from_secs_f64(findings.seconds.max(0.0)));
        print(&format_args!(
            "{target}, {} requests in {seconds}\n\n{findings}",
            findings.requests
        ))?;
    }
    let mut is_written = true;
    let mut write = |written: Result<(), Refusal>| {
        if let Err(refusal) = written {
            refusal.say();
            is_written = false;
        }
    };
    if let Some(sink) = reports.json {
        write(sink.write(to_json(target, findings)));
    }
    if let Some(sink) = reports.html {
        write(sink.write(html::limiter_page(target, findings)));
    }
    if !is_written {
        return Ok(Exit::CouldNotRun);
    }
    if gates.is_stopped {
        complain(&format_args!(
            "stopped: these are the findings of {} requests",
            findings.requests
        ));
        return Ok(Exit::Interrupted);
    }
    let verdict = findings.expected.as_ref().map(|judged| &judged.verdict);
    let is_over = |worst: &Worst| worst.admitted as f64 > worst.allowed + 1e-6;
    if verdict == Some(&ExpectedVerdict::Consistent) && findings.worst.as_ref().is_some_and(is_over)
    {
        complain(&format_args!(
            "--expect: more was admitted only within --tolerance {}",
            figure::span(gates.tolerance)
        ));
    }
    let mut is_faulty = false;
    if let Some(faults) = &gates.fail_on {
        for defect in findings.defects.iter().filter(|defect| faults.have(defect)) {
            complain(&format_args!("--fail-on {}: {defect}", defect.name()));
            is_faulty = true;
        }
    }
    Ok(match verdict {
        None | Some(ExpectedVerdict::Consistent | ExpectedVerdict::Undecided(_)) if is_faulty => {
            Exit::GateFailed
        }
        None | Some(ExpectedVerdict::Consistent) => Exit::Success,
        Some(ExpectedVerdict::Differs(why)) => {
            for why in why {
                complain(&format_args!("--expect: {why}"));
            }
            Exit::GateFailed
        }
        Some(ExpectedVerdict::Undecided(why)) => {
            complain(&format_args!("--expect cannot be decided: {why}"));
            Exit::Undecided
        }
    })
}

/// Describes the inconclusive results, and what to do about them.
fn unclear(inconclusive: &BTreeMap<Inconclusive, u64>) -> Option<String> {
    let all: u64 = inconclusive.values().sum();
    let each = inconclusive
        .iter()
        .map(|(what, times)| format!("{what} ({times})"));
    let each = each.collect::<Vec<_>>().join(", ");
    let are_answers = inconclusive
        .keys()
        .any(|what| matches!(what, Inconclusive::Answer(_)));
    let advice = if are_answers {
        "; list their statuses in --admitted or --refused"
    } else {
        ""
    };
    (all > 0).then(|| format!("{all} requests were inconclusive: {each}{advice}"))
}

/// Parses a time, or `0`.
fn tolerance(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        text => duration::parse(text).map_err(|_| "not a time: write 1ms, or 0".to_owned()),
    }
}

/// Parses names of defects, separated by commas.
fn defects(text: &str) -> Result<Faults, String> {
    let names = text.split(',').map(str::trim);
    let known = names.map(
        |name| match name == "any" || Defect::NAMES.contains(&name) {
            true => Ok(name.to_owned()),
            false => Err(format!(
                "{name:?} is not a defect: write any, or some of {}",
                Defect::NAMES.join(",")
            )),
        },
    );
    known.collect::<Result<_, _>>().map(Faults)
}

/// Parses `X-Api-Key=a,b,c`.
fn keys(text: &str) -> Result<Keys, String> {
    let shape = || "not a header with values: write X-Api-Key=ann,bob".to_owned();
    let (name, values) = text.split_once('=').ok_or_else(shape)?;
    let name = name.trim().parse().map_err(|_| shape())?;
    let values = values.split(',').map(|value| {
        let value = value.trim();
        match value.is_empty() {
            true => Err(shape()),
            false => value.parse().map_err(|_| shape()),
        }
    });
    let values: Vec<_> = values.collect::<Result<_, _>>()?;
    let is_twice = |index: usize| values[..index].contains(&values[index]);
    match values.len() {
        1 => Err("one key is not enough: write X-Api-Key=ann,bob".to_owned()),
        2..=MAX_KEYS if (0..values.len()).any(is_twice) => {
            Err("a key occurs twice: write X-Api-Key=ann,bob".to_owned())
        }
        2..=MAX_KEYS => Ok(Keys { name, values }),
        count => Err(format!(
            "{count} keys exceed the maximum of {MAX_KEYS}: write fewer"
        )),
    }
}
