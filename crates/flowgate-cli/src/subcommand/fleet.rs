//! `flowgate fleet`: shows and resets limits that several processes share.

use std::future::Future;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use flowgate::Quota;
use flowgate_fleet::{FleetRecord, FleetStore, FleetStoreError, FleetWindow};
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::argument::duration;
use crate::exit::{Exit, Refusal, exit_codes, print};
use crate::figure::{span, time};
use crate::interrupt;
use crate::watch::Canvas;

/// How long the store may take for an answer.
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

",
    exit_codes!()
);

const OF_RESET: &str = concat!(
    "\
The limit is full for all processes, also for those that remember its debt. A
process that refuses without asking the store learns of it within a second.

",
    exit_codes!()
);

const OF_WATCH: &str = concat!(
    "\
On a terminal, a view on standard error is drawn once per second. Elsewhere, a
line is printed once per second. Nothing is written to the store.

",
    exit_codes!()
);

/// Show and reset limits that several processes share in Redis or Valkey
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
    #[arg(help = "The store: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]")]
    url: String,

    /// The name of the limit
    #[arg(value_name = "LIMIT")]
    name: String,

    /// The key, such as a tenant, of a limit for each key
    #[arg(
        long,
        value_name = "KEY",
        default_value = "",
        hide_default_value = true
    )]
    key: String,
}

/// Arguments about the output.
#[derive(Args, Debug)]
struct Shown {
    /// The limit's quota, such as '100/s burst 20', to show what is available
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
    let store = limit.connect().await?;
    let sight = limit.look(&store, shown.quota).await?;
    match shown.json {
        true => print(&format!("{}\n", sight.json(true))),
        false => print(&(sight.lines().join("\n") + "\n")),
    }
}

async fn reset(limit: &Limit) -> Result<(), Refusal> {
    let store = limit.connect().await?;
    let had_record = store.reset(&limit.name, limit.key.as_bytes()).await;
    let before = match had_record.map_err(refusal)? {
        true => "",
        false => " (it had no record: it was full, or no process has used it)",
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
    let store = limit.connect().await?;
    let begin = Instant::now();
    let mut canvas = if shown.json { None } else { Canvas::new() };
    loop {
        let sight = limit.look(&store, shown.quota).await?;
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

fn refusal(error: FleetStoreError) -> Refusal {
    match error {
        FleetStoreError::Address(_) => Refusal::usage(error.to_string()),
        _ => Refusal::could_not_run(error.to_string()),
    }
}

impl Limit {
    async fn connect(&self) -> Result<FleetStore, Refusal> {
        FleetStore::connect(&self.url, TIMEOUT)
            .await
            .map_err(refusal)
    }

    fn describe(&self) -> String {
        match self.key.as_str() {
            "" => self.name.clone(),
            key => format!("{}, key {key}", self.name),
        }
    }

    async fn look(&self, store: &FleetStore, quota: Option<Quota>) -> Result<Sight, Refusal> {
        let record = store.record(&self.name, self.key.as_bytes()).await;
        let record = record.map_err(refusal)?;
        // The record of a window has its limit.
        let is_window = |record: &&FleetRecord| record.window().is_some();
        let of_window = record.as_ref().filter(is_window);
        let quota = quota.or(of_window.and_then(FleetRecord::rate));
        let nodes = store.nodes().await;
        let seconds = |time: Duration| time.as_secs_f64();
        let has = record.as_ref();
        Ok(Sight {
            limit: self.describe(),
            record: FleetStore::record_name(&self.name, self.key.as_bytes()),
            written_s_ago: has.map(|record| seconds(record.age())),
            rate: has.and_then(FleetRecord::rate).map(|rate| rate.to_string()),
            window: has.and_then(FleetRecord::window).map(kind),
            debt: has.map_or(0.0, FleetRecord::debt),
            available: quota.map(|quota| match has {
                Some(record) => record.available(quota),
                None => units(quota),
            }),
            burst: quota.map(units),
            full_in_s: has.map_or(0.0, |record| seconds(record.full_in())),
            reset_s_ago: has.and_then(FleetRecord::reset_age).map(seconds),
            no_nodes: nodes.as_ref().err().map(FleetStoreError::to_string),
            nodes: nodes.ok().map(|nodes| {
                let node = nodes.into_iter().map(|node| Node {
                    address: node.address,
                    process: node.process,
                    connected_s: node.connected.as_secs(),
                    idle_s: node.idle.as_secs(),
                });
                node.collect()
            }),
        })
    }
}

/// How windows begin.
fn kind(window: FleetWindow) -> &'static str {
    match window.is_aligned {
        true => "aligned",
        false => "from its first admission",
    }
}

/// The units of a full limit.
fn units(quota: Quota) -> f64 {
    quota.max_burst() as f64 * quota.scale() as f64
}

/// The state of a limit in the store.
#[derive(Debug, Serialize)]
struct Sight {
    limit: String,
    record: String,
    /// `None`: there is no record.
    written_s_ago: Option<f64>,
    rate: Option<String>,
    /// `None`: it is a bucket, or there is no record.
    window: Option<&'static str>,
    debt: f64,
    available: Option<f64>,
    burst: Option<f64>,
    full_in_s: f64,
    reset_s_ago: Option<f64>,
    /// `None`: the store does not list them.
    nodes: Option<Vec<Node>>,
    #[serde(skip)]
    no_nodes: Option<String>,
}

#[derive(Debug, Serialize)]
struct Node {
    address: String,
    process: u32,
    connected_s: u64,
    idle_s: u64,
}

impl Sight {
    fn json(&self, is_pretty: bool) -> String {
        let text = match is_pretty {
            true => serde_json::to_string_pretty(self),
            false => serde_json::to_string(self),
        };
        text.expect("numbers and texts")
    }

    fn lines(&self) -> Vec<String> {
        let seconds = Duration::from_secs_f64;
        let mut lines = vec![format!("limit       {}", self.limit)];
        match self.written_s_ago {
            Some(ago) => {
                let ago = time(seconds(ago));
                let what = match self.window {
                    Some(_) => "its window began",
                    None => "written",
                };
                lines.push(format!("record      {}, {what} {ago} ago", self.record));
            }
            None => {
                lines.push(format!("record      none named {}:", self.record));
                lines.push("            full, or no process has used this limit".to_owned());
            }
        }
        match (&self.rate, self.window) {
            (Some(quota), Some(kind)) => lines.push(format!("window      {quota}, {kind}")),
            (Some(rate), None) => lines.push(format!("rate        {rate}")),
            (None, _) => {}
        }
        lines.push(format!("debt        {}", number(self.debt)));
        if let (Some(available), Some(burst)) = (self.available, self.burst) {
            let (available, burst) = (number(available), number(burst));
            lines.push(format!("available   {available} of {burst}"));
        }
        lines.push(match self.full_in_s {
            0.0 => "full        now".to_owned(),
            left => format!("full        in {}", time(seconds(left))),
        });
        if let Some(ago) = self.reset_s_ago {
            lines.push(format!("reset       {} ago", time(seconds(ago))));
        }
        match (&self.nodes, &self.no_nodes) {
            (Some(nodes), _) => {
                lines.push(format!("nodes       {} connected", nodes.len()));
                lines.extend(nodes.iter().map(Node::line));
            }
            (None, why) => lines.push(format!(
                "nodes       unknown: {}",
                why.as_deref().unwrap_or_default()
            )),
        }
        lines
    }

    /// One line of `watch`.
    fn line(&self, elapsed: Duration) -> String {
        let available = self
            .available
            .map(|units| format!(", available {}", number(units)));
        let nodes = self
            .nodes
            .as_ref()
            .map(|nodes| format!(", nodes {}", nodes.len()));
        format!(
            "{} {}: debt {}{}{}",
            span(elapsed),
            self.limit,
            number(self.debt),
            available.unwrap_or_default(),
            nodes.unwrap_or_default(),
        )
    }
}

impl Node {
    fn line(&self) -> String {
        let Self {
            address, process, ..
        } = self;
        let [connected, idle] = [self.connected_s, self.idle_s].map(Duration::from_secs);
        format!(
            "  {address}  process {process}, connected for {}, idle for {}",
            span(connected),
            span(idle)
        )
    }
}

/// With three digits after the point, if there are any.
fn number(units: f64) -> String {
    let text = format!("{units:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
