//! Compares the decision server with other servers. See ../README.md.
//!
//! - [`rls`]: Envoy's question over gRPC
//! - [`resp`]: the protocol of Redis
//! - [`http`]: HTTP/1.1 with JSON
//!
//! Each server is a process of its own on one core, and its clients are on another one.

mod clients;
mod http;
mod lap;
mod messages;
mod paced;
mod process;
mod resp;
mod resp_paced;
mod rls;
mod serve;
mod shared;
mod store;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::lap::{Row, disturbance, table};
use crate::process::Cores;
use crate::serve::Kind;
use crate::shared::machine::Machine;
use crate::shared::options::Options;
use crate::shared::outcome::Verdict;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-decide",
    about = "Compares the decision server with other servers on one core, over gRPC, the protocol of Redis, and HTTP"
)]
struct Arguments {
    /// What to measure [default: all]
    sections: Vec<Section>,
    /// throttlecrab's server, as bench/setup.sh compiles it
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/tools/bin/throttlecrab-server"
    )]
    throttlecrab: PathBuf,
    #[command(flatten)]
    options: Options,
    /// Be one of the servers instead
    #[arg(long, value_name = "KIND", requires = "port", hide = true)]
    serve: Option<Kind>,
    #[arg(long, hide = true)]
    port: Option<u16>,
    #[arg(long, hide = true)]
    store: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Envoy's question over gRPC
    Rls,
    /// The protocol of Redis
    Resp,
    /// HTTP/1.1 with JSON
    Http,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    rls: Vec<Row>,
    rls_p99_ms: Option<f64>,
    resp_pipelined: Vec<Row>,
    resp_single: Vec<Row>,
    resp_p99_ms: Option<f64>,
    http: Vec<Row>,
    http_p99_ms: Option<f64>,
    goals: Vec<Verdict>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (arguments.serve, arguments.port) {
        (Some(kind), Some(port)) => serve::run(kind, port, arguments.store.as_deref()),
        _ => run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-decide: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints tables and goals, and writes them where the options say.
///
/// # Errors
///
/// A message if the options cannot be followed, or a server fails while it is measured.
fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments {
        sections,
        options,
        throttlecrab: peer,
        ..
    } = arguments;
    let (quick, only) = (options.quick, options.only.as_deref());
    options.check_only(&[&rls::SUBJECTS[..], &resp::SUBJECTS, &http::SUBJECTS].concat())?;
    let destination = options.destination()?;
    // With `--only`, each section that has such a subject: all of its subjects are divided by each other.
    let is_asked = |section, subjects: &[&str]| {
        let is_named = only.is_none_or(|only| subjects.iter().any(|name| name.contains(only)));
        is_named && (sections.is_empty() || sections.contains(&section))
    };
    let cores = Cores::two()?;
    let folder = std::env::temp_dir().join(format!("flowgate-bench-decide-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let machine = Machine::describe();
    println!("{machine}");
    let (mut rls, mut resp, mut http) = (
        rls::Measured::default(),
        resp::Measured::default(),
        http::Measured::default(),
    );
    let mut goals = Vec::new();
    if is_asked(Section::Rls, &rls::SUBJECTS) {
        rls = rls::measure(cores, quick, &folder)?;
        print!(
            "{}",
            table("rls: gRPC, 4 connections with 32 requests each", &rls.rows)
        );
        goals.extend(rls::verdicts(&rls));
    }
    if is_asked(Section::Resp, &resp::SUBJECTS) {
        resp = resp::measure(cores, quick, peer)?;
        print!(
            "{}",
            table("resp: 50 connections, pipelines of 16", &resp.pipelined)
        );
        print!(
            "{}",
            table("resp: 50 connections, single commands", &resp.single)
        );
        goals.extend(resp::verdicts(&resp));
    }
    if is_asked(Section::Http, &http::SUBJECTS) {
        http = http::measure(cores, quick, peer, &folder)?;
        print!("{}", table("http: 50 connections", &http.rows));
        goals.extend(http::verdicts(&http));
    }
    let _ = fs::remove_dir_all(&folder);
    println!();
    goals.iter().for_each(|goal| println!("{goal}"));
    let rows = [
        ("rls", &rls.rows),
        ("resp, pipelines", &resp.pipelined),
        ("resp", &resp.single),
        ("http", &http.rows),
    ];
    for disturbance in rows
        .iter()
        .filter_map(|(title, rows)| disturbance(title, rows))
    {
        println!("DISTURBED, do not quote: {disturbance}");
    }
    if quick {
        println!("quick run: too short to quote");
    }
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    destination.write(&Record {
        machine,
        quick,
        rls: rls.rows,
        rls_p99_ms: rls.p99.map(milliseconds),
        resp_pipelined: resp.pipelined,
        resp_single: resp.single,
        resp_p99_ms: resp.p99.map(milliseconds),
        http: http.rows,
        http_p99_ms: http.p99.map(milliseconds),
        goals,
    })
}
