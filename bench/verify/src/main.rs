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
use crate::subject::{SUBJECTS, Server, Started, Subject};

/// What a run may take, as by default, and in a quick run.
const TIME: Duration = Duration::from_secs(60);
const QUICK_TIME: Duration = Duration::from_secs(20);

/// A report that asks for more time than a run had gets it once, up to this much, as from a user who follows it.
const MOST_TIME: Duration = Duration::from_secs(300);

/// Before each run, so that it begins with a limiter of which nothing is used up.
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
    /// Test this many servers concurrently; each needs a CPU whenever it receives a request
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
    let has_text = |subject: &&Subject| !plan.expects || subject.expected.text().is_some();
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
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for asked in ask_all(&subjects, plan, arguments.together, &programs) {
        match asked {
            Ok(row) => rows.push(row),
            Err(failure) => failures.push(failure),
        }
    }
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

/// Tests `subjects`, up to `together` concurrently, in their order.
fn ask_all(
    subjects: &[&'static Subject],
    plan: Plan,
    together: u32,
    programs: &Programs,
) -> Vec<Result<Row, String>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut asked = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(subject) = subjects.get(index) else {
                return asked;
            };
            asked.push((index, ask(subject, plan, programs)));
        }
    };
    let mut asked = thread::scope(|scope| {
        let workers: Vec<_> = (0..together).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| {
            let done = worker.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.collect::<Vec<_>>().concat()
    });
    asked.sort_by_key(|(index, _)| *index);
    asked.into_iter().map(|(_, asked)| asked).collect()
}

/// One server, again and again.
fn ask(subject: &Subject, plan: Plan, programs: &Programs) -> Result<Row, String> {
    let server = subject.start(programs)?;
    let expected = subject.expected.text().filter(|_| plan.expects);
    let look = |server: &Started, time| {
        Outcome::of(programs, &server.url(), time, expected.as_deref())
            .map_err(|error| format!("{}: {error}", subject.name))
    };
    let mut outcomes = Vec::new();
    let Plan {
        repetitions, time, ..
    } = plan;
    for number in 1..=repetitions {
        thread::sleep(REST);
        let outcome = look(&server, time)?;
        eprintln!("{} {number}/{repetitions}: {outcome}", subject.name);
        let asks_for = outcome.asks_for.map(Duration::from_secs_f64);
        outcomes.push(match asks_for {
            Some(longer) if time == TIME && (time..=MOST_TIME).contains(&longer) => {
                // Its limit is used up: another one.
                let server = subject.start(programs)?;
                thread::sleep(REST);
                let mut again = look(&server, longer)?;
                again.seconds += outcome.seconds;
                eprintln!(
                    "{} {number}/{repetitions}, with {longer:?}: {again}",
                    subject.name
                );
                again
            }
            _ => outcome,
        });
    }
    Ok(Row::of(subject, &outcomes))
}
