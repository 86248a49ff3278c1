//! Tries the settings of a limit: processes share it through a store on a slow network, and a ledger checks every interval.
//!
//! ```text
//! cargo run --release -p flowgate-fleet --example own_settings -- 127.0.0.1:6379 '1000/s burst 500' 100 2
//! ```
//!
//! The arguments are the store, the quota, the overshoot in tokens (0: strict), and the delay of each message in milliseconds. It asks for a
//! key of its own, `own_settings`, and runs for 5 s. The store is not stopped, and no other record is touched.

use flowgate::Quota;
use flowgate_fleet::{Fleet, FleetKeyed, Overshoot};
use flowgate_testkit::allowance::Allowance;
use flowgate_testkit::ledger::Ledger;
use flowgate_testkit::proxy::Proxy;
use std::env;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

const NODES: u32 = 4;
const LASTS: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or(default.to_owned());
    let store = argument("127.0.0.1:6379").parse()?;
    let quota: Quota = argument("1000/s burst 500").parse()?;
    let overshoot: u64 = argument("100").parse()?;
    let delay = Duration::from_millis(argument("2").parse()?);

    let proxy = Proxy::to(store)?;
    let node = |_| -> Result<FleetKeyed, Box<dyn Error>> {
        let fleet = Fleet::redis(&format!("redis://{}", proxy.address()))?;
        let fleet = fleet.nodes(NODES).open()?;
        let limit = fleet.keyed("own_settings", quota);
        Ok(match overshoot {
            0 => limit.build()?,
            tokens => limit.leased(Overshoot::tokens(tokens)).build()?,
        })
    };
    let nodes = (0..NODES).map(node).collect::<Result<Vec<_>, _>>()?;
    // Connections are made before the network is slow.
    thread::sleep(Duration::from_millis(300));
    proxy.delay(delay);

    let (ledger, start) = (Ledger::new(), Instant::now());
    thread::scope(|scope| {
        for (at, node) in nodes.iter().enumerate() {
            let ledger = &ledger;
            scope.spawn(move || {
                while start.elapsed() < LASTS {
                    let is_alone = |admitted: &flowgate_fleet::Admitted| admitted.is_degraded();
                    let asked = ledger.note(at, 1, is_alone, || node.ask("").block());
                    if asked.is_err() {
                        thread::sleep(Duration::from_micros(500));
                    }
                }
            });
        }
    });

    let admissions = ledger.admissions();
    let alone = admissions.iter().filter(|one| one.is_alone).count();
    let counts = nodes.iter().map(|node| node.inspect().counts);
    let calls: u64 = counts
        .map(|one| one.calls_granted + one.calls_denied + one.calls_lost)
        .sum();
    let percent = 100 * admissions.len() as u64 / ledger.possible(quota);
    println!(
        "{} admitted, {percent} % of what was possible, {alone} of them alone, in {calls} calls",
        admissions.len()
    );
    let bound = nodes.iter().filter_map(|node| node.bound().total()).max();
    let allowance = Allowance::new(quota).plus(bound.unwrap_or(0));
    match ledger.tightest(quota, allowance) {
        Some(tightest) => println!(
            "the bound allows {} more than burst + rate × t; the closest interval: {tightest}",
            bound.unwrap_or(0)
        ),
        None => println!("nothing was admitted: is a store at {store}?"),
    }
    Ok(())
}
