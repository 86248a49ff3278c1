//! One task that requests all permits, among many that request one: is it ever granted?

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::flowgate::ConcurrencyLimit;
use serde::Serialize;

use super::line::{Line, turn};
use super::{CONCURRENCY_LIMIT, TOKIO, flowgate, peers};
use crate::runtime::Flavour;
use crate::{OURS, Verdict, chosen};

/// Number of tasks that request one permit.
const SMALL: u64 = 32;

/// What the large one asks for: the whole burst, or every permit.
const LARGE: u32 = 10;

const RATE: u32 = 1_000;

/// How often the large one asks.
const WAITS: usize = 5;

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    /// Times that it was let in.
    pub granted: usize,
    /// Maximum number of grants before it during one wait.
    ///
    /// The last wait may not have ended.
    pub most_passed: u64,
    /// Its longest wait, likewise.
    pub longest_ms: f64,
    /// Expected wait by the rate, behind every small request; `None` without a rate.
    pub due_ms: Option<f64>,
}

/// Its waits: how many went before it, and how long it took. And whether the last ended.
struct Waits {
    waits: Vec<(u64, Duration)>,
    ended: bool,
}

type Case = fn(Duration) -> Result<Waits, String>;

/// The name, and whether it keeps to [`RATE`].
fn all() -> Vec<(&'static str, bool, Case)> {
    vec![
        (TOKIO, false, |span| {
            large(span, tokio::sync::Semaphore::new(LARGE as usize))
        }),
        (CONCURRENCY_LIMIT, false, |span| {
            large(span, ConcurrencyLimit::new(LARGE))
        }),
        ("flowgate TokenBucket", true, |span| {
            large(span, flowgate::token_bucket(RATE, LARGE))
        }),
        ("governor 0.10.4", true, |span| {
            large(span, peers::governor(RATE, LARGE))
        }),
        ("leaky-bucket 1.1.2", true, |span| {
            large(span, peers::leaky_bucket(RATE, LARGE))
        }),
    ]
}

fn large(span: Duration, line: impl Line) -> Result<Waits, String> {
    let runtime = Flavour::CurrentThread.build()?;
    let line = Arc::new(line);
    let passed = Arc::new(AtomicU64::new(0));
    let waits = runtime.block_on(async {
        for _ in 0..SMALL {
            let (line, passed) = (Arc::clone(&line), Arc::clone(&passed));
            tokio::spawn(async move {
                loop {
                    turn(&*line).await;
                    passed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // By now they stand in line.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut waits = Vec::new();
        let over = Instant::now() + span;
        while waits.len() < WAITS {
            let (before, joined) = (passed.load(Ordering::Relaxed), Instant::now());
            let granted = tokio::time::timeout_at(over.into(), line.acquire(LARGE)).await;
            let ended = granted.is_ok();
            drop(granted);
            waits.push((passed.load(Ordering::Relaxed) - before, joined.elapsed()));
            if !ended {
                return Waits { waits, ended };
            }
            tokio::task::yield_now().await;
        }
        Waits { waits, ended: true }
    });
    Ok(waits)
}

pub fn subjects() -> Vec<&'static str> {
    all().iter().map(|(subject, ..)| *subject).collect()
}

pub fn measure(span: Duration, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (subject, keeps_rate, case) in all() {
        if !chosen(subject, only) {
            continue;
        }
        let Waits { waits, ended } = case(span).map_err(|error| format!("{subject}: {error}"))?;
        let longest = waits
            .iter()
            .map(|(_, took)| *took)
            .max()
            .unwrap_or_default();
        let units = SMALL as f64 + f64::from(LARGE);
        rows.push(Row {
            subject,
            granted: waits.len() - usize::from(!ended),
            most_passed: waits.iter().map(|(passed, _)| *passed).max().unwrap_or(0),
            longest_ms: 1_000.0 * longest.as_secs_f64(),
            due_ms: keeps_rate.then_some(1_000.0 * units / f64::from(RATE)),
        });
    }
    Ok(rows)
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\none task after {LARGE} at once, {WAITS} times, among {SMALL} after one, at {LARGE} permits or {RATE}/s burst \
         {LARGE}; tokio, current thread\n  {:<26} {:>8} {:>16} {:>16} {:>16}\n",
        "", "granted", "passed, at most", "waited ms, most", "due by then"
    );
    for row in rows {
        let due = row.due_ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        let _ = writeln!(
            text,
            "  {:<26} {:>8} {:>16} {:>16.1} {due:>16}",
            row.subject, row.granted, row.most_passed, row.longest_ms
        );
    }
    text
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let ours = rows.iter().filter(|row| row.subject.starts_with(OURS));
    // Who was never let in was passed by everybody.
    let passed = ours.map(|row| {
        if row.granted < WAITS {
            f64::INFINITY
        } else {
            row.most_passed as f64
        }
    });
    let goal = format!("who asks for {LARGE} is passed by at most the {SMALL} ahead of it");
    Verdict::at_most(goal, passed.reduce(f64::max), SMALL as f64, "")
}
