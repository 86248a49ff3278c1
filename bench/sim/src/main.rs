//! Events per second of the simulator on one core, beside a bare heap. See ../README.md.

mod direct;
mod heap;
mod scenarios;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::scenarios::Scenario;

/// The least share of the bare heap's events per second.
const LEAST_SHARE: f64 = 0.4;
/// The fewest events per second.
const LEAST_PER_SECOND: f64 = 5e6;
/// A spread of the bare heap's rounds above this is other load.
const MOST_SPREAD: f64 = 1.25;

#[derive(Parser)]
#[command(
    name = "flowgate-bench-sim",
    about = "Measures events per second of the simulator, beside a bare heap"
)]
struct Arguments {
    /// Few events: to see that everything runs, not to quote
    #[arg(long)]
    quick: bool,
    /// Only the scenarios whose name contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Also write every number to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Of several rounds. Each rate is divided by that of the bare heap in the same round.
#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    events: u64,
    million_per_second: Spread,
    share_of_heap: Spread,
    /// Of the same calls to the library without the simulator, where these are measured.
    calls_million_per_second: Option<Spread>,
}

/// What was measured of a scenario, by round.
#[derive(Clone, Default)]
struct Rates {
    events: u64,
    simulated: Vec<f64>,
    calls: Vec<f64>,
}

/// Tenth percentile, median and ninetieth percentile.
#[derive(Clone, Copy, Serialize)]
struct Spread {
    p10: f64,
    p50: f64,
    p90: f64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-sim: {message}");
            ExitCode::FAILURE
        }
    }
}

/// # Errors
///
/// A message if the file cannot be written, or if no scenario has the name.
fn run(arguments: &Arguments) -> Result<(), String> {
    let told = |error: io::Error, path: &PathBuf| format!("--json {}: {error}", path.display());
    let file = match &arguments.json {
        Some(path) => Some((path, File::create(path).map_err(|error| told(error, path))?)),
        None => None,
    };
    let (rounds, requests) = if arguments.quick {
        (2, 50_000)
    } else {
        (11, 1_000_000)
    };
    let mut scenarios = scenarios::all(requests);
    scenarios.retain(|scenario| scenario.name.contains(&arguments.only));
    if scenarios.is_empty() {
        return Err(format!("no scenario has '{}' in its name", arguments.only));
    }
    if let Some(first) = core_affinity::get_core_ids().and_then(|ids| ids.first().copied()) {
        core_affinity::set_for_current(first);
    }
    let mut heap = Vec::new();
    let mut measured = vec![Rates::default(); scenarios.len()];
    for round in 0..rounds {
        heap.push(per_second(|| heap::run(requests)).1);
        for turn in 0..scenarios.len() {
            let index = (round + turn) % scenarios.len();
            let (scenario, rates) = (&scenarios[index], &mut measured[index]);
            let (events, rate) = per_second(|| scenario.run());
            rates.events = events;
            rates.simulated.push(rate);
            if let Some(direct) = scenario.direct() {
                rates.calls.push(per_second(direct).1);
            }
        }
    }
    let rows: Vec<Row> = scenarios
        .iter()
        .zip(&measured)
        .map(|(scenario, rates)| row(scenario, rates, &heap))
        .collect();
    print(&rows, Spread::of(&heap));
    if let Some((path, mut file)) = file {
        serde_json::to_writer_pretty(&mut file, &rows)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(|error| told(error, path))?;
    }
    Ok(())
}

/// Events, and events per second of processor time: what other programs take does not count.
fn per_second(run: impl FnOnce() -> u64) -> (u64, f64) {
    let begun = processor_seconds();
    let events = run();
    (events, events as f64 / (processor_seconds() - begun))
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn row(scenario: &Scenario, rates: &Rates, heap: &[f64]) -> Row {
    let simulated = &rates.simulated;
    let millions: Vec<f64> = simulated.iter().map(|rate| rate / 1e6).collect();
    let shares: Vec<f64> = simulated
        .iter()
        .zip(heap)
        .map(|(rate, heap)| rate / heap)
        .collect();
    Row {
        scenario: scenario.name,
        events: rates.events,
        million_per_second: Spread::of(&millions),
        share_of_heap: Spread::of(&shares),
        calls_million_per_second: (!rates.calls.is_empty())
            .then(|| Spread::of(&rates.calls).scaled(1e-6)),
    }
}

fn print(rows: &[Row], heap: Spread) {
    println!(
        "{:<28} {:>10} {:>22} {:>22} {:>22}",
        "scenario",
        "events",
        "million/s (p10 p90)",
        "share of heap (p10 p90)",
        "calls alone, million/s"
    );
    let millions = heap.scaled(1e-6);
    println!("{:<28} {:>10} {millions} {:>22}", "a bare heap", "", "1");
    for row in rows {
        let calls = row.calls_million_per_second.map(|rate| rate.to_string());
        println!(
            "{:<28} {:>10} {} {} {}",
            row.scenario,
            row.events,
            row.million_per_second,
            row.share_of_heap,
            calls.unwrap_or_default()
        );
    }
    println!();
    for row in rows {
        let (millions, least) = (row.million_per_second.p50, LEAST_PER_SECOND / 1e6);
        verdict(row.scenario, "million events/s", millions, least);
        let share = row.share_of_heap.p50;
        verdict(row.scenario, "of the heap", share, LEAST_SHARE);
    }
    if heap.p90 / heap.p10 > MOST_SPREAD {
        println!(
            "DISTURBED: the rounds of the bare heap differ by {:.2}",
            heap.p90 / heap.p10
        );
    }
}

fn verdict(scenario: &str, what: &str, measured: f64, least: f64) {
    let verdict = if measured >= least { "met" } else { "MISSED" };
    println!("goal {verdict}: {scenario}: {measured:.2} {what}, at least {least}");
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |q: f64| sorted[(q * (sorted.len() - 1) as f64).round() as usize];
        Self {
            p10: rank(0.1),
            p50: rank(0.5),
            p90: rank(0.9),
        }
    }

    fn scaled(self, by: f64) -> Self {
        Self {
            p10: self.p10 * by,
            p50: self.p50 * by,
            p90: self.p90 * by,
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>8.2} ({:>5.2} {:>5.2})", self.p50, self.p10, self.p90)
    }
}
