//! Lines of waiters, at semaphores and at limiters: what contention costs, what a place in a long line
//! costs, whether equals get equal shares, and whether who asks for much is passed over.

use std::time::Duration;

use serde::Serialize;

use crate::Verdict;

mod contended;
mod flowgate;
mod large;
mod line;
mod long;
mod peers;
mod shares;

/// The semaphore that ours is compared with.
pub const TOKIO: &str = "tokio 1.54 Semaphore";

/// Another semaphore; it does not support several permits per request.
pub const ASYNC_LOCK: &str = "async-lock 3.5 Semaphore";

/// The subject that most goals are about.
pub const CONCURRENCY_LIMIT: &str = "flowgate ConcurrencyLimit";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: usize,
    /// How long shares are counted, and the longest that a large request is given.
    pub span: Duration,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    pub contended: Vec<contended::Row>,
    pub long: Vec<long::Row>,
    pub shares: Vec<shares::Row>,
    pub large: Vec<large::Row>,
}

/// Measures all of it.
///
/// # Errors
///
/// A message if a runtime cannot be started, or a task ended early.
pub fn measure(plan: Plan, only: Option<&str>) -> Result<Results, String> {
    Ok(Results {
        contended: contended::measure(plan.rounds, only)?,
        long: long::measure(plan.rounds, only)?,
        shares: shares::measure(plan.span, only)?,
        large: large::measure(plan.span, only)?,
    })
}

/// The names of all that can be measured.
pub fn subjects() -> Vec<&'static str> {
    let mut names = contended::subjects();
    names.extend(long::subjects());
    names.extend(shares::subjects());
    names.extend(large::subjects());
    names.sort_unstable();
    names.dedup();
    names
}

/// A table for each.
pub fn tables(results: &Results) -> String {
    [
        contended::table(&results.contended),
        long::table(&results.long),
        shares::table(&results.shares),
        large::table(&results.large),
    ]
    .concat()
}

/// The goals for ours.
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = vec![contended::verdict(&results.contended)];
    verdicts.extend(long::verdicts(&results.long));
    verdicts.push(shares::verdict(&results.shares));
    verdicts.push(large::verdict(&results.large));
    verdicts
}
