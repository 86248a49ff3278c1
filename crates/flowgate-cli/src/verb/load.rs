//! `flowgate load`: hold a rate of requests, and report whether it was held.

use std::io::{IsTerminal, stderr};
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;
use flowgate_load::{MAX_CONNECTIONS, Origin, Plan, Report, Schedule, Stop, Target, Verdict};
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};

use crate::argument;
use crate::argument::profile::Profile;
use crate::exit::{Exit, complain, print};
use crate::interrupt;

const EXPLANATION: &str = "\
The report:
  lag        sent - due: how late this client was
  response   answered - due: what a user would have felt
  service    answered - sent: the server, and the way there
  limited    answers 429 and 503: the server limits the load; not counted as errors
  verdict    HELD when every request was sent, the mean rate is within 0.1 % of the target (first to
             last send), and the 99th percentile of lag is at most one interval or 1 ms, whichever
             is longer; NOT HELD with the reason otherwise. A rate that changes, bursts, random
             times and a replay are HELD when every request was sent, with the same limit for lag;
             an interval is then the shortest asked for
  seconds    of these: in how many seconds as many were sent as were due, give or take one

Requests are sent when they are due, whether or not earlier ones were answered. When all connections
are busy they wait for one, and are sent late.

Exit codes: 0 held, 1 could not run, 2 bad arguments, 4 not held, 130 stopped by Ctrl-C";

/// Send requests to a URL at an exact rate, and report how well it was held
///
/// Without a URL they go to a small server of its own on 127.0.0.1.
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Load {
    /// Where to send: an http:// URL; without one, a server of its own
    url: Option<String>,

    #[command(flatten)]
    profile: Box<Profile>,

    /// The most connections open at once
    #[arg(
        short = 'c',
        long,
        value_name = "COUNT",
        default_value = "50",
        value_parser = connections,
        allow_hyphen_values = true,
    )]
    connections: NonZeroUsize,

    /// How long one request may take
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        value_parser = argument::duration::parse,
        allow_hyphen_values = true,
    )]
    timeout: Duration,

    /// The request method
    #[arg(short = 'm', long, value_name = "METHOD", default_value = "GET", value_parser = method)]
    method: Method,

    /// A request header, 'Name: value'; may be given several times
    #[arg(
        short = 'H',
        long = "header",
        value_name = "HEADER",
        value_parser = argument::header::parse,
    )]
    headers: Vec<(HeaderName, HeaderValue)>,

    /// The request body
    #[arg(
        short = 'd',
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    body: String,
}

/// Runs the verb: reads the plan, holds the rate, prints the report.
pub(crate) fn run(load: Load) -> Exit {
    let schedule = match load.profile.schedule() {
        Ok(schedule) => schedule,
        Err((message, exit)) => return refuse(&message, exit),
    };
    // Lives until the report is printed.
    let mut origin = None;
    let target = match &load.url {
        Some(url) => Target::parse(url),
        None => match Origin::start() {
            Ok(started) => Target::parse(&origin.insert(started).url()),
            Err(error) => {
                return refuse(
                    &format!("cannot start a server of its own: {error}"),
                    Exit::CouldNotRun,
                );
            }
        },
    };
    let target = match target {
        Ok(target) => target,
        // Nothing is wrong with the argument; it is just more than we can do.
        Err(error) if error.needs_tls() => return refuse(&error.to_string(), Exit::CouldNotRun),
        Err(error) => return refuse(&error.to_string(), Exit::Usage),
    };

    let stop = Stop::new();
    if let Err(error) = interrupt::listen(stop.clone()) {
        return refuse(
            &format!("cannot listen for Ctrl-C: {error}"),
            Exit::CouldNotRun,
        );
    }
    announce(&target, &schedule);
    match flowgate_load::run(load.plan(target, schedule), &stop) {
        Ok(report) => {
            print(&report);
            exit_of(&report)
        }
        Err(error) => {
            let exit = if stop.is_stopped() {
                Exit::Interrupted
            } else {
                Exit::CouldNotRun
            };
            refuse(&error.to_string(), exit)
        }
    }
}

impl Load {
    fn plan(self, target: Target, schedule: Schedule) -> Plan {
        let mut plan = Plan::new(target, schedule);
        plan.own_origin = self.url.is_none();
        plan.connections = self.connections;
        plan.timeout = self.timeout;
        plan.template.method = self.method;
        plan.template.headers = self.headers;
        plan.template.body = self.body.into();
        plan
    }
}

/// Says what is happening, to someone who watches.
fn announce(target: &Target, schedule: &Schedule) {
    if stderr().is_terminal() {
        let span = humantime::format_duration(Duration::from_secs(schedule.span().as_secs() + 1));
        eprintln!(
            "Sending {} requests at {schedule} to {target} in about {span}. \
             Ctrl-C stops early and still reports.\n",
            schedule.len(),
        );
    }
}

fn exit_of(report: &Report) -> Exit {
    match report.verdict() {
        _ if report.is_interrupted => Exit::Interrupted,
        Verdict::Held => Exit::Success,
        Verdict::NotHeld(_) => Exit::NotHeld,
    }
}

fn refuse(message: &str, exit: Exit) -> Exit {
    complain(&message);
    exit
}

fn connections(text: &str) -> Result<NonZeroUsize, String> {
    match text.trim().parse::<usize>() {
        Ok(count) if count <= MAX_CONNECTIONS => NonZeroUsize::new(count),
        _ => None,
    }
    .ok_or_else(|| format!("not a whole number from 1 to {MAX_CONNECTIONS}: type 50"))
}

fn method(text: &str) -> Result<Method, String> {
    // Methods are case-sensitive, but nobody means `get`.
    let upper = text.trim().to_ascii_uppercase();
    match upper.parse() {
        Ok(Method::CONNECT) | Err(_) => {
            Err("not a request method that can be sent: type GET, POST, PUT, …".to_owned())
        }
        Ok(method) => Ok(method),
    }
}
