//! A decision server that lends its limits: two programs lease one of them, and a client of HTTP asks for the same one.
//!
//! `cargo run -p flowgate-server --example leases`

use flowgate::{Clock, Quota};
use flowgate_fleet::{Fleet, FleetLeased, LocalStore, Overshoot};
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime, Door};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const LIMITS: &str =
    "{domain: api, descriptors: [{key: site, value: shop, quota: 20000/s burst 2000}]}";

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    // As `flowgate decide limits.yaml --store local`.
    let store = LocalStore::new(Clock::system()).align_to_wall();
    let config = Config::parse("limits.yaml", LIMITS)?;
    let time = DecisionTime::system();
    let limits = DecideLimits::in_store(&config, &time, &store.fleet().nodes(1).open()?)?;
    let mut server = DecideServer::new(limits);
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let grpc = server.listen(Door::Grpc, free)?;
    runtime.spawn(server.run(std::future::pending()));

    let quota: Quota = "20000/s burst 2000".parse()?;
    let program = || -> Result<FleetLeased, Box<dyn Error>> {
        let fleet = Fleet::server(&format!("http://{grpc}"))?.nodes(2).open()?;
        runtime.block_on(fleet.ready());
        let wrong = fleet.limit("api.site_shop", "5/s".parse()?).build();
        println!("with another quota: {}", wrong.unwrap_err());
        let shop = fleet.limit("api.site_shop", quota);
        Ok(shop.leased(Overshoot::percent(50)).build()?)
    };
    let programs = [program()?, program()?];
    let start = Instant::now();
    thread::scope(|scope| {
        for shop in &programs {
            scope.spawn(move || {
                while start.elapsed() < Duration::from_secs(1) {
                    let _ = shop.ask().block();
                }
            });
        }
    });
    let passed = start.elapsed();
    for shop in &programs {
        let counts = shop.inspect().counts;
        let calls = counts.calls_granted + counts.calls_denied;
        println!("a program: {} admitted in {calls} calls", counts.admitted);
    }
    let admitted: u64 = programs
        .iter()
        .map(|shop| shop.inspect().counts.admitted)
        .sum();
    let most = 2_000 + 1_000 + passed.as_millis() as u64 * 20;
    println!("together: {admitted} of at most {most}");
    Ok(())
}
