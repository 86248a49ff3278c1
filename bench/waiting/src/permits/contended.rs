//! Many tasks after few permits: each takes one, lets the others run, and gives it back.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use flowgate::ConcurrencyLimit;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::line::{Line, turn};
use super::{ASYNC_LOCK, CONCURRENCY_LIMIT, TOKIO};
use crate::runtime::Flavour;
use crate::spread::Spread;
use crate::{OURS, Verdict, chosen};

const TASKS: usize = 1_000;
const PERMITS: usize = 10;

/// Turns of each task in a round.
const TURNS: usize = 50;

/// One semaphore under one runtime.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub flavour: Flavour,
    /// From one grant to the next.
    pub ns_per_turn: Spread,
    /// Throughput over tokio's in the same round.
    pub throughput_ratio: Spread,
}

/// Runs every task's turns once and gives the ns of a turn.
type Round = fn(&Runtime) -> Result<f64, String>;

fn all() -> Vec<(&'static str, Round)> {
    vec![
        (TOKIO, |runtime| {
            round(runtime, tokio::sync::Semaphore::new(PERMITS))
        }),
        (ASYNC_LOCK, |runtime| {
            round(runtime, async_lock::Semaphore::new(PERMITS))
        }),
        (CONCURRENCY_LIMIT, |runtime| {
            round(runtime, ConcurrencyLimit::new(PERMITS as u32))
        }),
    ]
}

fn round(runtime: &Runtime, line: impl Line) -> Result<f64, String> {
    let line = Arc::new(line);
    runtime.block_on(async {
        let started = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let line = Arc::clone(&line);
                tokio::spawn(async move {
                    for _ in 0..TURNS {
                        turn(&*line).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.map_err(|error| error.to_string())?;
        }
        Ok(started.elapsed().as_nanos() as f64 / (TASKS * TURNS) as f64)
    })
}

pub fn subjects() -> Vec<&'static str> {
    all().iter().map(|(subject, _)| *subject).collect()
}

/// Every semaphore `rounds` times, interleaved.
pub fn measure(rounds: usize, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut cases = all();
    // The base of the ratios is always there.
    cases.retain(|(subject, _)| *subject == TOKIO || chosen(subject, only));
    let mut rows = Vec::new();
    for flavour in Flavour::ALL {
        let runtime = flavour.build()?;
        let mut ns = vec![Vec::new(); cases.len()];
        for first in 0..rounds {
            for step in 0..cases.len() {
                let index = (first + step) % cases.len();
                let (subject, round) = cases[index];
                let took = round(&runtime).map_err(|error| format!("{subject}: {error}"))?;
                ns[index].push(took);
            }
        }
        for ((subject, _), taken) in cases.iter().zip(&ns) {
            let ratios = ns[0].iter().zip(taken).map(|(base, ours)| base / ours);
            rows.push(Row {
                subject,
                flavour,
                ns_per_turn: Spread::of(taken.clone()),
                throughput_ratio: Spread::of(ratios.collect()),
            });
        }
    }
    Ok(rows)
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n{TASKS} tasks after {PERMITS} permits: take one, let others run, give it back\n  {:<26} {:<22} \
         {:>9} {:>14} {:>9} {:>18}\n",
        "", "", "x tokio", "p10..p90", "ns/turn", "p10..p90"
    );
    for row in rows {
        let (ratio, ns) = (row.throughput_ratio, row.ns_per_turn);
        let _ = writeln!(
            text,
            "  {:<26} {:<22} {:>9.3} {:>14} {:>9.1} {:>18}",
            row.subject,
            row.flavour.name(),
            ratio.p50,
            format!("{:.3}..{:.3}", ratio.p10, ratio.p90),
            ns.p50,
            format!("{:.1}..{:.1}", ns.p10, ns.p90),
        );
    }
    text
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let ours = rows.iter().filter(|row| row.subject.starts_with(OURS));
    let worst = ours.map(|row| row.throughput_ratio.p50).reduce(f64::min);
    let goal = format!("{TASKS} contending tasks: a turn takes at most 0.85 x {TOKIO}'s");
    Verdict::at_most(goal, worst.map(f64::recip), 0.85, " x")
}
