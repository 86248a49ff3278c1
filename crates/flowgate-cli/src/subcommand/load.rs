//! `flowgate load`: send requests at a rate or under one, and report whether the rate was held or the rate limit kept.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use flowgate_load::{
    Origin, OtlpPush, Pace, Plan, Progress, Pushed, Report, RequestLog, RunComparison, Stop,
    Target, Verdict, html,
};

use crate::argument::cap::Cap;
use crate::argument::command_line;
use crate::argument::connecting::Connecting;
use crate::argument::input;
use crate::argument::output::Output;
use crate::argument::profile::Profile;
use crate::argument::request::{Request, Urls};
use crate::argument::slice::Part;
use crate::argument::targets::Targets;
use crate::argument::url;
use crate::checks::{self, Check};
use crate::descriptors;
use crate::exit::{Exit, Refusal, complain, exit_codes, print};
use crate::interrupt::{self, STOPPING};
use crate::reports::{self, Reports, Sink};
use crate::watch::{Subject, Watch};

/// Maximum time of sending one point to a collector.
const PUSH_LIMIT: Duration = Duration::from_secs(5);

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate load http://host/ -q 500 -z 30s -c 20 -H 'Authorization: Bearer …'
      Hold 500 requests per second in total, for 30 s.
  flowgate load http://host/ --at-most 2/s -n 100
      Never send two requests within 500 ms: a late request delays later ones.
  flowgate load http://host/ -q 100:5000 -z 60s --html report.html
      Raise the rate linearly from 100/s to 5000/s; write a page with charts.
  flowgate load http://host/ -q 500 --fail-if 'p99>50ms' --fail-if 'err>0.1%'
      In a pipeline: exit with 3 if the server is too slow or fails too often.
  flowgate load http://host/ -q 500 -z 60s --compare baseline.json \\
      --fail-if 'p99>baseline+10%' --junit load.xml
      Exit with 3 if the server got slower than in an earlier run.
  flowgate load http://host/ -q 500 --warm-up 5s --log requests.jsonl
      Send for 5 s without counting, then for 10 s; write a line per request.
  flowgate load http://host/ -q 500 -z 10m --otlp http://127.0.0.1:4318
      Send rates and times to an OpenTelemetry collector while the run lasts.
  flowgate load --targets requests.http --variables users.csv -q 500
      The requests of a file in turn; {{name}} is a column of users.csv.
  flowgate load http://host/ -z 10s
      Without a rate: as fast as the server responds, on 50 connections.

Hold a rate (-q):
  Each request has a scheduled time, which does not depend on responses.
  If all connections are busy, a request waits for one and is sent late. Late
  requests are caught up with, so the mean rate is exact; see also --late.

One schedule from several machines (--slice, --start-at):
  Each machine sends every Nth request, and all begin at the same time by their
  own clocks. flowgate report --merge joins their reports.

Stay under a rate (--at-most, --limiter):
  A pacing limiter decides when the next request may be sent, from the times at
  which earlier ones were sent. A late request delays all later ones, so the
  rate is never exceeded.

Limiters (--limiter), each with a rate:
  token      'token 100/s burst 20': a burst of 20, then 100/s as tokens refill;
             without a burst, a burst of 100
  leaky      'leaky 100/s': at constant intervals of 10 ms; with a burst, that
             many in one burst
  sliding    'sliding 100/min': at most 100 in any minute
  segmented  'segmented 100/min': the same in less memory; tokens refill in
             portions
  fixed      'fixed 100/min': at most 100 in each minute since the start, so up
             to 199 in a minute that spans two
  aligned    'aligned 100/min': the same in each minute of the clock, UTC
  approximate
             'approximate 100/min': as many CDNs count, by two windows and the
             share of the older one that is still inside the minute

Files of requests (--targets), detected by extension and first character:
  vegeta     METHOD URL, headers, @FILE for the body; a blank line between
             requests
  http       as editors write them (.http, .rest): ### between requests, @name =
             value, {{name}}, < FILE for the body; its path is relative to FILE
  json       an object per line: method, url, header, and one of body (Base64),
             text, json and body_file
  - '# @weight 3' before a request, or \"weight\":3, sends it three times as often.
  - Each server has -c connections of its own. With -q, requests to a busy server
    do not delay those to others.
  - Headers and the body of the command line are added to requests without them.

The report:
  pacing     gap error: how far the gap between two sends is from the scheduled
             gap; the shortest gap; the most sends in any 100 ms and in any
             second
  lag        sent - scheduled time: how late this client was
  response   complete - scheduled time: what a user would have felt (corrected
             for coordinated omission)
  service    complete - sent: the server and the network
  limited    responses 429 and 503: the server limits the load; not errors
  seconds    for schedules whose rate changes: the number of seconds in which as
             many requests were sent as scheduled, plus or minus one
  verdict    RATE HELD if
             - every request was sent,
             - the mean rate is within 0.1 % of the target, if the rate is
               constant (first to last send), and
             - the 99th percentile of lag is at most one interval (the shortest
               one of the schedule) or 1 ms, whichever is longer.
             Otherwise RATE NOT HELD, with the reason.
             With --at-most or --limiter, RATE LIMIT KEPT if the sends never
             exceeded the limit, else RATE LIMIT NOT KEPT. For fixed and
             approximate windows this only checks that the limiter allowed each
             request before it was sent.
             TOO MANY ERRORS if the load was as requested, but more than
             --max-errors of the requests failed: responses 4xx and 5xx except
             429 and 503, and requests without a response.

A short run may be off the target by more than 0.1 %: by as much as its first and
its last request may be late.

Conditions (--fail-if) are METRIC>VALUE, with >, >=, < or <=. A condition on a
metric that was not measured counts as true. If the rate was not held, the exit
code is 4, and if too many requests failed, it is 5, whatever the conditions say.
A run stopped by Ctrl-C checks none.
  p50 p90 p95 p99 p99.9 p99.99 max mean
             of response: 50ms, 250us, 1.5s; service.p99 and lag.p99 too; others,
             such as p99.5, need --percentiles
  rate       as achieved: 990, 30/min
  err        responses 4xx and 5xx except 429 and 503, and requests without a
             response, as a share of the requests sent: 0.1%, or 0.001
  limited    responses 429 and 503, as such a share
  skipped    requests skipped by --late, as a share of those scheduled
  sent       the number of requests sent: 1000

With --compare, a value can be baseline, baseline+10%, baseline-5%, baseline+2ms:
the value of the earlier run, for p50 to p99.99, mean, err, limited and rate. For
err and limited, +1% are percentage points. The condition is only true if it is
certain: if the whole 95 % interval of the change is beyond the limit. Intervals
come from a bootstrap over about 25 blocks of time, not over single requests.

On a terminal, a live view shows the progress (NO_COLOR is respected). Elsewhere
nothing is printed until the report, unless you pass --progress. The report goes
to standard output, everything else to standard error.

",
    exit_codes!()
);

/// Send requests at an exact rate, or never above one, and report the result
///
/// Without a URL, requests go to a built-in test server on 127.0.0.1. Without a rate, they are sent as fast as possible.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Load {
    /// Send to this http:// or https:// URL [default: built-in test server]
    url: Option<String>,

    #[command(flatten)]
    profile: Profile,

    #[command(flatten)]
    part: Part,

    #[command(flatten)]
    cap: Cap,

    #[command(flatten)]
    request: Request,

    #[command(flatten)]
    urls: Urls,

    #[command(flatten)]
    targets: Targets,

    #[command(flatten)]
    connecting: Connecting,

    #[command(flatten)]
    output: Output,
}

impl Load {
    /// Returns the files that the run reads.
    fn inputs(&self) -> Vec<PathBuf> {
        let files = [
            self.profile.file(),
            self.urls.file(),
            self.output.compare.as_deref(),
        ];
        let files = files.into_iter().flatten();
        let files = files
            .chain(self.request.files())
            .chain(self.targets.files())
            .chain(self.connecting.certificates.files());
        files.map(Path::to_path_buf).collect()
    }
}

/// Runs the subcommand: plans the run, performs it, and reports.
pub(crate) fn run(load: Load) -> Exit {
    carry_out(load).unwrap_or_else(Refusal::say)
}

fn carry_out(mut load: Load) -> Result<Exit, Refusal> {
    // Lives until the report is printed.
    let mut origin = None;
    let inputs = load.inputs();
    input::one_stdin(&inputs)?;
    let percentiles = load.output.percentiles()?;
    let mut plan = plan(
        &mut origin,
        load.url,
        (load.profile, load.part),
        load.cap,
        (load.request, load.urls, load.targets),
        load.connecting,
    )?;
    plan.max_error_share = load.output.max_errors;
    plan.percentiles = percentiles;
    let baseline = baseline(&load.output, &plan)?;
    let mut reports = load.output.destinations().open(&inputs)?;
    provide_descriptors(&plan)?;
    let takes_stdout = reports.take_stdout();
    let log = reports.log.take().map(log).transpose()?;

    let stop = Stop::new();
    let subject = Subject {
        target: plan
            .targets
            .first()
            .map(Target::to_string)
            .unwrap_or_default(),
        pace: plan.pace.to_string(),
        has_rate: !matches!(plan.pace, Pace::Unpaced(_)),
    };
    let wants_view = !load.output.no_tui && !load.output.quiet;
    let mut watch = Watch::new(load.output.progress, wants_view, subject, &stop);
    let (ending, is_view) = (stop.clone(), watch.is_view());
    interrupt::listen(move || {
        // Print before the run, and with it the process, ends.
        if !is_view {
            complain(&STOPPING);
        }
        ending.stop();
    })?;

    if let Some(slice) = plan.slice
        && !load.output.quiet
    {
        let start_at = humantime::format_rfc3339_seconds(slice.start_at);
        complain(&format_args!("{slice} waits for its start at {start_at}"));
    }
    let mut push = push(&mut load.output)?;
    let tell = |progress: &Progress| {
        watch.tell(progress);
        if let Some(push) = &mut push {
            push.offer(progress);
        }
    };
    let result = match &log {
        Some(log) => flowgate_load::run_logged(plan, &stop, tell, log),
        None => flowgate_load::run_watched(plan, &stop, tell),
    };
    watch.end();
    if let Some(pushed) = push.map(OtlpPush::finish) {
        told(&pushed);
    }
    match result {
        Ok(mut report) => {
            report.provenance.command = Some(typed());
            let shown = !load.output.quiet && !takes_stdout;
            let compared = baseline.map(|baseline| {
                let comparison = RunComparison::of(&baseline, &report);
                (baseline, comparison)
            });
            conclude(&report, compared, reports, log, shown, &load.output)
        }
        Err(error) => {
            let refusal = Refusal::could_not_run(error.to_string());
            match stop.is_stopped() {
                true => {
                    refusal.say();
                    Ok(Exit::Interrupted)
                }
                false => Err(refusal),
            }
        }
    }
}

/// Returns the plan. Without a URL, starts the built-in test server.
fn plan(
    origin: &mut Option<Origin>,
    url: Option<String>,
    (profile, part): (Profile, Part),
    cap: Cap,
    (request, urls, files): (Request, Urls, Targets),
    connecting: Connecting,
) -> Result<Plan, Refusal> {
    let is_aimed = url.is_some() || urls.is_in_use() || files.is_in_use();
    if connecting.has_via() && !is_aimed {
        return Err(Refusal::usage(
            "--unix-socket and --connect-to need a URL, for the host and the path: write http://localhost/",
        ));
    }
    let pace = profile.pace(cap.limiter()?, is_aimed)?;
    let mut template = request.template()?;
    connecting.ask(&mut template);
    let mix = files.mix(&template)?;
    let parse = |url: &str| url::parse(url).map_err(Refusal::usage);
    let targets = match (urls.targets()?, &mix, &url) {
        (Some(targets), ..) => targets,
        (None, Some(mix), _) => mix.servers(),
        (None, None, Some(url)) => vec![parse(url)?],
        (None, None, None) => {
            let started = Origin::start().map_err(|error| {
                Refusal::could_not_run(format!("cannot start the built-in test server: {error}"))
            })?;
            vec![parse(&origin.insert(started).url())?]
        }
    };
    let Some(first) = targets.first() else {
        return Err(Refusal::usage(
            "no URL: write one such as http://127.0.0.1:8080/",
        ));
    };
    let late = profile.late(&pace);
    let mut plan = Plan::new(first.clone(), pace);
    plan.targets = targets;
    plan.mix = mix;
    plan.own_origin = !is_aimed;
    plan.late = late;
    plan.warm_up = profile.warm_up();
    part.apply(&mut plan)?;
    connecting.apply(&mut plan)?;
    plan.template = template;
    files.allow(&plan)?;
    Ok(plan)
}

/// Reads the earlier run, and checks that it can be compared.
fn baseline(output: &Output, plan: &Plan) -> Result<Option<Report>, Refusal> {
    let Some(path) = &output.compare else {
        return match output.fail_if.iter().find(|gate| gate.needs_baseline()) {
            None => Ok(None),
            Some(gate) => Err(Refusal::usage(format!(
                "--fail-if {}: write --compare baseline.json, too",
                gate.text()
            ))),
        };
    };
    let baseline = reports::read("--compare", path)?;
    let refuse = |why: String| {
        Err(Refusal::usage(format!(
            "--compare: {}: {why}",
            path.display()
        )))
    };
    if baseline.detail.blocks.is_empty() {
        return refuse("written by an older version: run it again".to_owned());
    }
    let asked = match plan.slice {
        None => plan.pace.to_string(),
        Some(slice) => format!("{}, {slice}", plan.pace),
    };
    if baseline.asked.text != asked {
        return refuse(format!(
            "was a run at {}, and this one is at {asked}: write the same rate",
            baseline.asked.text
        ));
    }
    Ok(Some(baseline))
}

/// Raises the limit of open files. A built-in test server has the other end of each connection in this process.
fn provide_descriptors(plan: &Plan) -> Result<(), Refusal> {
    let connections = count(plan.connections).min(plan.requests().unwrap_or(u64::MAX));
    // Of a mix, these are one of each server.
    let servers = match plan.mix {
        Some(_) => plan.targets.len() as u64,
        None => 1,
    };
    let connections = connections.saturating_mul(servers);
    let ends = if plan.own_origin { 2 } else { 1 };
    let threads = plan.threads.or_else(|| available_parallelism().ok());
    descriptors::provide(connections, ends, threads.map_or(1, count))
        .map_err(Refusal::could_not_run)
}

/// Returns what sends the progress to a collector, if one is given.
fn push(output: &mut Output) -> Result<Option<OtlpPush>, Refusal> {
    let Some(target) = output.otlp.take() else {
        return Ok(None);
    };
    let headers = std::mem::take(&mut output.otlp_header);
    let push = OtlpPush::new(target, headers, PUSH_LIMIT);
    push.map(Some)
        .map_err(|error| Refusal::could_not_run(format!("--otlp: {error}")))
}

/// Prints whether a collector did not get everything.
fn told(pushed: &Pushed) {
    let Pushed {
        sent,
        failed,
        skipped,
        failure,
    } = pushed;
    if let Some(failure) = failure {
        let all = sent + failed;
        complain(&format_args!(
            "--otlp: the collector did not take {failed} of {all} points: {failure}"
        ));
    }
    if *skipped > 0 {
        complain(&format_args!(
            "--otlp: {skipped} points were not sent, because the collector was too slow"
        ));
    }
}

/// Returns the log of requests to this destination.
fn log(sink: Sink) -> Result<RequestLog, Refusal> {
    let log = sink.stream().and_then(RequestLog::new);
    log.map_err(|error| Refusal::could_not_run(format!("--log: cannot write: {error}")))
}

/// Returns the command line without secrets.
fn typed() -> String {
    let arguments: Vec<_> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let load = Load::augment_args(clap::Command::new("load"));
    command_line::without_secrets(&arguments, &load)
}

/// Prints the report if it is to be `shown`, writes it to files, and returns the exit code.
fn conclude(
    report: &Report,
    compared: Option<(Report, RunComparison)>,
    reports: Reports,
    log: Option<RequestLog>,
    shown: bool,
    output: &Output,
) -> Result<Exit, Refusal> {
    if shown {
        print(report)?;
        if let (Some((_, comparison)), Some(path)) = (&compared, &output.compare) {
            print(&format_args!(
                "\ncompared with {}\n{comparison}",
                path.display()
            ))?;
        }
    }
    let checks = checks::conditions(
        report,
        compared.as_ref().map(|(baseline, _)| baseline),
        &output.fail_if,
    );
    // Writes all of them, and reports each failure.
    let mut is_written = true;
    let mut write = |written: Result<(), Refusal>| {
        if let Err(refusal) = written {
            refusal.say();
            is_written = false;
        }
    };
    if let Some(sink) = reports.json {
        write(sink.write(report.to_json()));
    }
    if let Some(sink) = reports.csv {
        write(sink.write(report.to_csv()));
    }
    if let Some(sink) = reports.html {
        write(sink.write(html::page(&[(&report.target, report)])));
    }
    if let Some(sink) = reports.junit {
        write(sink.write(checks::junit(report, &checks)));
    }
    if let Some(sink) = reports.summary {
        let comparison = compared.as_ref().map(|(_, comparison)| comparison);
        write(sink.write(checks::summary(report, comparison, &checks)));
    }
    if let Some(log) = log {
        match log.finish() {
            Ok(0) => {}
            Ok(lost) => complain(&format_args!(
                "--log: {lost} lines are missing, because they could not be written fast enough"
            )),
            Err(error) => write(Err(Refusal::could_not_run(format!(
                "--log: cannot write: {error}"
            )))),
        }
    }
    let exit = judge(report, &checks, output.quiet);
    Ok(match is_written {
        true => exit,
        false => Exit::CouldNotRun,
    })
}

/// Prints failures that the printed report does not contain, and returns the exit code.
fn judge(report: &Report, checks: &[Check], is_quiet: bool) -> Exit {
    if report.is_interrupted {
        if !checks.is_empty() {
            complain(&"--fail-if was not checked, because the run was stopped");
        }
        return Exit::Interrupted;
    }
    let failures: Vec<_> = checks.iter().filter_map(Check::failure).collect();
    for failure in &failures {
        complain(&format_args!("--fail-if {failure}"));
    }
    if !is_quiet {
        for note in checks.iter().filter_map(Check::note) {
            complain(&format_args!("passed: --fail-if {note}"));
        }
    }
    match report.verdict() {
        // Without the requested load, the other numbers mean little.
        verdict @ (Verdict::RateNotHeld(_)
        | Verdict::RateLimitNotKept(_)
        | Verdict::TooManyErrors(_)) => {
            if is_quiet {
                let causes: Vec<_> = verdict.causes().iter().map(ToString::to_string).collect();
                let words = verdict.to_string().to_lowercase();
                complain(&format_args!("{words}: {}", causes.join("; ")));
            }
            match verdict {
                Verdict::TooManyErrors(_) => Exit::ServerFailed,
                _ => Exit::RateMissed,
            }
        }
        _ if !failures.is_empty() => Exit::GateFailed,
        _ => Exit::Success,
    }
}

fn count(number: NonZeroUsize) -> u64 {
    u64::try_from(number.get()).unwrap_or(u64::MAX)
}
