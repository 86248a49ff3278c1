//! `flowgate-bench semaphores`: taking a permit and giving it back, and what waiting for one is like.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use flowgate::{Adapt, AdaptiveLimit, Aimd, CallOutcome, ConcurrencyLimit, FineLimit};
use flowgate_bench::cases::{Case, Traffic};
use flowgate_bench_waiting::Verdict;
use flowgate_bench_waiting::permits::{self, ASYNC_LOCK, CONCURRENCY_LIMIT, Plan, Results, TOKIO};
use serde::Serialize;

use crate::compare;
use crate::machine::Machine;
use crate::options::Options;
use crate::report::Row;
use crate::section::PERMITS;

/// In every semaphore.
const COUNT: usize = 10;

/// A limit whose number an algorithm sets. Each permit is finished with a success.
pub const ADAPTIVE_LIMIT: &str = "flowgate AdaptiveLimit";

/// What `--json` writes.
#[derive(Serialize)]
struct Record {
    machine: Machine,
    quick: bool,
    baseline: &'static str,
    rows: Vec<Row>,
    waiting: Results,
    goals: Vec<Verdict>,
}

/// With permits to spare, then with none: whoever asks does not wait.
pub fn cases() -> Vec<Case> {
    use async_lock::Semaphore as AsyncLock;
    use tokio::sync::Semaphore as Tokio;
    let mut cases = Vec::new();
    for (traffic, free) in [(Traffic::Permit, COUNT), (Traffic::NoPermit, 0)] {
        cases.extend([
            Case::built(
                TOKIO,
                traffic,
                || Tokio::new(free),
                |semaphore| semaphore.try_acquire().is_ok(),
            ),
            Case::built(
                CONCURRENCY_LIMIT,
                traffic,
                || with_free(free),
                |limit| limit.try_acquire().is_ok(),
            ),
            Case::built(
                ADAPTIVE_LIMIT,
                traffic,
                || adaptive_with_free(free),
                take_and_finish,
            ),
            Case::built(
                ASYNC_LOCK,
                traffic,
                || AsyncLock::new(free),
                |semaphore| semaphore.try_acquire().is_some(),
            ),
            Case::built(
                "std Mutex<usize>",
                traffic,
                || Mutex::new(free),
                take_and_give_back,
            ),
        ]);
    }
    cases
}

/// All others are in flight for good. (Of a limit of none nothing could ever be had, which is another
/// answer.)
fn with_free(free: usize) -> ConcurrencyLimit {
    let limit = ConcurrencyLimit::new(COUNT as u32);
    let taken = limit.take_up_to((COUNT - free) as u64);
    std::mem::forget(taken);
    limit
}

/// The same of a limit that measures its calls. Its bounds keep it at `COUNT`.
fn adaptive_with_free(free: usize) -> AdaptiveLimit<impl Adapt> {
    let count = FineLimit::whole(COUNT as u32);
    let limit = AdaptiveLimit::builder(Aimd::starting_at(count)).bounds(count, count);
    let limit = limit.build().expect("the settings are within their ranges");
    let taken = limit.try_acquire_n((COUNT - free) as u64);
    std::mem::forget(taken);
    limit
}

fn take_and_finish(limit: &AdaptiveLimit<impl Adapt>) -> bool {
    let permit = limit.try_acquire();
    permit
        .map(|permit| permit.finish(CallOutcome::Success))
        .is_ok()
}

/// What one writes without a library; who waits would need a condition variable besides.
fn take_and_give_back(permits: &Mutex<usize>) -> bool {
    let lock = || permits.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = {
        let mut left = lock();
        let one_fewer = left.checked_sub(1);
        *left = one_fewer.unwrap_or(*left);
        one_fewer.is_some()
    };
    if taken {
        *lock() += 1;
    }
    taken
}

/// Measures, prints tables and goals, and writes them where `options` say.
///
/// # Errors
///
/// A message if `options` cannot be followed.
pub fn run(options: &Options) -> Result<(), String> {
    let mut subjects = permits::subjects();
    subjects.extend(cases().iter().map(|case| case.subject));
    options.check_only(&subjects)?;
    let (destination, only) = (options.destination()?, options.only.as_deref());
    let machine = Machine::describe();
    println!("{machine}");

    // On a thread of its own, which it pins: the runtimes below shall have both cores.
    let rows = thread::scope(|scope| {
        let decisions = scope.spawn(|| match PERMITS.cases(only) {
            Ok(cases) => compare::measure(&PERMITS, &cases, options.quick),
            // Only what waits was asked for.
            Err(_) => Ok(Vec::new()),
        });
        decisions.join().map_err(|_| "a comparison panicked")?
    })?;

    let plan = if options.quick {
        Plan {
            rounds: 3,
            span: Duration::from_millis(300),
        }
    } else {
        Plan {
            rounds: 15,
            span: Duration::from_secs(2),
        }
    };
    let waiting = permits::measure(plan, only)?;
    print!("{}", permits::tables(&waiting));
    let goals = permits::verdicts(&waiting);
    println!();
    goals.iter().for_each(|goal| println!("{goal}"));
    if options.quick {
        println!("quick run: too short to quote");
    }
    destination.write(&Record {
        machine,
        quick: options.quick,
        baseline: PERMITS.baseline,
        rows,
        waiting,
        goals,
    })
}
