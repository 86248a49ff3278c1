//! Equal tasks in a loop: does each get as much as the others?

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::flowgate::ConcurrencyLimit;
use serde::Serialize;

use super::line::{Line, turn};
use super::{ASYNC_LOCK, CONCURRENCY_LIMIT, TOKIO, flowgate, peers};
use crate::runtime::Flavour;
use crate::{OURS, Verdict, chosen};

const TASKS: usize = 64;
const PERMITS: usize = 4;
const RATE: u32 = 10_000;

/// One line under one runtime.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub flavour: Flavour,
    pub turns: u64,
    pub least: u64,
    pub most: u64,
    /// Jain's index: (Σ x)² / (n · Σ x²); 1 where all have the same, 1/n where one has all.
    pub jain: f64,
}

type Case = fn(Flavour, Duration) -> Result<Vec<u64>, String>;

fn all() -> Vec<(&'static str, Case)> {
    vec![
        (TOKIO, |flavour, span| {
            share(flavour, span, tokio::sync::Semaphore::new(PERMITS))
        }),
        (ASYNC_LOCK, |flavour, span| {
            share(flavour, span, async_lock::Semaphore::new(PERMITS))
        }),
        (CONCURRENCY_LIMIT, |flavour, span| {
            share(flavour, span, ConcurrencyLimit::new(PERMITS as u32))
        }),
        ("flowgate LeakyBucket", |flavour, span| {
            share(flavour, span, flowgate::leaky_bucket(RATE))
        }),
        ("governor 0.10.4", |flavour, span| {
            share(flavour, span, peers::governor(RATE, 1))
        }),
        ("leaky-bucket 1.1.2", |flavour, span| {
            share(flavour, span, peers::leaky_bucket(RATE, RATE / 1_000))
        }),
    ]
}

/// The turns of each task.
fn share(flavour: Flavour, span: Duration, line: impl Line) -> Result<Vec<u64>, String> {
    let runtime = flavour.build()?;
    let line = Arc::new(line);
    let over = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (line, over) = (Arc::clone(&line), Arc::clone(&over));
                tokio::spawn(async move {
                    let mut turns = 0;
                    loop {
                        turn(&*line).await;
                        if over.load(Ordering::Relaxed) {
                            return turns;
                        }
                        turns += 1;
                    }
                })
            })
            .collect();
        tokio::time::sleep(span).await;
        over.store(true, Ordering::Relaxed);
        let mut turns = Vec::with_capacity(TASKS);
        for task in tasks {
            turns.push(task.await.map_err(|error| error.to_string())?);
        }
        Ok(turns)
    })
}

fn jain(turns: &[u64]) -> f64 {
    let sum: f64 = turns.iter().map(|&turns| turns as f64).sum();
    let squares: f64 = turns.iter().map(|&turns| (turns as f64).powi(2)).sum();
    sum * sum / (turns.len() as f64 * squares)
}

pub fn subjects() -> Vec<&'static str> {
    all().iter().map(|(subject, _)| *subject).collect()
}

pub fn measure(span: Duration, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for flavour in Flavour::ALL {
        for (subject, case) in all() {
            if !chosen(subject, only) {
                continue;
            }
            let turns = case(flavour, span).map_err(|error| format!("{subject}: {error}"))?;
            rows.push(Row {
                subject,
                flavour,
                turns: turns.iter().sum(),
                least: turns.iter().copied().min().unwrap_or(0),
                most: turns.iter().copied().max().unwrap_or(0),
                jain: jain(&turns),
            });
        }
    }
    Ok(rows)
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\n{TASKS} equal tasks in a loop, after {PERMITS} permits or {RATE}/s\n  {:<26} {:<22} {:>9} {:>8} {:>8} {:>8}\n",
        "", "", "Jain", "least", "most", "turns"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "  {:<26} {:<22} {:>9.5} {:>8} {:>8} {:>8}",
            row.subject,
            row.flavour.name(),
            row.jain,
            row.least,
            row.most,
            row.turns
        );
    }
    text
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let ours = rows.iter().filter(|row| row.subject.starts_with(OURS));
    let worst = ours.map(|row| row.jain).reduce(f64::min);
    let goal = format!("Jain's index of {TASKS} equal tasks at least 0.99");
    Verdict::at_least(goal, worst, 0.99, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_of_n_for_a_hog() {
        assert_eq!(jain(&[7; 64]), 1.0);
        assert_eq!(jain(&[0, 9, 0, 0]), 0.25);
    }
}
