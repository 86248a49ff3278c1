//! Three processes share a limit of 300 requests per second. The store is killed after two seconds, and is back after four.
//!
//! ```text
//! cargo run -p flowgate-fleet --example three_replicas
//! ```
//!
//! Each process sends about 200 requests per second. It needs `redis-server` (or `valkey-server`) on the path, and starts it on a free port
//! of this machine.

use flowgate_fleet::Fleet;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const NODES: usize = 3;
const TICK: Duration = Duration::from_millis(500);
const TICKS: usize = 12;
/// Before these ticks, the store is killed and started again.
const KILLED: usize = 4;
const BACK: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(url) => node(&url),
        None => fleet(),
    }
}

/// One of the processes. Prints a line for each tick: how many requests were admitted, and how many of them without the store. The last
/// line is how much the limit may have been exceeded.
fn node(url: &str) -> Result<(), Box<dyn Error>> {
    let fleet = Fleet::redis(url)?.nodes(NODES as u32).open()?;
    let limit = fleet.limit("api", "300/s burst 30".parse()?).build()?;
    let start = Instant::now();
    for tick in 1..=TICKS as u32 {
        let (mut admitted, mut degraded) = (0, 0);
        while start.elapsed() < tick * TICK {
            // 5 ms on average.
            thread::sleep(Duration::from_micros(fastrand::u64(0..10_000)));
            if let Ok(answer) = limit.ask().block() {
                admitted += 1;
                degraded += u32::from(answer.is_degraded());
            }
        }
        println!("{admitted} {degraded}");
    }
    let bound = limit.bound();
    let total = bound.total().ok_or("each process has a share")?;
    println!(
        "{total}: {} after losses of records, {} admitted alone here, {} by the others, {} in flight",
        bound.forgotten,
        bound.alone,
        bound.others_alone.unwrap_or_default(),
        bound.in_flight,
    );
    Ok(())
}

/// Starts the store and the processes, and adds up what they print.
fn fleet() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    drop(listener);
    let mut store = Store::start(port)?;
    let (mut nodes, mut lines) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(format!("redis://127.0.0.1:{port}"))
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        lines.push(output.lines());
        nodes.push(child);
    }

    println!(
        "Three processes send about 200 requests per second each. All together are allowed 300/s."
    );
    println!();
    println!("  time   node 1  node 2  node 3     all   of them without the store");
    for tick in 1..=TICKS {
        let (mut admitted, mut degraded) = ([0; NODES], 0);
        for (node, lines) in lines.iter_mut().enumerate() {
            let line = lines.next().ok_or("a node has ended")??;
            let (all, alone) = line.split_once(' ').ok_or("not a line of a node")?;
            admitted[node] += all.parse::<u32>()?;
            degraded += alone.parse::<u32>()?;
        }
        let [first, second, third] = admitted;
        let all: u32 = admitted.iter().sum();
        let time = (tick as u32 * TICK).as_secs_f64();
        println!("{time:>4.1} s {first:>8}{second:>8}{third:>8}{all:>8}{degraded:>8}");
        if tick == KILLED {
            println!("       the store is killed");
            store.kill();
        }
        if tick == BACK {
            println!("       the store is back, and empty");
            store = Store::start(port)?;
        }
    }
    println!();
    println!(
        "In no interval were they admitted more than 30 + 300/s and, as far as each can know:"
    );
    for (node, lines) in lines.iter_mut().enumerate() {
        let bound = lines.next().ok_or("a node has ended")??;
        println!("node {}: {bound}", node + 1);
    }
    for mut node in nodes {
        node.wait()?;
    }
    Ok(())
}

/// A server that keeps nothing on disk. It ends with this process.
struct Store(Child);

impl Store {
    fn start(port: u16) -> Result<Self, Box<dyn Error>> {
        let start = |program| {
            Command::new(program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no"])
                .current_dir(std::env::temp_dir())
                .stdout(Stdio::null())
                .spawn()
        };
        let store = start("redis-server").or_else(|_| start("valkey-server"));
        let store = store.map(Self).map_err(|error| {
            format!("neither redis-server nor valkey-server can be started: {error}")
        })?;
        let until = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > until {
                return Err("the store does not listen".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(store)
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
    }
}
