//! A real axum server behind an adaptive limit, under a real load, beside what the simulator predicts. See ../README.md.

mod prediction;
mod server;

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use flowgate::Quota;
use flowgate_load::{Plan, Stop, Target};
use flowgate_schedule::Schedule;
use serde::Serialize;

use crate::server::Server;

/// How far a measured value may be from the predicted one.
const MOST_DIFFERENCE: f64 = 0.1;
/// With later requests, the client is not what the simulator has.
const MOST_LATE: Duration = Duration::from_millis(5);
/// As many workers as the scenarios of the simulator have.
const WORKERS: u32 = 20;
/// The mean service time. The timers of tokio have a resolution of 1 ms.
const SERVICE: Duration = Duration::from_millis(50);
/// A request that is served later is of no use.
const DEADLINE: Duration = Duration::from_millis(500);

#[derive(Parser)]
#[command(
    name = "flowgate-bench-adaptive",
    about = "Compares an axum server behind an adaptive limit with what the simulator predicts"
)]
struct Arguments {
    /// One short run each: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Only the scenarios whose name contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Also write every number to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A load, and perhaps a time in which the service is slower.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    /// Arrivals, as a multiple of the capacity.
    load: u32,
    /// The service takes this many times as long in the second third of the run.
    slowdown: f64,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "load 2",
        load: 2,
        slowdown: 1.0,
    },
    Scenario {
        name: "load 10",
        load: 10,
        slowdown: 1.0,
    },
    Scenario {
        name: "load 2, service x 3",
        load: 2,
        slowdown: 3.0,
    },
];

/// What came of one run, real or simulated.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Measured {
    /// Served within the deadline, per second.
    goodput: f64,
    mean_ms: f64,
    p99_ms: f64,
    /// Of all requests.
    refused: f64,
    /// The mean at the times of the requests.
    limit: f64,
}

/// Both of one seed.
#[derive(Serialize)]
struct Pair {
    scenario: &'static str,
    seed: u64,
    real: Measured,
    simulated: Measured,
    /// How late 99 % of the requests were sent at most.
    late: Duration,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowgate-bench-adaptive: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let file = arguments.json.as_ref().map(File::create).transpose()?;
    let (seeds, seconds) = if arguments.quick { (1, 3) } else { (3, 30) };
    let mut pairs = Vec::new();
    for scenario in SCENARIOS {
        if scenario.name.contains(&arguments.only) {
            for seed in 1..=seeds {
                pairs.push(pair(scenario, seed, Duration::from_secs(seconds))?);
            }
        }
    }
    if pairs.is_empty() {
        return Err(format!("no scenario has '{}' in its name", arguments.only).into());
    }
    print(&pairs);
    if let Some(mut file) = file {
        serde_json::to_writer_pretty(&mut file, &pairs)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Runs the server under a load, and the simulator with the same requests and the service times that the server had.
fn pair(scenario: Scenario, seed: u64, duration: Duration) -> Result<Pair, Box<dyn Error>> {
    let capacity = f64::from(WORKERS) / SERVICE.as_secs_f64();
    let per_second = capacity as u64 * u64::from(scenario.load);
    let requests = per_second * duration.as_secs();
    let schedule = Schedule::poisson(Quota::per_second(per_second), seed, requests)?;

    let server = Server::start(seed, scenario.slowdown, duration)?;
    let mut plan = Plan::new(Target::parse(&server.url())?, schedule.clone());
    plan.connections = const { NonZeroUsize::new(256).unwrap() };
    plan.max_error_share = 1.0;
    let report = flowgate_load::run(plan, &Stop::new())?;
    let (real, services) = server.finish();
    if services.is_empty() {
        return Err("the server has served nothing".into());
    }
    let simulated = prediction::of(&schedule, scenario.slowdown, duration, services);
    Ok(Pair {
        scenario: scenario.name,
        seed,
        real,
        simulated,
        late: report.lag.p99,
    })
}

/// A number of a run.
type Number = fn(&Measured) -> f64;

/// The numbers that are compared.
const NUMBERS: [(&str, Number); 5] = [
    ("goodput, per second", |of| of.goodput),
    ("mean latency, ms", |of| of.mean_ms),
    ("p99, ms", |of| of.p99_ms),
    ("refused, share", |of| of.refused),
    ("limit", |of| of.limit),
];

fn print(pairs: &[Pair]) {
    println!(
        "{:<22} {:<20} {:>10} {:>10} {:>22}",
        "scenario", "", "real", "simulated", "real / simulated"
    );
    let mut verdicts = Vec::new();
    for scenario in SCENARIOS.map(|scenario| scenario.name) {
        let of: Vec<&Pair> = pairs
            .iter()
            .filter(|pair| pair.scenario == scenario)
            .collect();
        if of.is_empty() {
            continue;
        }
        for (what, number) in NUMBERS {
            let mean = |values: &dyn Fn(&Pair) -> f64| {
                of.iter().map(|pair| values(pair)).sum::<f64>() / of.len() as f64
            };
            let real = mean(&|pair| number(&pair.real));
            let simulated = mean(&|pair| number(&pair.simulated));
            let ratios = of
                .iter()
                .map(|pair| number(&pair.real) / number(&pair.simulated));
            let (least, most) = ratios.fold((f64::MAX, 0.0_f64), |(least, most), ratio| {
                (least.min(ratio), most.max(ratio))
            });
            let ratio = real / simulated;
            println!(
                "{scenario:<22} {what:<20} {real:>10.3} {simulated:>10.3} {ratio:>8.3} ({least:.3} {most:.3})"
            );
            let is_close = (ratio - 1.0).abs() <= MOST_DIFFERENCE;
            let verdict = if is_close { "met" } else { "MISSED" };
            verdicts.push(format!(
                "goal {verdict}: {scenario}: {what}: {ratio:.3} of the prediction, within 10 %"
            ));
        }
        if of.iter().any(|pair| pair.late > MOST_LATE) {
            verdicts.push(format!(
                "DISTURBED: {scenario}: the client fell behind its schedule"
            ));
        }
    }
    println!();
    for verdict in verdicts {
        println!("{verdict}");
    }
}
