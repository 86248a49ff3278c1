//! `flowgate serve`: a server with a rate limiter, for testing clients.

use std::io::{Write, stderr};
use std::net::SocketAddr;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use flowgate_tower::{Headers, Reset};
use hyper::StatusCode;
use hyper::header::HeaderName;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::argument::duration;
use crate::descriptors;
use crate::exit::{Exit, Refusal, exit_codes};
use crate::interrupt::Interrupts;
use crate::serve::{Answering, Fault, Faults, Limit, MAX_CONNECTIONS, Page, Site, serve};

/// Maximum size of the page, in bytes.
const MAX_BODY: u64 = 16 << 20;

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate serve --limiter 'token 100/s burst 20'
      In another terminal: flowgate verify http://127.0.0.1:8080/
  flowgate serve --limiter 'sliding 100/s' --key-header X-Api-Key
      Allow 100 per second for each API key.
  flowgate serve --limiter 'fixed 100/s' --fault late-reset=25%
      Test how a client copes with inaccurate headers.

Limiters (--limiter):
  token       'token 100/s burst 20': a burst of 20, then 100/s
  leaky       'leaky 100/s': at constant intervals of 10 ms; refuses requests
              that come sooner
  sliding     'sliding 100/s': at most 100 in any second
  segmented   'segmented 100/s': the same in less memory
  fixed       'fixed 100/s': at most 100 in each window; a window begins with
              the first request after the previous one has ended
  aligned     'aligned 100/min': fixed windows that begin at the full minute
  approximate 'approximate 100/s': two counters; the previous window counts in
              proportion to its overlap
  queue       'queue 100/s burst 20': requests over the rate wait in FIFO order;
              of a burst of 20, the last is answered after 190 ms, and the 21st
              is refused
  concurrency 'concurrency 10': at most 10 requests in flight; add a --delay
  none        admits every request

Injected faults (--fault), which can be combined:
  race        check for a token, and take it 0.3 ms later
  late-reset=25%
              make a fixed window 25 % longer than its headers report
  early-retry-after=1s
              report a Retry-After that is 1 s too short
  nodes=2     distribute connections over two nodes with separate limits
  error=1%    respond to 1 % of the admitted requests with 500
  drop=1%     close the connection of 1 % of the admitted requests
  ban=50      after 50 refusals, refuse everything for one minute

Headers of a refusal: Retry-After, and by --fields
  draft       RateLimit-Policy and RateLimit of the IETF draft
  legacy      X-RateLimit-Limit, -Remaining and -Reset
  none        Retry-After only

Ctrl-C ends the server, and prints how many requests were admitted, refused and
dropped.

",
    exit_codes!()
);

/// Serve a page behind a rate limiter, optionally with injected faults
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Serve {
    /// Guard the page with this limiter: 'token 100/s burst 20', …, none
    #[arg(long, value_name = "LIMITER", default_value = "token 100/s burst 20")]
    limiter: Limit,

    /// Listen on this address; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr,

    /// Inject a fault: race, late-reset, early-retry-after, nodes, error, drop, ban; repeatable
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,

    /// Use a separate limit for each value of this header
    #[arg(long, value_name = "NAME")]
    key_header: Option<HeaderName>,

    /// Refuse with this status, 400 to 599
    #[arg(long, value_name = "STATUS", default_value = "429", value_parser = refusal)]
    status: StatusCode,

    /// Describe the limit in these headers
    #[arg(long, value_name = "FIELDS", default_value = "draft")]
    fields: Fields,

    /// Respond after TIME [default: immediately]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    delay: Option<Duration>,

    /// Respond with BYTES bytes, 0 to 16777216
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "2",
        value_parser = clap::value_parser!(u64).range(..=MAX_BODY),
    )]
    body: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Fields {
    Draft,
    Legacy,
    None,
}

/// Runs the subcommand.
pub(crate) fn run(serve: Serve) -> Exit {
    match answer_until_interrupted(serve) {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}

fn answer_until_interrupted(arguments: Serve) -> Result<(), Refusal> {
    let limit = arguments.limiter;
    let faults = Faults::of(&arguments.fault, &limit).map_err(Refusal::usage)?;
    let what = describe(&limit, &arguments.fault, arguments.key_header.as_ref());
    let delay = arguments.delay.unwrap_or_default();
    let page = Page::new(arguments.body as usize, delay, &faults);
    let answering = Answering {
        refusal: arguments.status,
        fields: arguments.fields.into(),
    };
    let site = Rc::new(Site::new(
        limit,
        faults,
        answering,
        page,
        arguments.key_header,
    ));
    let places = descriptors::provide_up_to(MAX_CONNECTIONS).map_err(Refusal::could_not_run)?;

    let could_not = |what: &str, error| Refusal::could_not_run(format!("cannot {what}: {error}"));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| could_not("start", error))?;
    let listen = arguments.listen;
    let listener = runtime
        .block_on(TcpListener::bind(listen))
        .map_err(|error| could_not(&format!("listen on {listen}"), error))?;
    let address = listener
        .local_addr()
        .map_err(|error| could_not("listen", error))?;
    let interrupted = interrupted().map_err(|error| could_not("listen for Ctrl-C", error))?;
    // A closed standard error is not a failure.
    let _ = writeln!(
        stderr(),
        "listening on http://{address}/, {what}; Ctrl-C ends the server"
    );
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            () = serve(listener, site.clone(), places) => {}
            _ = interrupted => {}
        }
    });
    let counts = site.counts();
    let _ = writeln!(
        stderr(),
        "admitted {}, refused {}, dropped {}",
        counts.admitted,
        counts.refused,
        counts.dropped,
    );
    Ok(())
}

/// Completes on Ctrl-C or SIGTERM.
fn interrupted() -> std::io::Result<oneshot::Receiver<()>> {
    let mut interrupts = Interrupts::new()?;
    let (tell, told) = oneshot::channel();
    thread::Builder::new()
        .name("flowgate-ctrl-c".to_owned())
        .spawn(move || {
            interrupts.wait();
            // The receiver is gone if the server has already ended.
            let _ = tell.send(());
        })?;
    Ok(told)
}

fn describe(limit: &Limit, faults: &[Fault], key: Option<&HeaderName>) -> String {
    let mut text = limit.to_string();
    if let Some(key) = key {
        text += &format!(" for each {key}");
    }
    for (index, fault) in faults.iter().enumerate() {
        text += if index == 0 { ", with " } else { " and " };
        text += &fault.to_string();
    }
    text
}

impl From<Fields> for Headers {
    fn from(fields: Fields) -> Headers {
        match fields {
            Fields::Draft => Headers::draft(),
            Fields::Legacy => Headers::legacy(Reset::Delay),
            Fields::None => Headers::none(),
        }
    }
}

/// Parses `127.0.0.1:8080`, or a port of 127.0.0.1.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let local = match text.strip_prefix("localhost:").unwrap_or(text) {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    local.parse().map_err(|_| {
        "not an address with a port: write 127.0.0.1:8080, or 127.0.0.1:0 for a free port"
            .to_owned()
    })
}

fn refusal(text: &str) -> Result<StatusCode, String> {
    let status = text
        .trim()
        .parse()
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    status
        .filter(|status| status.is_client_error() || status.is_server_error())
        .ok_or_else(|| "not a status from 400 to 599: write 429 or 503".to_owned())
}
