//! How fair leases are, what they cost and what they lose: in virtual time, the worst of several seeds.
//!
//! `FLOWGATE_LEASER_NODES=2,4,8,16,64 FLOWGATE_LEASER_SEEDS=20 cargo test --profile testrelease -p flowgate-fleet --lib leaser::goals --
//! --nocapture --test-threads 1` prints the tables, in some minutes.

use super::trial::{Fleet, Node, Setting};
use crate::CutOff;
use crate::overshoot::Overshoot;
use std::fmt;
use std::time::Duration;

const RATE: f64 = 100_000.0;
const QUOTA: &str = "100000/s burst 10000";
const SECOND: Duration = Duration::from_secs(1);
/// How long a run lasts, after a second in which the burst is used up.
const LASTS: u32 = 4;

/// What all nodes together are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    /// A multiple of the rate, each node as much.
    Even(f64),
    /// Twice the rate, each second on another node.
    Moving,
}

/// What came of a run, or the worst of several.
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
        of.map(|(now, before)| (now - before) as f64)
            .collect::<Vec<_>>()
    };
    let admitted = since(|node| node.admitted, &admitted);
    let sum = admitted.iter().sum::<f64>();
    let offered = since(|node| node.offered, &offered);
    // Nodes are offered the same, except for chance.
    let parts = admitted
        .iter()
        .zip(&offered)
        .map(|(admitted, offered)| admitted / offered);
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

fn setting(nodes: u32, timeout_ms: u64, overshoot: Overshoot) -> Setting {
    Setting {
        nodes,
        is_told: true,
        overshoot,
        timeout_ms,
        cut_off: CutOff::Share(1, nodes),
        latency: Duration::from_micros(200),
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

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even(times) => f.pad(&format!("{times} ×")),
            Self::Moving => f.pad("moves"),
        }
    }
}

/// The numbers of nodes.
fn nodes() -> Vec<u32> {
    let nodes = std::env::var("FLOWGATE_LEASER_NODES");
    let nodes = nodes.as_deref().unwrap_or("2,4,8,16").split(',');
    nodes.map(|nodes| nodes.parse().expect("numbers")).collect()
}

#[test]
fn equal_nodes_get_as_much_with_few_calls_and_little_is_lost() {
    // The length of a lease bounds what is held, or the number of its tokens does.
    for timeout_ms in [12, 50] {
        println!("timeout {timeout_ms} ms, worst of {} seeds", seeds());
        println!("nodes  load  unfairness  per call  utilization  waited  stranded");
        for nodes in nodes() {
            for load in LOADS {
                let Measured {
                    unfairness,
                    per_call,
                    used,
                    waited,
                    stranded,
                } = worst(setting(nodes, timeout_ms, Overshoot::percent(50)), load);
                println!(
                    "{nodes:5} {load:>6} {unfairness:10.3} {per_call:9.0} {used:12.4} {waited:8.4} {stranded:8.4}"
                );
                let (least_used, least_per_call) = match load {
                    Load::Even(times) if times < 1.0 => (0.995, 0.0),
                    Load::Even(1.0) => (0.99, 400.0),
                    Load::Even(_) => (0.99, 150.0),
                    Load::Moving => (0.95, 150.0),
                };
                assert!(used >= least_used);
                assert!(stranded <= 0.05);
                // In a shorter run, not each node may have had its turn.
                assert!(unfairness <= 1.1 || load == Load::Moving && nodes > LASTS);
                // More of them hold too little for that.
                assert!(per_call >= least_per_call || nodes > 8);
            }
        }
    }
}

#[test]
fn nodes_that_know_no_number_share_as_well() {
    for nodes in [2, 8, 16] {
        let setting = Setting {
            is_told: false,
            ..setting(nodes, 12, Overshoot::percent(50))
        };
        let Measured {
            unfairness,
            per_call,
            used,
            ..
        } = worst(setting, Load::Even(10.0));
        println!("{nodes} nodes: {unfairness:.3}, {per_call:.0} per call, {used:.4}");
        assert!(unfairness <= 1.2 && per_call >= 100.0 && used >= 0.99);
    }
}

/// Returns the calls per second of 8 nodes that are offered the limit, twice and ten times as much.
fn calls(overshoot: Overshoot) -> [f64; 3] {
    [1.0, 2.0, 10.0].map(|times| {
        let Measured {
            per_call,
            used,
            unfairness,
            ..
        } = worst(setting(8, 50, overshoot), Load::Even(times));
        assert!(used >= 0.99 && unfairness <= 1.1);
        RATE / per_call
    })
}

/// The table of the guide, `sharing.md`.
#[test]
fn a_larger_overshoot_costs_fewer_calls() {
    println!("overshoot   calls/s at 1 ×, 2 × and 10 × of {QUOTA}, by 8 nodes");
    let of = [5, 10, 20, 50, 100].map(|percent| {
        let calls = calls(Overshoot::percent(percent));
        println!("{percent:7} % {calls:8.0?}");
        calls
    });
    assert!(of.is_sorted_by(|less, more| less.iter().zip(more).all(|(less, more)| less > more)));
    let none = calls(Overshoot::none());
    println!("     none {none:8.0?}");
    assert!(
        none.iter()
            .zip(of[3])
            .all(|(none, half)| *none <= 1.1 * half)
    );
}

#[test]
fn a_store_that_is_far_away_costs_nothing_but_time() {
    for load in [Load::Even(0.9), Load::Even(1.0), Load::Even(2.0)] {
        let far = Setting {
            latency: Duration::from_millis(4),
            ..setting(8, 50, Overshoot::percent(50))
        };
        let Measured {
            unfairness,
            used,
            stranded,
            ..
        } = worst(far, load);
        println!("{load}: {unfairness:.3}, {used:.4}, {stranded:.4}");
        assert!(unfairness <= 1.1 && used >= 0.99 && stranded <= 0.05);
    }
}
