//! `flowgate serve`: a server guarded by a limiter, to try clients on.

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
use crate::exit::{Exit, Refusal};
use crate::interrupt::Interrupts;
use crate::serve::{Answering, Fault, Faults, Limit, MAX_CONNECTIONS, Page, Site, serve};

/// The longest page, in bytes.
const MAX_BODY: u64 = 16 << 20;

const EXPLANATION: &str = "\
Examples:
  flowgate serve --limiter 'token 100/s burst 20'
      And elsewhere: flowgate verify http://127.0.0.1:8080/
  flowgate serve --limiter 'sliding 100/s' --key-header X-Api-Key
      100 per second for each key.
  flowgate serve --limiter 'fixed 100/s' --fault late-reset=25%
      One that does not keep what it says. Does your client mind?

Limiters (--limiter):
  token       'token 100/s burst 20': a burst of 20, then 100/s
  leaky       'leaky 100/s': at constant intervals of 10 ms; refuses requests
              that come sooner
  sliding     'sliding 100/s': at most 100 in any second
  segmented   'segmented 100/s': the same in less memory
  fixed       'fixed 100/s': at most 100 in each window, which begins with the
              first request after the one before has ended
  aligned     'aligned 100/min': windows that begin at the full minute
  approximate 'approximate 100/s': two windows, the older one by the share of it
              that is still in sight
  queue       'queue 100/s burst 20': requests over the rate wait in FIFO order;
              of a burst of 20, the last is answered 190 ms later, and the 21st
              is refused
  concurrency 'concurrency 10': 10 concurrently; give it a --delay
  none        admits every request

Faults (--fault), several if they go together:
  race        looks whether there is room, and takes it 0.3 ms later
  late-reset=25%
              a fixed window lasts longer than it says
  early-retry-after=1s
              Retry-After and the other fields name a time that is too early
  nodes=2     connections go to two nodes in turn, each with a limit of its own
  error=1%    one in a hundred that is let through is answered 500
  drop=1%     one in a hundred that is let through gets no answer
  ban=50      after 50 refusals all is refused for a minute

Refusals tell when to come again: Retry-After, and by --fields
  draft       RateLimit-Policy and RateLimit, as the IETF's draft has them
  legacy      X-RateLimit-Limit, -Remaining and -Reset
  none        Retry-After alone

Ctrl-C ends it, with a line of what became of requests.

Exit codes:
  0    ended by Ctrl-C or SIGTERM
  1    could not listen
  2    bad arguments";

/// Serve a page behind a limiter, honest or with a fault on purpose, to try clients on
#[derive(Args, Debug)]
#[command(after_long_help = EXPLANATION)]
pub(crate) struct Serve {
    /// What guards the page: 'token 100/s burst 20', 'sliding 100/s', 'queue 100/s burst 20', …, none
    #[arg(long, value_name = "LIMITER", default_value = "token 100/s burst 20")]
    limiter: Limit,

    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr,

    /// Do something wrong: race, late-reset, early-retry-after, nodes, error, drop, ban; may be given several times
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,

    /// A limit for each value of this header
    #[arg(long, value_name = "NAME")]
    key_header: Option<HeaderName>,

    /// The status of a refusal
    #[arg(long, value_name = "STATUS", default_value = "429", value_parser = refusal)]
    status: StatusCode,

    /// Which fields tell how the limit stands
    #[arg(long, value_name = "FIELDS", default_value = "draft")]
    fields: Fields,

    /// How long the page takes
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    delay: Option<Duration>,

    /// How long the page is, in bytes
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

/// Runs the verb.
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
        .map_err(|error| could_not("begin", error))?;
    let listen = arguments.listen;
    let listener = runtime
        .block_on(TcpListener::bind(listen))
        .map_err(|error| could_not(&format!("listen on {listen}"), error))?;
    let address = listener
        .local_addr()
        .map_err(|error| could_not("listen", error))?;
    let interrupted = interrupted().map_err(|error| could_not("listen for Ctrl-C", error))?;
    // Whether or not anybody reads it.
    let _ = writeln!(
        stderr(),
        "listening on http://{address}/, {what}; Ctrl-C ends it"
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

/// Completes at Ctrl-C, or when asked to end in another way.
fn interrupted() -> std::io::Result<oneshot::Receiver<()>> {
    let mut interrupts = Interrupts::new()?;
    let (tell, told) = oneshot::channel();
    thread::Builder::new()
        .name("flowgate-ctrl-c".to_owned())
        .spawn(move || {
            interrupts.wait();
            // Nobody is there to be told when it has ended by itself.
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

/// `127.0.0.1:8080`, or a port alone, which is one of 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    let local = match text.strip_prefix("localhost:").unwrap_or(text) {
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    local.parse().map_err(|_| {
        "not an address and a port: type 127.0.0.1:8080, or 127.0.0.1:0 for a free one".to_owned()
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
        .ok_or_else(|| "not a status from 400 to 599: type 429 or 503".to_owned())
}
