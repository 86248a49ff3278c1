//! Stores, ways to them, and processes that use them.

mod cluster;
mod engine;
mod load;
mod replicated;
pub mod warnings;

pub use cluster::Cluster;
pub use engine::{Engine, Place, free_port};
pub use load::{Ledger, check_all};
pub use replicated::{NAME, Replicated};

use flowgate_fleet::Fleet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Returns how many calls of the script the store has carried out.
pub fn calls(engine: &Engine) -> u64 {
    let text: String = engine.command("INFO commandstats").unwrap();
    let stats = |line: &str| Some(line.strip_prefix("cmdstat_evalsha:calls=")?.to_owned());
    let Some(stats) = text.lines().find_map(stats) else {
        return 0;
    };
    stats.split(',').next().unwrap().parse().unwrap()
}

/// One process of four. A busy machine does not make it impatient.
pub fn fleet(engine: &Engine) -> Fleet {
    let fleet = Fleet::redis(&engine.url()).expect("an address");
    let fleet = fleet.nodes(4).timeout(Duration::from_secs(10));
    fleet.open().expect("a fleet")
}

/// Processes with the default time-out.
pub fn fleets(url: &str, nodes: u32) -> Vec<Fleet> {
    let open = |_| Fleet::redis(url).unwrap().nodes(nodes).open().unwrap();
    (0..nodes).map(open).collect()
}

/// Returns whether there was a connection, or an attempt, and there is no connection.
pub fn is_down(fleet: &Fleet) -> bool {
    format!("{fleet:?}").contains("Down")
}

/// Returns the servers that are here, with their names. `ci/engines.sh` brings some that Debian has not.
pub fn servers() -> Vec<(&'static str, PathBuf)> {
    let mut servers = vec![("Debian's Redis", PathBuf::from("redis-server"))];
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/engines");
    for (name, file) in [("Redis 6.2", "redis-6.2"), ("Valkey 9.1", "valkey-9.1")] {
        let program = target.join(file);
        if program.exists() {
            servers.push((name, program));
        } else {
            println!("{name} is not here: ci/engines.sh");
        }
    }
    servers
}

/// Longer than anything takes that a test waits for, on any machine. A sentinel that finds its machine too slow does nothing for 30 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until it is so.
pub fn until(why: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "{why}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns whether there is time for tests that take long.
pub fn is_long() -> bool {
    std::env::var_os("FLOWGATE_LONG").is_some()
}
