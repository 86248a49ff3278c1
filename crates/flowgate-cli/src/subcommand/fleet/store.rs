//! A limit in a store, by its record.

use std::time::Duration;

use flowgate::Quota;
use flowgate_fleet::{FleetRecord, FleetStore, FleetStoreError, FleetWindow};
use serde::Serialize;

use super::{Limit, Sight, TIMEOUT, json, number};
use crate::exit::Refusal;
use crate::figure::{span, time};

pub(super) async fn connect(url: &str) -> Result<FleetStore, Refusal> {
    let store = FleetStore::connect(url, TIMEOUT).await;
    store.map_err(refusal)
}

/// Sets the limit back to full. Returns whether it had a record.
pub(super) async fn reset(store: &FleetStore, limit: &Limit) -> Result<bool, Refusal> {
    let had_record = store
        .reset(&limit.name, limit.key_or_empty().as_bytes())
        .await;
    had_record.map_err(refusal)
}

fn refusal(error: FleetStoreError) -> Refusal {
    match error {
        FleetStoreError::Address(_) => Refusal::usage(error.to_string()),
        _ => Refusal::could_not_run(error.to_string()),
    }
}

/// Looks at the limit. `quota` is its quota, which the record of a bucket has not.
pub(super) async fn look(
    store: &FleetStore,
    limit: &Limit,
    quota: Option<Quota>,
) -> Result<Record, Refusal> {
    let record = store
        .record(&limit.name, limit.key_or_empty().as_bytes())
        .await;
    let record = record.map_err(refusal)?;
    // The record of a window has its limit.
    let is_window = |record: &&FleetRecord| record.window().is_some();
    let of_window = record.as_ref().filter(is_window);
    let quota = quota.or(of_window.and_then(FleetRecord::rate));
    let nodes = store.nodes().await;
    let seconds = |time: Duration| time.as_secs_f64();
    let has = record.as_ref();
    Ok(Record {
        limit: limit.describe(),
        record: FleetStore::record_name(&limit.name, limit.key_or_empty().as_bytes()),
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
pub(super) struct Record {
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

impl Sight for Record {
    fn json(&self, is_pretty: bool) -> String {
        json(self, is_pretty)
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
