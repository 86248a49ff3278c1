//! What leases cost, and how fair they are, over seeds: `FLOWGATE_LEASER_SEEDS=20 cargo test --profile testrelease -p flowgate-fleet
//! --lib leaser::goals -- --nocapture` prints the worst of 20 as a table.

use super::trial::{Fleet, Node, Setting};
use crate::CutOff;
use crate::overshoot::Overshoot;
use std::time::Duration;

const RATE: f64 = 100_000.0;
const QUOTA: &str = "100000/s burst 10000";
const SECOND: Duration = Duration::from_secs(1);
/// How long a run lasts, after a second in which the burst is used up.
const LASTS: u32 = 4;

/// What all nodes together are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// So many times the rate, each node as much.
    Even(f64),
    /// Twice the rate, each second on another node.
    Moving,
}

/// What is measured: the worst of several seeds.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// What part of its requests the node with the largest part was admitted, over that of the node with the smallest.
    unfairness: f64,
    /// Units that were admitted, over calls.
    per_call: f64,
    /// Of what was offered, or of what flows in, if that is less.
    used: f64,
    /// Of the units that were admitted: after a call.
    waited: f64,
    /// Of the units that were leased.
    stranded: f64,
}

impl Measured {
    fn or(self, other: Self) -> Self {
        Self {
            unfairness: self.unfairness.max(other.unfairness),
            per_call: self.per_call.min(other.per_call),
            used: self.used.min(other.used),
            waited: self.waited.max(other.waited),
            stranded: self.stranded.max(other.stranded),
        }
    }
}

fn seeds() -> u64 {
    match std::env::var("FLOWGATE_LEASER_SEEDS") {
        Ok(seeds) => seeds.parse().expect("a number of seeds"),
        Err(_) => 1,
    }
}

fn measure(setting: Setting, load: Load) -> Measured {
    let nodes = setting.nodes as usize;
    let mut fleet = Fleet::new(QUOTA, setting);
    let offer = |i: usize, second: f64| match load {
        Load::Even(times) => times * RATE / nodes as f64,
        Load::Moving if i == second as usize % nodes => 2.0 * RATE,
        Load::Moving => 0.0,
    };
    fleet.run(SECOND, true, offer);
    let of = |fleet: &Fleet, of: fn(&Node) -> u64| fleet.nodes.iter().map(of).collect::<Vec<_>>();
    let [admitted, waited, offered] = [
        of(&fleet, |node| node.admitted),
        of(&fleet, |node| node.waited),
        of(&fleet, |node| node.offered),
    ];
    let calls = fleet.calls;
    fleet.run(LASTS * SECOND, true, |i, passed| offer(i, passed + 1.0));
    let since = |of: fn(&Node) -> u64, before: &[u64]| {
        let of = fleet.nodes.iter().map(of).zip(before);
        of.map(|(now, before)| (now - before) as f64).collect::<Vec<_>>()
    };
    let admitted = since(|node| node.admitted, &admitted);
    let sum = admitted.iter().sum::<f64>();
    let offered = since(|node| node.offered, &offered);
    // Nodes are offered the same, except for chance.
    let parts = admitted.iter().zip(&offered).map(|(admitted, offered)| admitted / offered);
    let most = parts.clone().fold(0.0, f64::max);
    let least = parts.fold(f64::MAX, f64::min);
    let offered = offered.iter().sum::<f64>();
    Measured {
        unfairness: most / least,
        per_call: sum / (fleet.calls - calls) as f64,
        used: sum / offered.min(f64::from(LASTS) * RATE),
        waited: since(|node| node.waited, &waited).iter().sum::<f64>() / sum,
        stranded: fleet.stranded(),
    }
}

fn worst(setting: Setting, load: Load) -> Measured {
    let runs = (1..=seeds()).map(|seed| measure(Setting { seed, ..setting }, load));
    runs.reduce(Measured::or).expect("a seed")
}

fn setting(nodes: u32, timeout_ms: u64) -> Setting {
    Setting {
        nodes,
        is_told: true,
        overshoot: Overshoot::percent(50),
        timeout_ms,
        cut_off: CutOff::Share(1, nodes),
        seed: 1,
    }
}

const LOADS: [Load; 7] = [
    Load::Even(0.1),
    Load::Even(0.5),
    Load::Even(0.9),
    Load::Even(1.0),
    Load::Even(2.0),
    Load::Even(10.0),
    Load::Moving,
];

fn chosen() -> Vec<u32> {
    match std::env::var("FLOWGATE_LEASER_NODES") {
        Ok(nodes) => nodes.split(',').map(|n| n.parse().expect("a number")).collect(),
        Err(_) => vec![2, 4, 8],
    }
}

#[test]
fn table() {
    for timeout_ms in [12, 50] {
        println!("timeout {timeout_ms} ms");
        println!("nodes load        fairness  per call    used  waited stranded");
        for nodes in chosen() {
            for load in LOADS {
                let m = worst(setting(nodes, timeout_ms), load);
                println!(
                    "{nodes:5} {:10} {:9.3} {:9.0} {:7.4} {:7.4} {:8.4}",
                    format!("{load:?}").trim_start_matches("Even"), m.unfairness, m.per_call, m.used, m.waited, m.stranded
                );
            }
        }
    }
}
