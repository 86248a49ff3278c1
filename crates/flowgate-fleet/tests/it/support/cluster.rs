//! A cluster of three primaries.

use super::engine::{Engine, free_port};
use super::until;
use flowgate_fleet::Fleet;
use std::path::Path;
use std::time::Duration;

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

pub struct Cluster {
    pub primaries: Vec<Engine>,
    /// In the order of their primaries; or none.
    pub replicas: Vec<Engine>,
}

impl Cluster {
    /// Starts a cluster. With replicas, each primary has one.
    pub fn start(has_replicas: bool) -> Self {
        let cluster = Self {
            primaries: (0..PRIMARIES).map(|_| node()).collect(),
            replicas: (0..if has_replicas { PRIMARIES } else { 0 })
                .map(|_| node())
                .collect(),
        };
        let share = SLOTS.div_ceil(PRIMARIES);
        for (at, primary) in cluster.primaries.iter().enumerate() {
            let slots: Vec<String> = (at * share..SLOTS.min((at + 1) * share))
                .map(|slot| slot.to_string())
                .collect();
            primary
                .command::<()>(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")))
                .unwrap();
            let epoch = format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1);
            primary.command::<()>(&epoch).unwrap();
        }
        let first = &cluster.primaries[0];
        for other in cluster.all().skip(1) {
            let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", other.port(), other.bus());
            first.command::<()>(&meet).unwrap();
        }
        let count = cluster.all().count();
        until("the servers have not met", || {
            cluster
                .all()
                .all(|one| nodes(one).lines().filter(|line| is_known(line)).count() == count)
        });
        for (replica, primary) in cluster.replicas.iter().zip(&cluster.primaries) {
            let id = id(primary);
            replica
                .command::<()>(&format!("CLUSTER REPLICATE {id}"))
                .unwrap();
        }
        until("the cluster is not complete", || {
            let is_ok = |one: &Engine| {
                one.command::<String>("CLUSTER INFO")
                    .unwrap()
                    .contains("cluster_state:ok")
            };
            let is_in_step = |replica: &Engine| {
                let state: String = replica.command("INFO replication").unwrap();
                state.contains("master_link_status:up")
            };
            cluster.all().all(is_ok) && cluster.replicas.iter().all(is_in_step)
        });
        cluster
    }

    fn all(&self) -> impl Iterator<Item = &Engine> {
        self.primaries.iter().chain(&self.replicas)
    }

    pub fn fleets(&self, nodes: u32, timeout: Duration) -> Vec<Fleet> {
        let open = |_| {
            let servers = self.all().map(Engine::url);
            let fleet = Fleet::cluster(servers).unwrap();
            fleet.nodes(nodes).timeout(timeout).open().unwrap()
        };
        (0..nodes).map(open).collect()
    }

    /// Waits until this replica is a primary.
    pub fn promoted(&self, replica: usize) {
        until("the replica is not promoted", || {
            let state: String = self.replicas[replica].command("INFO replication").unwrap();
            state.contains("role:master")
        });
    }

    /// Moves the slot of a record from one primary to another, and the record with it. `between` runs when the record has moved, and the
    /// slot has not.
    pub fn migrate(&self, record: &str, from: &Engine, to: &Engine, between: impl FnOnce()) {
        let slot: usize = from.command(&format!("CLUSTER KEYSLOT {record}")).unwrap();
        let [source, target] = [from, to].map(id);
        let set = |at: &Engine, what: &str| {
            let words = format!("CLUSTER SETSLOT {slot} {what}");
            at.command::<()>(&words).unwrap();
        };
        set(to, &format!("IMPORTING {source}"));
        set(from, &format!("MIGRATING {target}"));
        let words = format!("CLUSTER GETKEYSINSLOT {slot} 10");
        let records: Vec<String> = from.command(&words).unwrap();
        for record in records {
            let words = format!("MIGRATE 127.0.0.1 {} {record} 0 5000", to.port());
            from.command::<()>(&words).unwrap();
        }
        between();
        // The new one first: until the others have heard, they name the old one.
        set(to, &format!("NODE {target}"));
        for primary in &self.primaries {
            set(primary, &format!("NODE {target}"));
        }
    }
}

impl Engine {
    /// Returns the port of the cluster's bus.
    fn bus(&self) -> u16 {
        let text: Vec<String> = self.command("CONFIG GET cluster-port").unwrap();
        text[1].parse().unwrap()
    }
}

fn node() -> Engine {
    let bus = free_port().to_string();
    let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let failover = [
        "--cluster-node-timeout",
        "1000",
        "--cluster-replica-validity-factor",
        "0",
    ];
    let quick = [
        "--repl-diskless-sync-delay",
        "0",
        "--cluster-require-full-coverage",
        "no",
    ];
    Engine::start_program(
        Path::new("redis-server"),
        &[&settings[..], &failover, &quick].concat(),
    )
}

fn nodes(server: &Engine) -> String {
    server.command("CLUSTER NODES").unwrap()
}

fn is_known(line: &str) -> bool {
    line.contains(" connected") && !line.contains("handshake")
}

fn id(server: &Engine) -> String {
    server.command("CLUSTER MYID").unwrap()
}
