//! `flowgate-bench waiting`: a task, and a thread, that ask for slot after slot.

use std::time::Duration;

use flowgate_bench_waiting::{Verdict, pacing, strict};
use serde::Serialize;

use crate::machine::Machine;
use crate::options::Options;

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    tasks: Vec<pacing::Row>,
    threads: Vec<strict::Row>,
    goals: Vec<Verdict>,
}

/// Measures, prints tables and goals, and writes them where `options` say.
///
/// # Errors
///
/// A message if `options` cannot be followed, or if one of our limiters broke its promise.
pub fn run(options: &Options) -> Result<(), String> {
    options.check_only(&[pacing::subjects(), strict::subjects()].concat())?;
    let (destination, only) = (options.destination()?, options.only.as_deref());
    let machine = Machine::describe();
    println!("{machine}");

    let span = Duration::from_millis(if options.quick { 300 } else { 3_000 });
    let tasks = pacing::measure(span, only)?;
    print!("{}", pacing::tables(&tasks));
    let threads = strict::measure(span, only)?;
    print!("{}", strict::tables(&threads));

    let goals = [pacing::verdicts(&tasks), strict::verdicts(&threads)].concat();
    println!();
    goals.iter().for_each(|goal| println!("{goal}"));
    if let Some(disturbance) = strict::disturbance(&threads) {
        println!("DISTURBED, do not quote: {disturbance}");
    }
    if options.quick {
        println!("quick run: too short to quote");
    }
    let broken = [pacing::broken(&tasks), strict::broken(&threads)].concat();
    destination.write(&Record {
        machine,
        quick: options.quick,
        tasks,
        threads,
        goals,
    })?;
    match broken.as_slice() {
        [] => Ok(()),
        _ => Err(format!("more than was promised: {}", broken.join("; "))),
    }
}
