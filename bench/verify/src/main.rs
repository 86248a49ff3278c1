//! Counts how often `flowgate verify` detects the limiter of a real server. The servers are axum with tower_governor,
//! nginx, `flowgate serve` with each limiter, and those of others in `peers`. See ../README.md.

mod asked;
#[path = "../../clients/src/client.rs"]
#[allow(dead_code)] // Of the programs only flowgate and nginx are run here.
mod client;
#[path = "../../clients/src/directory.rs"]
mod directory;
mod governed;
#[path = "../../clients/src/nginx.rs"]
#[allow(dead_code)]
mod nginx;
mod peer;
mod peers;
mod report;
#[path = "../../clients/src/running.rs"]
mod running;
mod served;
mod shared;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;
use serde::Serialize;

use crate::asked::Outcome;
use crate::client::{Program, Programs};
use crate::peers::PEERS;
use crate::report::Row;
use crate::shared::machine::Machine;
use crate::shared::options::Options;
use crate::shared::outcome::Verdict;
use crate::subject::{SUBJECTS, Server, Subject};

/// What a run may take, as by default, and in a quick run.
const TIME: Duration = Duration::from_secs(60);
const QUICK_TIME: Duration = Duration::from_secs(20);

/// A report that asks for more time than a run had gets it once, up to this much, as from a user who follows it.
const MOST_TIME: Duration = Duration::from_secs(300);

/// Between the start of a server and its run: what it does at its start is over.
const REST: Duration = Duration::from_secs(2);

#[derive(Parser)]
#[command(
    name = "flowgate-bench-verify",
    about = "Counts how often flowgate verify recognises servers' limiters"
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Ask each server so often
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Run this many tests concurrently, each with its server; it needs a CPU for each request
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    together: u32,
    /// Expect the true limit of each server that `--expect` can name, and count the verdicts
    #[arg(long)]
    expect: bool,
    /// Measure this flowgate, instead of building it
    #[arg(long, value_name = "PATH")]
    flowgate: Option<PathBuf>,
}

/// How a server is asked.
#[derive(Clone, Copy)]
struct Plan {
    repetitions: u32,
    /// Each.
    time: Duration,
    /// Whether the true limit is expected.
    expects: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    rows: Vec<Row>,
    goals: Vec<Verdict>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flowgate-bench-verify: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Asks all, prints the table and the goals, and writes them where the options say.
///
/// # Errors
///
/// A message if the arguments cannot be followed, or if a server or flowgate failed.
fn run(arguments: Arguments) -> Result<(), String> {
    let options = &arguments.options;
    let all = || SUBJECTS.iter().chain(&PEERS);
    let names: Vec<_> = all().map(|subject| subject.name).collect();
    options.check_only(&names)?;
    let destination = options.destination()?;
    let quick = options.quick;
    let plan = Plan {
        repetitions: arguments.repetitions,
        time: if quick { QUICK_TIME } else { TIME },
        expects: arguments.expect,
    };
    let programs = Programs::find(arguments.flowgate)?;
    let has_nginx = programs.has(Program::Nginx);
    let is_asked = |subject: &&Subject| match options.only.as_deref() {
        Some(text) => subject.name.contains(text),
        None => !quick || subject.is_quick,
    };
    let is_there = |subject: &Subject| match subject.server {
        Server::Nginx(..) => has_nginx,
        Server::Peer(peer) => peer.is_installed(),
        _ => true,
    };
    let has_text = |subject: &&Subject| !plan.expects || subject.expectation().is_some();
    let asked = all().filter(is_asked).filter(has_text);
    let (subjects, missing): (Vec<_>, Vec<_>) = asked.partition(|subject| is_there(subject));

    let machine = Machine::describe();
    println!("{machine}");
    for subject in missing {
        println!(
            "{}: left out: bench/verify/setup.sh installs its server",
            subject.name
        );
    }
    let (rows, failures) = ask_all(&subjects, plan, arguments.together, &programs);
    print!("{}", report::table(&rows));
    println!();
    let goals = report::verdicts(&rows);
    goals.iter().for_each(|goal| println!("{goal}"));
    if quick {
        println!("quick run: too few repetitions to quote");
    }
    destination.write(&Record {
        machine,
        quick,
        rows,
        goals,
    })?;
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(failures.join("; ")),
    }
}

/// Tests each of `subjects` again and again, up to `together` runs concurrently. Returns their rows, and what failed.
fn ask_all(
    subjects: &[&'static Subject],
    plan: Plan,
    together: u32,
    programs: &Programs,
) -> (Vec<Row>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let repetitions = plan.repetitions as usize;
    let runs = subjects.len() * repetitions;
    let work = || {
        let mut asked = Vec::new();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return asked;
            }
            // Each server once, then each a second time.
            let (index, number) = (run % subjects.len(), run / subjects.len() + 1);
            let subject = subjects[index];
            let outcome = ask(subject, plan, programs);
            if let Ok(outcome) = &outcome {
                eprintln!("{} {number}/{repetitions}: {outcome}", subject.name);
            }
            asked.push((index, outcome));
        }
    };
    let asked = thread::scope(|scope| {
        let workers: Vec<_> = (0..together).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| {
            let done = worker.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.collect::<Vec<_>>().concat()
    });
    let rows = subjects.iter().enumerate().filter_map(|(index, subject)| {
        let of_this = asked.iter().filter(|(of, _)| *of == index);
        let outcomes: Vec<_> = of_this
            .filter_map(|(_, asked)| asked.clone().ok())
            .collect();
        (!outcomes.is_empty()).then(|| Row::of(subject, &outcomes))
    });
    let failures = asked.iter().filter_map(|(_, asked)| asked.clone().err());
    (rows.collect(), failures.collect())
}

/// Tests a server of its own once, and once more with the time that the report asks for.
fn ask(subject: &Subject, plan: Plan, programs: &Programs) -> Result<Outcome, String> {
    let expected = subject.expectation().filter(|_| plan.expects);
    let look = |time| {
        let server = subject.start(programs)?;
        thread::sleep(REST);
        Outcome::of(programs, &server.url(), time, expected.as_deref())
            .map_err(|error| format!("{}: {error}", subject.name))
    };
    let outcome = look(plan.time)?;
    let asks_for = outcome.asks_for.map(Duration::from_secs_f64);
    match asks_for {
        Some(longer) if plan.time == TIME && (TIME..=MOST_TIME).contains(&longer) => {
            let mut again = look(longer)?;
            again.seconds += outcome.seconds;
            Ok(again)
        }
        _ => Ok(outcome),
    }
}
