//! The table of all scenarios and algorithms.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::Args;

use crate::algorithm::Algorithm;
use crate::measure::{Measure, Target};
use crate::scenarios::{self, Scenario};

#[derive(Args)]
pub struct Options {
    /// Number of seeds; a scenario of an hour takes a fifth of them
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 1001)]
    first: u64,
    /// Numbers of workers
    #[arg(long, value_delimiter = ',', default_values_t = [4, 20, 100, 400])]
    sizes: Vec<u32>,
    /// Only scenarios whose names contain this text
    #[arg(long, default_value = "")]
    only: String,
    /// Only the first N algorithms; those of flowgate are the first 4
    #[arg(long, default_value_t = Algorithm::ALL.len())]
    algorithms: usize,
    /// Only the worst seed of each algorithm, without the median
    #[arg(long)]
    worst: bool,
    /// Also the seeds with which the first algorithm misses the target
    #[arg(long)]
    missed: bool,
    /// Two seeds, 4 and 20 workers, and no scenario of an hour: a check that everything runs
    #[arg(long)]
    quick: bool,
}

pub fn print(options: &Options) {
    let algorithms = &Algorithm::ALL[..options.algorithms.min(Algorithm::ALL.len())];
    let names = algorithms.iter().map(|one| format!(" {} |", one.name()));
    println!(
        "| scenario | C | measure | target |{} verdict |",
        names.collect::<String>()
    );
    println!("|---|---|---|---|{}---|", "---|".repeat(algorithms.len()));
    let sizes: &[u32] = match options.quick {
        true => &[4, 20],
        false => &options.sizes,
    };
    for scenario in scenarios::all(sizes) {
        if scenario.name.contains(&options.only) && !(options.quick && scenario.is_long) {
            rows(&scenario, options, algorithms);
        }
    }
}

/// Prints a line for each measure. The verdict is that of the first algorithm.
fn rows(scenario: &Scenario, options: &Options, algorithms: &[Algorithm]) {
    let seeds = match (options.quick, scenario.is_long) {
        (true, _) => 2,
        (false, true) => options.seeds.div_ceil(5),
        (false, false) => options.seeds,
    };
    let runs = run(scenario, options.first, seeds, algorithms);
    for index in 0..runs[0][0].len() {
        let Measure { what, target, .. } = runs[0][0][index];
        let mut verdict = "";
        let mut cells = String::new();
        for algorithm in 0..algorithms.len() {
            let mut values: Vec<f64> = runs.iter().map(|run| run[algorithm][index].value).collect();
            values.sort_by(f64::total_cmp);
            let worst = target.worst(&values);
            cells += &match options.worst {
                true => format!(" {} |", number(worst)),
                false => format!(
                    " {} ({}) |",
                    number(values[values.len() / 2]),
                    number(worst)
                ),
            };
            if algorithm == 0 {
                verdict = match (target, target.is_met(worst)) {
                    (Target::High | Target::Low, _) => "",
                    (_, true) => "met",
                    (_, false) => "**missed**",
                };
            }
        }
        let target = match target {
            Target::AtLeast(least) => format!("≥ {least}"),
            Target::AtMost(most) => format!("≤ {most}"),
            Target::High | Target::Low => String::new(),
        };
        let Scenario { name, workers, .. } = scenario;
        println!("| {name} | {workers} | {what} | {target} |{cells} {verdict} |");
        if options.missed {
            for (seed, value) in missed(&runs, index) {
                println!("    seed {}: {}", options.first + seed, number(value));
            }
        }
    }
}

/// The seeds, from 0, with which the first algorithm misses the target of a measure, and its values.
fn missed(runs: &[Vec<Vec<Measure>>], index: usize) -> impl Iterator<Item = (u64, f64)> {
    let measures = runs.iter().map(move |run| run[0][index]);
    (0..)
        .zip(measures)
        .filter(|(_, measure)| !measure.target.is_met(measure.value))
        .map(|(seed, measure)| (seed, measure.value))
}

/// The measures of each seed, in order, and algorithm. Each thread takes the next seed.
fn run(
    scenario: &Scenario,
    first: u64,
    seeds: u64,
    algorithms: &[Algorithm],
) -> Vec<Vec<Vec<Measure>>> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut runs = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return runs;
            }
            runs.push((seed, (scenario.run)(first + seed, algorithms)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let runs = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        let mut runs: Vec<_> = runs.flatten().collect();
        runs.sort_by_key(|(seed, _)| *seed);
        runs.into_iter().map(|(_, run)| run).collect()
    })
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "–".to_owned()
    } else if value.is_infinite() {
        "never".to_owned()
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}
