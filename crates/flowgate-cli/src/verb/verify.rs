//! `flowgate verify`: ask a server until it is known what its rate limiter admits.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flowgate_load::verify::{
    Asking, HttpSubject, MAX_LANES, Neither, StatusRanges, VerifyError, to_json,
};
use flowgate_load::{Stop, Target, html};
use flowgate_verify::{Budget, Claim, Findings, Investigation, Phase, Progress, Verdict};
use hyper::header::{HeaderName, HeaderValue};

use crate::argument::connecting::Certificates;
use crate::argument::request::Request;
use crate::argument::{duration, output, url};
use crate::exit::{Exit, Refusal, complain, print};
use crate::reports::{Destinations, Reports};
use crate::{descriptors, figure, interrupt};

/// The most requests that one investigation may be allowed.
const MAX_REQUESTS: u64 = 10_000_000;
/// The most keys.
const MAX_KEYS: usize = 100;

const EXPLANATION: &str = "\
Examples:
  flowgate verify http://127.0.0.1:8080/
      Which kind of limiter is it, with which rate and burst?
  flowgate verify http://127.0.0.1:8080/ --expect '100/s burst 20'
      For a pipeline: exit code 3 if it is another, or admits more.
  flowgate verify https://api.example.com/ --own api.example.com --max-requests 2000
      A server of one's own elsewhere. Others' are none of your business.
  flowgate verify http://127.0.0.1:8080/ --key-header X-Api-Key=ann,bob
      Does Bob lose what Ann takes?
  flowgate serve --limiter 'sliding 100/s' --fault race
      Something to try it on.

What is asked, as far as it takes to know, and within the budget:
  hello       whether it answers at all
  burst       how many in one burst
  saturate    how many per second when asked for more
  steady      what becomes of even streams around the rate
  refill      how much comes back in how much time
  shape       which kind it is: across the boundary of a window, after a pause
  race        whether many at the same instant get more
  nodes       whether another connection has another limit
  keys        whether keys share one
  honesty     whether Retry-After and the RateLimit fields are true

Nobody else should use the limit meanwhile: what others take is missing here.
An answer with a status of --admitted was let through, one of --refused was not,
and all else, with requests that got no answer, has failed. A server that lets
--timeout pass three times over one connection is asked no more.

Expectations (--expect):
  '100/s burst 20'      at most 20 + 100 per second in any time
  'token 100/s burst 20', 'queue 100/s burst 20', 'fixed 100/s', 'sliding 100/s',
  'approximate 100/s'   the same, and of this kind

The report:
  looks like    the kind that explains the answers; others that explain them as
                well; rate and burst, and how far these may be off
  worst window  where most was admitted, compared with what is allowed
  Retry-After   whether coming back when told was soon enough: tried 50 times, or,
                beyond five times, for a quarter of --max-time
The time of an answer is known to lie between sending and the answer's head; more
is said to be admitted only where that is certain.

Exit codes:
  0    it is as expected, or nothing was expected
  1    could not ask, or not write a report
  2    bad arguments; among them a budget that is too small for what is expected
  3    it is not as expected
  4    too little could be seen to tell whether it is
  130  stopped by Ctrl-C or SIGTERM";

/// Ask a server until it is known what its rate limiter admits: kind, rate, burst, faults
///
/// Only servers on this machine, or such as are named with --own, are asked.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Verify {
    /// What to ask: an http:// or https:// URL behind the limiter
    url: String,

    /// What its limit should be: '100/s burst 20', 'sliding 100/s'; exit with 3 if it is not
    #[arg(long, value_name = "LIMIT")]
    expect: Option<Claim>,

    /// Send no more requests than this
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "20000",
        value_parser = clap::value_parser!(u64).range(1..=MAX_REQUESTS),
    )]
    max_requests: u64,

    /// Send nothing later than this; only the last answers may still be waited for
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    max_time: Duration,

    /// A host of one's own that is not this machine; may be given several times
    #[arg(long, value_name = "HOST")]
    own: Vec<String>,

    /// A header that tells clients apart, and its values: X-Api-Key=a,b,c
    #[arg(long, value_name = "NAME=VALUES", value_parser = keys)]
    key_header: Option<Keys>,

    /// Statuses of answers that were let through
    #[arg(long, value_name = "STATUSES", default_value = "200-299")]
    admitted: StatusRanges,

    /// Statuses of refusals
    #[arg(long, value_name = "STATUSES", default_value = "429,503")]
    refused: StatusRanges,

    #[command(flatten)]
    request: Request,

    #[command(flatten)]
    connecting: Connecting,

    #[command(flatten)]
    output: Output,
}

/// How requests get to the server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
struct Connecting {
    /// The most connections open concurrently
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        default_value = "32",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LANES)),
    )]
    connections: u32,

    /// How long one request may take before it has failed; a bare number is seconds
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s", value_parser = duration::or_seconds)]
    timeout: Duration,

    #[command(flatten)]
    certificates: Certificates,
}

/// Where the report goes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Write the report as JSON; - for standard output, and nothing else there
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    json: Option<PathBuf>,

    /// Write the report as a page with charts
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,

    /// Print no report and not how far it is, only what is wrong
    #[arg(long)]
    quiet: bool,
}

/// A header, and what it says for each key.
#[derive(Clone, Debug)]
struct Keys {
    name: HeaderName,
    values: Vec<HeaderValue>,
}

/// Runs the verb.
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
    let lanes = verify.connecting.connections;
    let mut investigation = Investigation::new()
        .keys(u32::try_from(keys).unwrap_or(u32::MAX))
        .lanes(lanes)
        .budget(budget);
    if let Some(claim) = verify.expect {
        investigation = investigation.claim(claim);
    }
    let outlook = outlook(&investigation, verify.expect, &budget)?;

    let mut asking = Asking::new(target.clone());
    asking.template = verify.request.template()?;
    asking.keys = verify.key_header.map(|keys| (keys.name, keys.values));
    asking.admitted = verify.admitted;
    asking.refused = verify.refused;
    asking.timeout = verify.connecting.timeout;
    asking.connect.timeout = verify.connecting.timeout;
    asking.connect.trust = verify.connecting.certificates.trust();

    let stop = Stop::new();
    let could_not = |error: VerifyError| Refusal::could_not_run(format!("{target}: {error}"));
    let mut subject = HttpSubject::new(asking, &stop).map_err(could_not)?;
    let is_own = |host: &String| host.trim().eq_ignore_ascii_case(target.host());
    if !subject.is_local() && !verify.own.iter().any(is_own) {
        let host = target.host();
        return Err(Refusal::usage(format!(
            "{host} is not this machine, and it would be asked for more than its limit; \
             if it is yours, add --own {host}"
        )));
    }
    let destinations = Destinations {
        json: verify.output.json,
        csv: None,
        html: verify.output.html,
    };
    let reports = destinations.open(&[])?;
    // A lane has a timer beside its connection.
    descriptors::provide(u64::from(lanes), 2, 1).map_err(Refusal::could_not_run)?;
    interrupt::listen(stop.clone(), false)
        .map_err(|error| Refusal::could_not_run(format!("cannot listen for Ctrl-C: {error}")))?;

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
            let exit = conclude(&target, &findings, reports, is_quiet);
            if let Some(unclear) = unclear(subject.neither()) {
                complain(&unclear);
            }
            exit
        }
        Err(VerifyError::Stopped) => {
            complain(&"stopped before anything was known");
            Ok(Exit::Interrupted)
        }
        Err(error) => Err(could_not(error)),
    }
}

/// What it will take, in a line.
///
/// # Errors
///
/// If the budget does not allow that: what to type.
fn outlook(
    investigation: &Investigation,
    claim: Option<Claim>,
    budget: &Budget,
) -> Result<String, Refusal> {
    let (Some(forecast), Some(claim)) = (investigation.forecast(), claim) else {
        return Ok(format!(
            "asks at most {} times, for at most {}",
            budget.requests,
            figure::span(budget.time)
        ));
    };
    if let Some(needs) = forecast.needs {
        return Err(Refusal::usage(too_little(claim, budget, &needs)));
    }
    let time = figure::span(forecast.time);
    Ok(format!(
        "asks about {} times, for about {time}, if it is as expected, and more if it tells Retry-After; at most {} times, for at most {}",
        forecast.requests,
        budget.requests,
        figure::span(budget.time)
    ))
}

/// What a verdict takes that `budget` does not allow, and what to type.
fn too_little(claim: Claim, budget: &Budget, needs: &Budget) -> String {
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
        "'{claim}' takes about {} to verify, and {}: type {}",
        takes.join(" and "),
        is.join(" and "),
        typed.join(" ")
    )
}

/// Says how far it is, a line for each phase.
#[derive(Default)]
struct Steps {
    last: Option<Phase>,
}

impl Steps {
    fn tell(&mut self, progress: Progress<'_>) {
        if self.last.replace(progress.phase) == Some(progress.phase) {
            return;
        }
        let guess = match progress.guess {
            Some(likeness) => format!("; looks like {likeness}"),
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
        Phase::Honesty => "honesty",
        _ => "more",
    }
}

/// Says something that is no complaint, on standard error.
fn tell(text: &str) {
    // Whether or not anybody reads it.
    let _ = writeln!(stderr(), "{text}");
}

/// Prints the report, writes it to files, and says what it comes to.
fn conclude(
    target: &Target,
    findings: &Findings,
    reports: Reports,
    is_quiet: bool,
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
        write(sink.write(&to_json(target, findings)));
    }
    if let Some(sink) = reports.html {
        write(sink.write(&html::limiter_page(target, findings)));
    }
    if !is_written {
        return Ok(Exit::CouldNotRun);
    }
    let verdict = findings.claim.as_ref().map(|judged| &judged.verdict);
    Ok(match verdict {
        None | Some(Verdict::Consistent) => Exit::Success,
        Some(Verdict::Differs(why)) => {
            for why in why {
                complain(&format_args!("--expect: {why}"));
            }
            Exit::GateFailed
        }
        Some(Verdict::Undecided(why)) => {
            complain(&format_args!("--expect could not be told: {why}"));
            Exit::Undecided
        }
    })
}

/// What came that was neither yes nor no, and what to do about it.
fn unclear(neither: &BTreeMap<Neither, u64>) -> Option<String> {
    let all: u64 = neither.values().sum();
    let each = neither
        .iter()
        .map(|(what, times)| format!("{what} ({times})"));
    let each = each.collect::<Vec<_>>().join(", ");
    let are_answers = neither
        .keys()
        .any(|what| matches!(what, Neither::Answer(_)));
    let advice = if are_answers {
        "; say what a status is with --admitted or --refused"
    } else {
        ""
    };
    (all > 0).then(|| format!("{all} got neither yes nor no: {each}{advice}"))
}

/// `X-Api-Key=a,b,c`.
fn keys(text: &str) -> Result<Keys, String> {
    let shape = || "not a header and its values: type X-Api-Key=ann,bob".to_owned();
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
        1 => Err("with one value there is nobody to tell apart: type X-Api-Key=ann,bob".to_owned()),
        2..=MAX_KEYS if (0..values.len()).any(is_twice) => {
            Err("a value is there twice: type X-Api-Key=ann,bob".to_owned())
        }
        2..=MAX_KEYS => Ok(Keys { name, values }),
        count => Err(format!("{count} values are more than {MAX_KEYS}")),
    }
}
