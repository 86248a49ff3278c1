//! A store, and a process that uses it.

mod engine;

pub use engine::Engine;
use flowgate_fleet::Fleet;
use std::time::Duration;

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
