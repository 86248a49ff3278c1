//! The long run: flowgate against the oracle, on every core.
//!
//! `cargo run --release -p flowgate-testkit --example oracle -- [OPERATIONS] [SEED]`

use std::process::ExitCode;
use std::time::Instant;

use flowgate_testkit::differential;

fn main() -> ExitCode {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|word| word.replace('_', "").parse::<u64>());
    let (Ok(operations), Ok(seed)) = (
        numbers.next().unwrap_or(Ok(10_000_000)),
        numbers.next().unwrap_or(Ok(1)),
    ) else {
        eprintln!("usage: oracle [OPERATIONS] [SEED], both whole numbers");
        return ExitCode::from(2);
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let started = Instant::now();
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|core| {
                // Histories are numbered; each core has 2⁴⁸ of its own.
                let first = seed.wrapping_add(core << 48);
                scope.spawn(move || differential::run(first, operations.div_ceil(cores)))
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .collect()
    });
    let mut disagreements = cores as usize - results.len();
    let mut done = 0;
    for result in results {
        match result {
            Ok(operations) => done += operations,
            Err(disagreement) => {
                disagreements += 1;
                eprintln!("{disagreement}");
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{done} operations, seed {seed}, {cores} cores, {seconds:.1} s, \
         {disagreements} disagreements"
    );
    if disagreements == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
