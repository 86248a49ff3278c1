//! A primary, two replicas, and three sentinels.

use super::engine::{Engine, Place};
use super::{PATIENCE, until};
use flowgate_fleet::Fleet;
use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The name that the sentinels know the primary by.
pub const NAME: &str = "limits";

pub struct Replicated {
    /// At first, the others are replicas of the first.
    pub servers: Vec<Engine>,
    pub sentinels: Vec<Engine>,
}

impl Replicated {
    /// Starts all of them. With `min_replicas`, a primary without its replica stops after 2 s.
    pub fn start(min_replicas: bool) -> Self {
        Self::start_at([Place::here(), Place::here()], min_replicas)
    }

    /// The primary and one of the sentinels are at the first place.
    pub fn start_at(places: [Place; 2], min_replicas: bool) -> Self {
        let [first, second] = &places;
        let start =
            |place, settings: &[&str]| Engine::start_at(Path::new("redis-server"), place, settings);
        let least = if min_replicas { "1" } else { "0" };
        let settings = [
            "--min-replicas-to-write",
            least,
            "--min-replicas-max-lag",
            "2",
        ];
        let settings = [&settings[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let primary = start(first, &settings);
        let of = format!("{} {}", first.host, primary.port());
        let replica = || start(second, &[&settings[..], &["--replicaof", &of]].concat());
        let replicas = [replica(), replica()];
        until("a replica is not in step", || {
            let is_in_step = |replica: &Engine| {
                let state: String = replica.command("INFO replication").unwrap();
                state.contains("master_link_status:up")
            };
            replicas.iter().all(is_in_step)
        });
        let sentinels = [first, second, second].map(|place| sentinel(place, &of));
        let sentinels = sentinels.into();
        let mut servers = vec![primary];
        servers.extend(replicas);
        let replicated = Self { servers, sentinels };
        until("the sentinels have not found each other", || {
            replicated.sentinels.iter().all(|sentinel| {
                let fields = master(sentinel);
                let of = |name: &str| fields.get(name).map(String::as_str);
                of("num-slaves") == Some("2") && of("num-other-sentinels") == Some("2")
            })
        });
        replicated
    }

    pub fn fleets(&self, nodes: u32) -> Vec<Fleet> {
        let open = |_| {
            let sentinels = self.sentinels.iter().map(Engine::url);
            let fleet = Fleet::sentinel(sentinels, NAME).unwrap();
            fleet.nodes(nodes).open().unwrap()
        };
        (0..nodes).map(open).collect()
    }

    /// Waits until a replica is the primary, and returns it.
    pub fn promoted(&self) -> &Engine {
        let find = || {
            self.servers[1..].iter().find(|replica| {
                let state: redis::RedisResult<String> = replica.command("INFO replication");
                state.is_ok_and(|state| state.contains("role:master"))
            })
        };
        let patience = Instant::now() + PATIENCE;
        loop {
            if let Some(promoted) = find() {
                return promoted;
            }
            let log = || self.sentinels[0].log();
            assert!(
                Instant::now() < patience,
                "no replica is promoted:\n{}",
                log()
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the sentinels promote a replica of a primary that works.
    pub fn failover(&self) {
        until("no sentinel begins a failover", || {
            let begun = self.sentinels[0].command::<()>(&format!("SENTINEL FAILOVER {NAME}"));
            begun.is_ok()
        });
    }
}

fn sentinel(place: &Place, primary: &str) -> Engine {
    let text = format!(
        "sentinel monitor {NAME} {primary} 2\nsentinel down-after-milliseconds {NAME} 500\n\
         sentinel failover-timeout {NAME} 2000\n"
    );
    Engine::start_sentinel(place, &text)
}

fn master(sentinel: &Engine) -> HashMap<String, String> {
    let fields = sentinel.command(&format!("SENTINEL MASTER {NAME}"));
    fields.unwrap_or_default()
}
