//! The protocol of Redis: redis-benchmark with 50 connections, with and without pipelines.

use std::path::Path;
use std::time::Duration;

use crate::clients::redis_benchmark;
use crate::lap::{self, Lap, Row, Subject};
use crate::paced;
use crate::process::{Cores, Server, free_port, pinned};
use crate::resp_paced;
use crate::rls::start;
use crate::serve::{Kind, LIMIT};
use crate::shared::outcome::Verdict;
use crate::store::Store;

const PING: &str = "Redis, PING";
const INCR: &str = "Redis, INCR";
const SCRIPT: &str = "Redis, a script of flowgate-fleet";
const OURS_PING: &str = "flowgate decide, PING";
const THROTTLE: &str = "flowgate decide, CL.THROTTLE";
const ASK: &str = "flowgate decide, FG.ASK";
const THROTTLECRAB: &str = "throttlecrab-server, THROTTLE";
pub const SUBJECTS: [&str; 7] = [PING, INCR, SCRIPT, OURS_PING, THROTTLE, ASK, THROTTLECRAB];

/// The door of RESP is the third.
const DOOR: u16 = 2;

/// The rows of both depths.
#[derive(Debug, Default)]
pub struct Measured {
    /// 16 commands arrive together.
    pub pipelined: Vec<Row>,
    /// Each command is answered before the next is sent.
    pub single: Vec<Row>,
    /// Of single commands, at half of the answers per second that it can give.
    pub p99: Option<Duration>,
}

/// Starts throttlecrab's server with one of its protocols.
///
/// # Errors
///
/// A message if `bench/setup.sh` has not installed it.
pub fn throttlecrab(program: &Path, cores: Cores, protocol: &str) -> Result<Server, String> {
    if !program.exists() {
        return Err(format!(
            "there is no {}: bench/setup.sh compiles it",
            program.display()
        ));
    }
    let port = free_port()?;
    let mut command = pinned(cores.server, &program.display().to_string());
    command.arg(format!("--{protocol}"));
    command.args([&format!("--{protocol}-host"), "127.0.0.1"]);
    command.args([&format!("--{protocol}-port"), &port.to_string()]);
    // One thread, as the others.
    command.env("TOKIO_WORKER_THREADS", "1");
    Server::start(command, port)
}

/// Measures all servers. throttlecrab is left out if it is not installed.
///
/// # Errors
///
/// A message if one fails, or there is no Redis.
pub fn measure(cores: Cores, quick: bool, peer: &Path) -> Result<Measured, String> {
    let redis = Store::start(cores.server)?;
    let flowgate = start(Kind::Flowgate, cores, None)?;
    let throttlecrab = throttlecrab(peer, cores, "redis");
    if let Err(why) = &throttlecrab {
        println!("\n{THROTTLECRAB}: left out, because {why}");
    }
    let script = load_script(&redis)?;
    let depth = |depth| {
        let subject = |name, server, door, words: Vec<String>| Subject {
            name,
            run: Box::new(move |window| run(server, door, cores, depth, &words, window)),
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let redis = &redis.0;
        let quota = format!("{LIMIT} {LIMIT} 1");
        let mut subjects = vec![
            subject(PING, redis, 0, words("PING")),
            subject(INCR, redis, 0, words("INCR key:__rand_int__")),
            subject(
                SCRIPT,
                redis,
                0,
                words(&format!(
                    "EVALSHA {script} 1 bucket:__rand_int__ 1000 1 {LIMIT} 0 0 1 1 1"
                )),
            ),
            subject(OURS_PING, &flowgate, DOOR, words("PING")),
            subject(
                THROTTLE,
                &flowgate,
                DOOR,
                words(&format!("CL.THROTTLE key:__rand_int__ {quota}")),
            ),
            subject(ASK, &flowgate, DOOR, words("FG.ASK users key:__rand_int__")),
        ];
        if let Ok(server) = &throttlecrab {
            let command = format!("THROTTLE key:__rand_int__ {quota}");
            subjects.push(subject(THROTTLECRAB, server, 0, words(&command)));
        }
        lap::measure(&subjects, quick)
    };
    let (pipelined, single) = (depth(16)?, depth(1)?);
    let most = single.iter().find(|row| row.subject == THROTTLE);
    let half = most.map_or(0.0, |row| row.per_second.p50 / 2.0);
    let mut address = flowgate.address();
    address.set_port(address.port() + DOOR);
    let command = format!("CL.THROTTLE key {LIMIT} {LIMIT} 1\r\n");
    let run = || {
        let window = paced::window(quick);
        resp_paced::run(address, cores.others, &command, half as u64, window)
    };
    Ok(Measured {
        pipelined,
        single,
        p99: paced::measure("resp", run),
    })
}

fn run(
    server: &Server,
    door: u16,
    cores: Cores,
    depth: u32,
    words: &[String],
    window: Duration,
) -> Result<Lap, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut address = server.address();
    address.set_port(address.port() + door);
    let ask = |count| redis_benchmark(address, cores.others, depth, count, &words);
    let trial = ask(10_000)?.per_second.unwrap_or_default();
    let count = (trial * window.as_secs_f64()).max(10_000.0) as u64;
    Lap::of(server, || ask(count))
}

/// Loads the script that `flowgate-fleet` sends, and returns its name.
fn load_script(redis: &Store) -> Result<String, String> {
    let text = include_str!("../../../crates/flowgate-fleet/src/script.lua");
    let load = || {
        let client = redis::Client::open(redis.url())?;
        let mut command = redis::cmd("SCRIPT");
        command
            .arg("LOAD")
            .arg(text)
            .query(&mut client.get_connection()?)
    };
    load().map_err(|error: redis::RedisError| format!("the store: {error}"))
}

pub fn verdicts(measured: &Measured) -> Vec<Verdict> {
    let over = |rows: &[Row], other: &str, value: fn(&Lap) -> f64| {
        let of = |name| rows.iter().find(|row| row.subject == name);
        Some(of(THROTTLE)?.over(of(other)?, value))
    };
    let Measured {
        pipelined,
        single,
        p99,
    } = measured;
    let goal = |rows: &[Row], other: &str, least, depth: u32| {
        let goal = format!("resp: CL.THROTTLE at least {least} x {other}, pipelines of {depth}");
        let over = over(rows, other, |lap| lap.per_cpu_second);
        Verdict::at_least(goal, over, least, " x")
    };
    // With a pipeline it mostly sleeps: what its clients get is less than its processor time would allow.
    let by_the_clock = Verdict::at_least(
        format!("resp: 20 x the answers in a second of {THROTTLECRAB}, pipelines of 16"),
        over(pipelined, THROTTLECRAB, |lap| lap.per_second),
        20.0,
        " x",
    );
    vec![
        goal(pipelined, PING, 0.7, 16),
        goal(pipelined, INCR, 1.0, 16),
        goal(pipelined, SCRIPT, 5.0, 16),
        by_the_clock,
        goal(single, PING, 0.9, 1),
        paced::verdict("resp", *p99),
    ]
}
