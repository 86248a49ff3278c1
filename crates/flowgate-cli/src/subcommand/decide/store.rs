//! The store that several servers share.

use std::time::Duration;

use clap::Args;
use flowgate::Clock;
use flowgate_fleet::{Fleet, FleetBuilder, FleetError, LocalStore};
use tokio::time::timeout;

use super::log::Log;
use super::state::State;
use crate::argument::count;
use crate::argument::url::is_http;
use crate::exit::Refusal;

/// The most records of a store in this process.
const RECORDS: usize = 1_000_000;
/// The first connection usually takes less.
const FIRST: Duration = Duration::from_secs(2);

/// Arguments about the store.
#[derive(Args, Debug)]
pub(super) struct Store {
    #[arg(
        long,
        value_name = "URL",
        help = "Share the limits in this store: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], several times with --sentinel or --cluster; http://[:TOKEN@]HOST[:PORT], another decision server; or `local`, in this process, for others that lease"
    )]
    store: Vec<String>,

    /// Follow the primary of this name; the sentinels are at --store
    #[arg(
        long,
        value_name = "PRIMARY",
        requires = "store",
        conflicts_with = "cluster"
    )]
    sentinel: Option<String>,

    /// The servers at --store are a cluster's
    #[arg(long, requires = "store")]
    cluster: bool,

    /// How many servers share the store: each admits its part while the store is away
    #[arg(long, value_name = "N", requires = "store", value_parser = nodes)]
    nodes: Option<u32>,
}

/// A store that is open.
pub(super) struct Opened {
    pub(super) fleet: Fleet,
    /// `--store local`
    pub(super) local: Option<LocalStore>,
}

impl Opened {
    fn new(builder: FleetBuilder, local: Option<LocalStore>) -> Result<Option<Opened>, Refusal> {
        let fleet = builder.open().map_err(wrong)?;
        Ok(Some(Opened { fleet, local }))
    }
}

impl Store {
    /// Returns whether what was taken ends with this process, unless a file keeps it.
    pub(super) fn is_in_this_process(&self) -> bool {
        self.store.is_empty() || self.is_local()
    }

    fn is_local(&self) -> bool {
        matches!(&*self.store, [local] if local == "local")
    }

    /// Begins to connect. `None` if the limits are in memory. A store in this process goes on with `state`.
    pub(super) fn open(&self, state: Option<&State>) -> Result<Option<Opened>, Refusal> {
        let builder = match (&*self.store, &self.sentinel, self.cluster) {
            ([], ..) => return Ok(None),
            (sentinels, Some(primary), _) => Fleet::sentinel(sentinels, primary),
            (servers, None, true) => Fleet::cluster(servers),
            (_, None, false) if self.is_local() => return self.open_local(state),
            ([url], None, false) if is_http(url) => Fleet::server(url),
            ([url], None, false) => Fleet::redis(url),
            _ => {
                return Err(Refusal::usage(
                    "several --store need --sentinel PRIMARY, or --cluster",
                ));
            }
        };
        let builder = builder.map_err(wrong)?;
        let builder = match self.nodes {
            Some(nodes) => builder.nodes(nodes),
            None => builder,
        };
        Opened::new(builder, None)
    }

    fn open_local(&self, state: Option<&State>) -> Result<Option<Opened>, Refusal> {
        if self.nodes.is_some() {
            return Err(Refusal::usage(
                "--nodes is for a store that several servers share: remove it, or write --store redis://HOST",
            ));
        }
        let mut store = LocalStore::new(Clock::system()).align_to_wall();
        store = store.capacity(RECORDS);
        if let Some(state) = state {
            let damaged = || {
                Refusal::usage(format!(
                    "{}: the state is damaged, of another version, or of a server without --store local; remove it to begin with full limits",
                    state.file
                ))
            };
            let text = str::from_utf8(&state.bytes).map_err(|_| damaged())?;
            store = store.import(text).map_err(|_| damaged())?;
        }
        // No server shares it: this one has the whole of each limit.
        Opened::new(store.fleet().nodes(1), Some(store))
    }
}

fn nodes(text: &str) -> Result<u32, String> {
    let most = u32::MAX as usize;
    Ok(count::parse(text, most, 2)?.get() as u32)
}

fn wrong(error: FleetError) -> Refusal {
    match error {
        FleetError::Thread(_) => Refusal::could_not_run(error.to_string()),
        error => Refusal::usage(format!("--store: {error}")),
    }
}

/// Tells once if the store cannot be reached at the start. Metrics tell it later.
pub(super) async fn complain_if_away(fleet: Fleet, log: Log) {
    if timeout(FIRST, fleet.ready()).await.is_err() {
        log.complain(
            &"the store does not answer; until it does, limits are decided by --nodes and `when_cut_off`",
        );
    }
}
