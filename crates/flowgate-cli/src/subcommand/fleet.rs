//! `flowgate fleet`: shows and resets limits that several processes share.

mod server;
mod store;

use std::future::Future;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use flowgate::Quota;
use flowgate_fleet::FleetStore;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::argument::duration;
use crate::exit::{Exit, Refusal, exit_codes, print};
use crate::interrupt;
use crate::watch::Canvas;
use server::Server;

/// How long the store or the server may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks of `watch`.
const INTERVAL: Duration = Duration::from_secs(1);

const EXPLANATION: &str = concat!(
    "\
Examples:
  flowgate fleet inspect redis://127.0.0.1 api --quota '100/s burst 20'
      Show what is available, and which processes are connected.
  flowgate fleet reset redis://127.0.0.1 tenant --key t-17
      Set the limit of one key back to full.
  flowgate fleet watch redis://127.0.0.1 api --for 1m
      Show the limit once per second, for a minute.
  flowgate fleet inspect http://127.0.0.1:6070 api.user --key alice
      Show a limit of `flowgate decide`, by the address of its --admin.

`flowgate fleet SUBCOMMAND --help` explains a subcommand.

",
    exit_codes!()
);

const OF_INSPECT: &str = concat!(
    "\
The store has a record of each limit that is not full:
  record     its name in the store, and when it was written
  rate       the rate that the last process stated
  window     of a limit of windows, in place of the rate: its quota
  debt       units that are missing until the limit is full; of a window, those
             that it has admitted
  available  the burst of --quota less the debt; negative after a larger burst
             was taken
  full       when the limit is full, if no process asks; when the window ends
  reset      when the limit was last reset
A limit without a record is full, or no process has used its name. The nodes are
the processes that are connected to the store, whatever limits they use. Nothing
is written.

Of a decision server, these are shown:
  quota      what its configuration allows
  kept       where the keys are: in its memory, in a store, or at Envoys
  decisions  since it began
  beyond     tokens that may have been admitted beyond the quota, at most
  assigned   tokens that Envoys hold (RLQS)
  available  what --key has left; in a store, by the last answer to the server

",
    exit_codes!()
);

const OF_RESET: &str = concat!(
    "\
The limit is full for all processes, also for those that remember its debt. A
process that refuses without asking the store learns of it within a second.

Of a decision server, a limit in its memory can be reset: from its own machine,
or with the token of --secret-file.

",
    exit_codes!()
);

const OF_WATCH: &str = concat!(
    "\
On a terminal, a view on standard error is drawn once per second. Elsewhere, a
line is printed once per second. Nothing is written.

",
    exit_codes!()
);

/// Show and reset limits in Redis or Valkey, or of `flowgate decide`
#[derive(Args, Debug)]
#[command(
    after_help = EXPLANATION,
    disable_help_subcommand = true,
    infer_subcommands = true
)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Show a limit, and which processes are connected
    #[command(after_long_help = OF_INSPECT)]
    Inspect(Inspect),
    /// Set a limit back to full
    #[command(after_long_help = OF_RESET)]
    Reset(Reset),
    /// Show a limit once per second
    #[command(after_long_help = OF_WATCH)]
    Watch(Watch),
}

#[derive(Args, Debug)]
struct Inspect {
    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    shown: Shown,
}

#[derive(Args, Debug)]
struct Reset {
    #[command(flatten)]
    limit: Limit,
}

#[derive(Args, Debug)]
struct Watch {
    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    shown: Shown,

    /// End after TIME [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    length: Option<Duration>,
}

/// Which limit.
#[derive(Args, Debug)]
struct Limit {
    #[arg(
        help = "The store: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]; or a decision server's --admin: http://[:TOKEN@]HOST[:PORT]"
    )]
    url: String,

    /// The name of the limit
    #[arg(value_name = "LIMIT")]
    name: String,

    /// The key, such as a tenant, of a limit for each key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Arguments about the output.
#[derive(Args, Debug)]
struct Shown {
    /// The quota of a limit in a store, such as '100/s burst 20', to show what is available
    #[arg(long, value_name = "QUOTA")]
    quota: Option<Quota>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(fleet: Fleet) -> Exit {
    let done = match fleet.task {
        Task::Inspect(Inspect { limit, shown }) => run_with(inspect(&limit, &shown)),
        Task::Reset(Reset { limit }) => run_with(reset(&limit)),
        Task::Watch(arguments) => watch(&arguments),
    };
    match done {
        Ok(()) => Exit::Success,
        Err(refusal) => refusal.say(),
    }
}

fn run_with(task: impl Future<Output = Result<(), Refusal>>) -> Result<(), Refusal> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::could_not_run(error.to_string()))?;
    runtime.block_on(task)
}

async fn inspect(limit: &Limit, shown: &Shown) -> Result<(), Refusal> {
    let place = limit.connect().await?;
    let sight = place.look(limit, shown.quota).await?;
    match shown.json {
        true => print(&format!("{}\n", sight.json(true))),
        false => print(&(sight.lines().join("\n") + "\n")),
    }
}

async fn reset(limit: &Limit) -> Result<(), Refusal> {
    let before = match limit.connect().await? {
        Place::Store(store) => match store::reset(&store, limit).await? {
            true => "",
            false => " (it had no record: it was full, or no process has used it)",
        },
        Place::Server(server) => match server.reset(limit).await? {
            true => " (it was full, or no request has used it)",
            false => "",
        },
    };
    print(&format!("{} is full again{before}\n", limit.describe()))
}

fn watch(arguments: &Watch) -> Result<(), Refusal> {
    let listening = interrupt::end_by(interrupt::Interrupts::wait);
    listening
        .map_err(|error| Refusal::could_not_run(format!("cannot listen for Ctrl-C: {error}")))?;
    run_with(show(arguments))
}

async fn show(arguments: &Watch) -> Result<(), Refusal> {
    let Watch {
        limit,
        shown,
        length,
    } = arguments;
    let place = limit.connect().await?;
    let begin = Instant::now();
    let mut canvas = if shown.json { None } else { Canvas::new() };
    loop {
        let sight = place.look(limit, shown.quota).await?;
        match &mut canvas {
            Some(canvas) => canvas.show(sight.lines()),
            None if shown.json => print(&format!("{}\n", sight.json(false)))?,
            None => print(&format!("{}\n", sight.line(begin.elapsed())))?,
        }
        let left = length.map(|length| length.saturating_sub(begin.elapsed()));
        if left.is_some_and(|left| left < INTERVAL) {
            sleep(left.unwrap_or_default()).await;
            return Ok(());
        }
        sleep(INTERVAL).await;
    }
}

impl Limit {
    async fn connect(&self) -> Result<Place, Refusal> {
        Ok(match Server::parse(&self.url)? {
            Some(server) => Place::Server(server),
            None => Place::Store(store::connect(&self.url).await?),
        })
    }

    fn describe(&self) -> String {
        match self.key_or_empty() {
            "" => self.name.clone(),
            key => format!("{}, key {key}", self.name),
        }
    }

    /// Returns the key. A limit without keys has the empty one.
    fn key_or_empty(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }
}

/// Where a limit is.
enum Place {
    Store(FleetStore),
    Server(Server),
}

impl Place {
    async fn look(&self, limit: &Limit, quota: Option<Quota>) -> Result<Box<dyn Sight>, Refusal> {
        Ok(match self {
            Place::Store(store) => Box::new(store::look(store, limit, quota).await?),
            Place::Server(_) if quota.is_some() => {
                return Err(Refusal::usage(
                    "--quota is for a store: a decision server knows the quota of its limits",
                ));
            }
            Place::Server(server) => Box::new(server.look(limit).await?),
        })
    }
}

/// The state of a limit.
trait Sight {
    fn json(&self, is_pretty: bool) -> String;
    /// Lines of `inspect`, and of a view.
    fn lines(&self) -> Vec<String>;
    /// One line of `watch`.
    fn line(&self, elapsed: Duration) -> String;
}

fn json(value: &impl Serialize, is_pretty: bool) -> String {
    let text = match is_pretty {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    text.expect("numbers and texts")
}

/// With three digits after the point, if there are any.
fn number(units: f64) -> String {
    let text = format!("{units:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
