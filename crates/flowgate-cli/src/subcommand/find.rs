//! `flowgate find`: searches for the highest load at which a server keeps its objective.

use std::io::{Write, stderr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use flowgate_load::find::{
    End, HttpService, LoadFinding, LoadSearch, SearchStep, Slo, StepVerdict, Varied,
};
use flowgate_load::verify::{Asking, HttpSubject};
use flowgate_load::{HttpVersion, MAX_CONNECTIONS, Stop, Target, html};
use flowgate_verify::{Budget, Investigation};

use crate::argument::connecting::{Certificates, Route};
use crate::argument::request::{Request, Urls};
use crate::argument::{duration, input, output, rate, slo, url};
use crate::exit::{Exit, Refusal, complain, exit_codes, print};
use crate::reports::{Destinations, Reports};
use crate::{descriptors, figure, interrupt};

/// An investigation begins with a limiter that is full, and the search has just emptied it.
const REST: Duration = Duration::from_secs(5);
/// Most connections that a search opens without `-c`.
const CONNECTIONS: u64 = 2_000;
/// Length of the run that repeats the best step.
const AGAIN: &str = "10s";
/// Requests of the investigation of a rate limiter.
const TO_VERIFY: u64 = 20_000;

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate find http://127.0.0.1:8080/ --slo 'p99<50ms, errors<0.1%'
      The highest rate at which 99 % of the responses come within 50 ms.
  flowgate find http://127.0.0.1:8080/ --slo 'p99.9<200ms' --within 10m \\
      --html curve.html
      The same for rarer responses, which need more requests and more time.
  flowgate find http://127.0.0.1:8080/ --slo 'p99<50ms' --find concurrency
      The highest number of connections, each of which waits for its response.
  flowgate find https://staging.example.com/ --slo 'p99<50ms' \\
      --own staging.example.com
      Load a server of yours on another machine.

Objectives (--slo) are conditions METRIC<VALUE, separated by commas:
  p50 … p99.99, mean   response time from the scheduled time: 50ms, 250us, 1.5s
  errors               failed requests, and statuses 4xx and 5xx: 0.1%, or 0.001
                       [default: errors<1%]

How it searches:
  It multiplies the load until a step breaks the objective, and then halves the
  ratio of the nearest levels until they are within --precision.
  - A step lasts until it has enough requests for the rarest response of --slo.
  - The first tenth of a step does not count. The rest is judged in ten parts,
    whose spread gives the interval of each number at 95 %.
  - A step whose interval contains the limit is repeated for longer.
  - A step in which this client was late says nothing about the server, and is
    repeated. Four such steps in a row end the search, and so do two in which
    this client sent too few requests.
  - A step is ended early when four times as many requests wait as the objective
    allows. After a broken step, the search waits until the server responds as
    before.
Before it starts, find prints the maximum time and number of requests.

What is varied (--find):
  rate         requests per second, whatever the responses do (open loop)
  concurrency  connections, each of which sends its next request after a
               response (closed loop)
  spike        requests in one burst, after a pause

The report:
  result       the highest load that kept the objective, and the lowest that did
               not; 'certain' are the nearest levels whose intervals exclude the
               opposite
  uncertain    the interval contains the limit: the step could be otherwise
  knee         the highest load whose p99 is at most twice that of the lowest
  concurrency  requests in flight (Little's law), and a concurrency limit for
               this rate
  again        the command that repeats the best step

",
    exit_codes!()
);

/// Search for the highest load at which a server keeps its objective
///
/// It contacts only this machine, unless you name another host with --own.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Find {
    /// Send to this http:// or https:// URL
    #[arg(required_unless_present = "urls")]
    url: Option<String>,

    /// Keep this objective: 'p99<50ms, errors<0.1%'
    #[arg(long, value_name = "CONDITIONS", value_parser = slo::parse)]
    slo: Slo,

    /// Vary the rate, the concurrency, or the size of a spike
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = What::Rate)]
    find: What,

    /// Begin at this level [default: 100/s, 1 connection, or a spike of 10]
    #[arg(long, value_name = "LEVEL", value_parser = level, allow_hyphen_values = true)]
    from: Option<f64>,

    /// End when the result is known to this share, 0.1% to 50%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = precision, allow_hyphen_values = true)]
    precision: f64,

    /// End after TIME
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = duration::parse, allow_hyphen_values = true)]
    within: Duration,

    /// Send at most COUNT requests, 1 to 1000000000
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "10000000",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000),
    )]
    max_requests: u64,

    /// Send at random, independent times, as many users do
    #[arg(long)]
    poisson: bool,

    /// Do not count 429 and 503 as errors: end there, and detect the rate limiter
    #[arg(long)]
    rate_limit_aware: bool,

    /// Allow this host of yours, which is not this machine; repeatable
    #[arg(long, value_name = "HOST")]
    own: Vec<String>,

    #[command(flatten)]
    request: Request,

    #[command(flatten)]
    urls: Urls,

    #[command(flatten)]
    connecting: Connecting,

    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    Rate,
    Concurrency,
    Spike,
}

/// Options of the connections.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
struct Connecting {
    /// Open at most COUNT connections, 1 to 20000 [default: as many as the load needs]
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=MAX_CONNECTIONS as i64),
    )]
    connections: Option<u32>,

    /// Use HTTP/2: negotiated on https://, assumed on http://
    #[arg(long)]
    http2: bool,

    /// Fail a request after TIME; a bare number is seconds
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = duration::or_seconds)]
    timeout: Duration,

    #[command(flatten)]
    route: Route,

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

impl What {
    fn mode(self) -> Varied {
        match self {
            What::Rate => Varied::Rate,
            What::Concurrency => Varied::Connections,
            What::Spike => Varied::Burst,
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(find: Find) -> Exit {
    search(find).unwrap_or_else(Refusal::say)
}

fn search(find: Find) -> Result<Exit, Refusal> {
    let wish = wish(&find)?;
    let files = find.request.files().chain(find.urls.file());
    let files = files.chain(find.connecting.certificates.files());
    let inputs: Vec<PathBuf> = files.map(PathBuf::from).collect();
    input::one_stdin(&inputs)?;
    let targets = match find.urls.targets()? {
        Some(targets) => targets,
        None => {
            let url = find.url.as_deref().unwrap_or_default();
            vec![url::parse(url).map_err(Refusal::usage)?]
        }
    };
    let Some(target) = targets.first().cloned() else {
        return Err(Refusal::usage(
            "no URL: write one such as http://127.0.0.1:8080/",
        ));
    };
    let stop = Stop::new();
    let mut service = HttpService::new(target.clone(), &stop);
    service.targets = targets;
    service.template = find.request.template()?;
    service.is_poisson = find.poisson;
    service.connections = find
        .connecting
        .connections
        .and_then(|count| NonZeroUsize::new(count as usize));
    service.timeout = find.connecting.timeout;
    service.connect.timeout = find.connecting.timeout;
    service.connect.version = match find.connecting.http2 {
        true => HttpVersion::Http2,
        false => HttpVersion::Http1,
    };
    let (route, certificates) = (find.connecting.route, find.connecting.certificates);
    route.apply(&mut service.connect, &service.targets)?;
    certificates.apply(&mut service.connect, &service.targets)?;
    allowed(&service, &target, &find.own)?;
    let destinations = Destinations {
        json: find.output.json,
        html: find.output.html,
        ..Destinations::default()
    };
    let reports = destinations.open(&inputs)?;
    let connections = service
        .connections
        .map_or(CONNECTIONS, |count| count.get() as u64);
    descriptors::provide(connections, 1, 1).map_err(Refusal::could_not_run)?;
    let ending = stop.clone();
    interrupt::listen(move || ending.stop())?;

    let is_quiet = find.output.quiet;
    if !is_quiet {
        tell(&format!(
            "searches for at most {}, with at most {} requests; Ctrl-C ends it with what is known",
            figure::span(wish.within),
            wish.max_requests
        ));
    }
    let began = std::time::Instant::now();
    let found = service.find(&wish, |step| {
        if !is_quiet {
            tell(&line(began.elapsed(), step));
        }
    });
    let finding = match found {
        Ok(finding) => finding,
        Err(_) if stop.is_stopped() => {
            complain(&"stopped before there was a result");
            return Ok(Exit::Interrupted);
        }
        Err(lost) => return Err(Refusal::could_not_run(format!("{target}: {lost}"))),
    };
    let mut exit = conclude(&finding, &service, reports, is_quiet)?;
    if finding.end == End::Limited && !stop.is_stopped() {
        exit = detect(&service, &target, &stop, is_quiet)?;
    }
    Ok(exit)
}

/// Returns what to search for.
fn wish(find: &Find) -> Result<LoadSearch, Refusal> {
    let mode = find.find.mode();
    if mode != Varied::Rate && find.poisson {
        return Err(Refusal::usage(
            "--poisson varies a rate: remove it, or --find",
        ));
    }
    if mode == Varied::Connections && find.connecting.connections.is_some() {
        return Err(Refusal::usage(
            "-c is what --find concurrency varies: write --from in place of it",
        ));
    }
    Ok(LoadSearch {
        mode,
        from: find.from,
        precision: find.precision,
        within: find.within,
        max_requests: find.max_requests,
        counts_limited: !find.rate_limit_aware,
        ..LoadSearch::new(find.slo.clone())
    })
}

/// Refuses a server that is neither on this machine nor named.
fn allowed(service: &HttpService, target: &Target, own: &[String]) -> Result<(), Refusal> {
    let is_own = |host: &String| host.trim().eq_ignore_ascii_case(target.host());
    let is_local = service
        .is_local()
        .map_err(|lost| Refusal::could_not_run(format!("{target}: {lost}")))?;
    if is_local || own.iter().any(is_own) {
        return Ok(());
    }
    let host = target.host();
    Err(Refusal::usage(format!(
        "{host} is not this machine, and find overloads it: if the host is yours, add --own {host}"
    )))
}

/// Returns a step in one line.
fn line(elapsed: Duration, step: &SearchStep) -> String {
    let verdict = match &step.verdict {
        StepVerdict::Kept if step.is_clear => "kept".to_owned(),
        StepVerdict::Kept => "kept, uncertain".to_owned(),
        StepVerdict::Broken(broken) => format!("broken: {broken}"),
        StepVerdict::Behind(why) => format!("not judged: {why}"),
    };
    format!(
        "{:>6.1} s  {:<16} {verdict}",
        elapsed.as_secs_f64(),
        step.mode.in_words(step.level)
    )
}

/// Prints a message on standard error.
fn tell(text: &str) {
    // A closed standard error is not a failure.
    let _ = writeln!(stderr(), "{text}");
}

/// Prints the report, writes it to files, and returns the exit code.
fn conclude(
    finding: &LoadFinding,
    service: &HttpService,
    reports: Reports,
    is_quiet: bool,
) -> Result<Exit, Refusal> {
    if !is_quiet && !reports.take_stdout() {
        let again = again(finding, service)
            .map_or(String::new(), |again| format!("again        {again}\n"));
        print(&format_args!("{finding}{again}"))?;
    }
    let mut is_written = true;
    let mut write = |written: Result<(), Refusal>| {
        if let Err(refusal) = written {
            refusal.say();
            is_written = false;
        }
    };
    if let Some(sink) = reports.json {
        write(sink.write(finding.to_json()));
    }
    if let Some(sink) = reports.html {
        write(sink.write(html::finding_page(finding)));
    }
    if !is_written {
        return Ok(Exit::CouldNotRun);
    }
    Ok(judge(finding))
}

/// Explains why there is no result, and returns the exit code.
fn judge(finding: &LoadFinding) -> Exit {
    let end = &finding.end;
    match (end, finding.kept) {
        (End::Interrupted, _) => Exit::Interrupted,
        (End::ServiceLost(_) | End::NotRecovered, _) => {
            complain(end);
            Exit::ServerFailed
        }
        (End::OutOfTime { needs }, None) => {
            let minutes = (finding.elapsed + *needs * 12).as_secs().div_ceil(60);
            complain(&format_args!(
                "{end}: write --within {minutes}m, or an objective that fewer requests show"
            ));
            Exit::Undecided
        }
        (End::OutOfRequests, None) => {
            complain(&format_args!("{end}: write a larger --max-requests"));
            Exit::Undecided
        }
        (End::Client(_), None) => {
            complain(&format_args!(
                "{}; {end}: write a lower --from, or run it on a machine that is less busy",
                finding.conclusion()
            ));
            Exit::Undecided
        }
        (_, Some(_)) | (End::Limited, _) => Exit::Success,
        (_, None) => {
            complain(&finding.conclusion());
            Exit::GateFailed
        }
    }
}

/// Returns the command that repeats the best step.
fn again(finding: &LoadFinding, service: &HttpService) -> Option<String> {
    let best = finding.best()?;
    let url = url::without_credentials(&finding.target).into_owned();
    let connections = best.connections;
    Some(match finding.mode {
        Varied::Rate => {
            let poisson = if service.is_poisson { " --poisson" } else { "" };
            let rate = (best.level * 1e3).round() / 1e3;
            format!("flowgate load {url} -q {rate} -z {AGAIN} -c {connections}{poisson}")
        }
        Varied::Connections => format!("flowgate load {url} -z {AGAIN} -c {}", best.level),
        Varied::Burst => {
            let size = best.level;
            format!(
                "flowgate load {url} -q {size} --burst {size} -n {} -c {connections}",
                size * 10.0
            )
        }
    })
}

/// Detects the rate limiter of the server, and prints it.
fn detect(
    service: &HttpService,
    target: &Target,
    stop: &Stop,
    is_quiet: bool,
) -> Result<Exit, Refusal> {
    let could_not = |error: &dyn std::fmt::Display| {
        Refusal::could_not_run(format!("{target}: cannot detect the rate limiter: {error}"))
    };
    let mut asking = Asking::new(target.clone());
    asking.template = service.template.clone();
    asking.timeout = service.timeout;
    asking.connect = service.connect.clone();
    let mut subject = HttpSubject::new(asking, stop).map_err(|error| could_not(&error))?;
    let budget = Budget {
        requests: TO_VERIFY,
        time: Duration::from_secs(60),
    };
    if !is_quiet {
        tell("the server limits the load; detects its rate limiter for at most 65 s");
    }
    let rested = Instant::now() + REST;
    while Instant::now() < rested && !stop.is_stopped() {
        thread::sleep(Duration::from_millis(20));
    }
    let findings = Investigation::new()
        .budget(budget)
        .run(&mut subject, &mut |_| {})
        .map_err(|error| could_not(&error))?;
    if !is_quiet {
        print(&format_args!("\nrate limiter of the server\n{findings}"))?;
    }
    Ok(Exit::Success)
}

/// Parses a level: a rate, or a number.
fn level(text: &str) -> Result<f64, String> {
    let rate = rate::parse(text)?;
    let level = rate.count() as f64 / rate.period().as_secs_f64();
    match (1.0..=1e6).contains(&level) {
        true => Ok(level),
        false => Err("out of range: write a level from 1 to 1000000".to_owned()),
    }
}

fn precision(text: &str) -> Result<f64, String> {
    let share = text.parse::<flowgate_sim::Share>();
    let share = share.map(flowgate_sim::Share::get).unwrap_or(f64::NAN);
    match (0.001..=0.5).contains(&share) {
        true => Ok(share),
        false => Err("not a share from 0.1% to 50%: write 1%".to_owned()),
    }
}
