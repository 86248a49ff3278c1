//! `flowgate load`: send requests at a rate or under one, and report whether that was so.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::Args;
use flowgate_load::{Origin, Pace, Plan, Report, Stop, Target, Verdict, html};

use crate::argument::cap::Cap;
use crate::argument::connecting::Connecting;
use crate::argument::gate::Gate;
use crate::argument::output::Output;
use crate::argument::profile::Profile;
use crate::argument::request::{Request, Urls};
use crate::argument::url;
use crate::descriptors;
use crate::exit::{Exit, Refusal, complain, print};
use crate::interrupt;
use crate::reports::Reports;
use crate::watch::{Subject, Watch};

const EXPLANATION: &str = "\
Examples:
  flowgate load http://host/ -q 500 -z 30s -c 20 -H 'Authorization: Bearer …'
      Hold 500 requests per second, in all, for 30 s.
  flowgate load http://host/ --at-most 2/s -n 100
      Never closer than 500 ms: what is sent late moves those behind it.
  flowgate load http://host/ -q 100:5000 -z 60s --html report.html
      Evenly from 100 to 5000 per second, and a page with charts.
  flowgate load http://host/ -q 500 --fail-if 'p99>50ms' --fail-if 'err>0.1%'
      For a pipeline: the exit code says whether it was fast enough.
  flowgate load http://host/ -z 10s
      Without a rate: as fast as it goes, on 50 connections.

Holding a rate:
  Requests are sent when they are scheduled, whether or not earlier ones were
  answered. When all connections are busy they wait for one, and are sent late,
  unless --late says otherwise.

Limiters (--limiter), each with a rate:
  token      'token 100/s burst 20': 20 at once, then 100/s as room comes back;
             without a burst, 100 at once
  leaky      'leaky 100/s': evenly, 10 ms apart; with a burst, so many at once
  sliding    'sliding 100/min': at most 100 in any minute
  segmented  'segmented 100/min': the same in less memory; room comes back in
             portions
  fixed      'fixed 100/min': at most 100 in each minute since the start, so up
             to 199 in some minute across two
  approximate
             'approximate 100/min': as many CDNs count, by two windows and the
             share of the older one that is still in sight

The report:
  pacing     gap error: by how much the time between two sends differs from what
             was scheduled; the shortest such time; the most sends in any 100 ms and
             in any second
  lag        sent - scheduled: how late this client was
  response   answered - scheduled: what a user would have felt
  service    answered - sent: the server, and the way there
  limited    answers 429 and 503: the server limits the load; not errors
  verdict    HELD when every request was sent, the mean rate is within 0.1 % of
             the target (first to last send), and the 99th percentile of lag is
             at most one interval or 1 ms, whichever is longer; NOT HELD with
             the reason otherwise. A rate that changes, bursts, random times and
             a replay are HELD when every request was sent, with the same limit
             for lag; an interval is then the shortest asked for. UNDER when
             --at-most or --limiter was kept to; of fixed and approximate
             windows only that each request was sent when the limiter allowed it
  seconds    of these: in how many seconds as many were sent as were scheduled, give
             or take one

Conditions (--fail-if) are METRIC>VALUE, with >, >=, < or <=; what was not
measured fails:
  p50 p90 p99 p99.9 p99.99 max mean
             of response: 50ms, 250us, 1.5s; service.p99 and lag.p99 too
  rate       as achieved: 990, 30/min
  err        answers 4xx and 5xx but for 429 and 503, and requests without an
             answer, as a share of those sent: 0.1%, or 0.001
  limited    answers 429 and 503, as such a share
  skipped    requests left out by --late, as a share of all that were scheduled
  sent       how many: 1000

On a terminal a live view shows how it goes (NO_COLOR is respected). Elsewhere
nothing is said until the report, unless --progress asks for it. The report goes
to standard output, all else to standard error.

Exit codes:
  0    held, or stayed under, or no rate was asked for
  1    could not run, or not write a report
  2    bad arguments
  3    a condition of --fail-if was so
  4    not held, whatever the conditions say
  130  stopped by Ctrl-C or SIGTERM; the conditions are not looked at";

/// Send requests to a URL at an exact rate, or under one, and report how well that was kept to
///
/// Without a URL they go to a small server of its own on 127.0.0.1. Without a rate as many are sent as can be.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Load {
    /// Where to send: an http:// or https:// URL; without one, a server of its own
    url: Option<String>,

    #[command(flatten)]
    profile: Profile,

    #[command(flatten)]
    cap: Cap,

    #[command(flatten)]
    request: Request,

    #[command(flatten)]
    urls: Urls,

    #[command(flatten)]
    connecting: Connecting,

    #[command(flatten)]
    output: Output,
}

impl Load {
    /// The files that are read.
    fn inputs(&self) -> Vec<PathBuf> {
        let files = [
            self.profile.file(),
            self.request.file(),
            self.urls.file(),
            self.connecting.file(),
        ];
        files.into_iter().flatten().map(Path::to_path_buf).collect()
    }
}

/// Runs the verb: reads the plan, carries it out, reports.
pub(crate) fn run(load: Load) -> Exit {
    carry_out(load).unwrap_or_else(Refusal::say)
}

fn carry_out(mut load: Load) -> Result<Exit, Refusal> {
    // Lives until the report is printed.
    let mut origin = None;
    let inputs = load.inputs();
    let plan = plan(
        &mut origin,
        load.url,
        load.profile,
        load.cap,
        (load.request, load.urls),
        load.connecting,
    )?;
    let reports = load.output.destinations().open(&inputs)?;
    provide_descriptors(&plan)?;

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
    interrupt::listen(stop.clone(), !watch.is_view())
        .map_err(|error| Refusal::could_not_run(format!("cannot listen for Ctrl-C: {error}")))?;

    let result = flowgate_load::run_watched(plan, &stop, |progress| watch.tell(progress));
    watch.end();
    match result {
        Ok(report) => conclude(&report, reports, load.output.quiet, &load.output.fail_if),
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

/// What is to be done. Without a URL, the server that is started for it.
fn plan(
    origin: &mut Option<Origin>,
    url: Option<String>,
    profile: Profile,
    cap: Cap,
    (request, urls): (Request, Urls),
    connecting: Connecting,
) -> Result<Plan, Refusal> {
    let is_aimed = url.is_some() || urls.is_in_use();
    let pace = profile.pace(cap.limiter()?, is_aimed)?;
    let parse = |url: &str| url::parse(url).map_err(Refusal::usage);
    let targets = match (urls.targets()?, &url) {
        (Some(targets), _) => targets,
        (None, Some(url)) => vec![parse(url)?],
        (None, None) => {
            let started = Origin::start().map_err(|error| {
                Refusal::could_not_run(format!("cannot start a server of its own: {error}"))
            })?;
            vec![parse(&origin.insert(started).url())?]
        }
    };
    if connecting.certificates.insecure && !targets.iter().any(Target::is_tls) {
        complain(
            &"-k has no meaning without https://: connections are kept open anyway, and there is no certificate",
        );
    }
    let Some(first) = targets.first() else {
        return Err(Refusal::usage("where to? type a URL"));
    };
    let late = profile.late(&pace);
    let mut plan = Plan::new(first.clone(), pace);
    plan.targets = targets;
    plan.own_origin = !is_aimed;
    plan.late = late;
    connecting.apply(&mut plan)?;
    plan.template = request.template()?;
    Ok(plan)
}

/// As many open files as the connections take; those of a server of its own have their other end here.
fn provide_descriptors(plan: &Plan) -> Result<(), Refusal> {
    let connections = count(plan.connections).min(plan.pace.requests().unwrap_or(u64::MAX));
    let ends = if plan.own_origin { 2 } else { 1 };
    let threads = plan.threads.or_else(|| available_parallelism().ok());
    descriptors::provide(connections, ends, threads.map_or(1, count))
        .map_err(Refusal::could_not_run)
}

/// Prints the report, writes it to files, and judges it.
fn conclude(
    report: &Report,
    reports: Reports,
    is_quiet: bool,
    gates: &[Gate],
) -> Result<Exit, Refusal> {
    if !is_quiet && !reports.take_stdout() {
        print(report)?;
    }
    // All are tried; each that fails is said.
    let mut is_written = true;
    let mut write = |written: Result<(), Refusal>| {
        if let Err(refusal) = written {
            refusal.say();
            is_written = false;
        }
    };
    if let Some(sink) = reports.json {
        write(sink.write(&report.to_json()));
    }
    if let Some(sink) = reports.csv {
        write(sink.write(&report.to_csv()));
    }
    if let Some(sink) = reports.html {
        write(sink.write(&html::page(&[(&report.target, report)])));
    }
    let exit = judge(report, gates, is_quiet);
    Ok(match is_written {
        true => exit,
        false => Exit::CouldNotRun,
    })
}

/// Says what is wrong that no report says, or none that is printed.
fn judge(report: &Report, gates: &[Gate], is_quiet: bool) -> Exit {
    if report.is_interrupted {
        if !gates.is_empty() {
            complain(&"--fail-if was not looked at, as the run was interrupted");
        }
        return Exit::Interrupted;
    }
    let failures: Vec<_> = gates
        .iter()
        .filter_map(|gate| gate.failure(report))
        .collect();
    for failure in &failures {
        complain(&format_args!("--fail-if {failure}"));
    }
    match report.verdict() {
        // Other numbers say little where the load was not the one that was asked for.
        Verdict::NotHeld(causes) => {
            if is_quiet {
                let causes: Vec<_> = causes.iter().map(ToString::to_string).collect();
                complain(&format_args!("not held: {}", causes.join("; ")));
            }
            Exit::NotHeld
        }
        _ if !failures.is_empty() => Exit::GateFailed,
        _ => Exit::Success,
    }
}

fn count(number: NonZeroUsize) -> u64 {
    u64::try_from(number.get()).unwrap_or(u64::MAX)
}
