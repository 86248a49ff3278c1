//! A hundred tasks, of which at most two may start in any two seconds. Prints the time of each start.
//!
//! ```text
//! cargo run -p flowgate --example hundred_tasks            # in no time: on a clock that is moved by hand
//! cargo run -p flowgate --example hundred_tasks -- real 10 # ten threads, on the machine's clock
//! ```

use flowgate::{Denied, ManualClock, SlidingWindow, Timestamp};
use std::time::Duration;

const QUOTA: &str = "2/2s";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let real = arguments.next_if(|word| word == "real").is_some();
    let tasks = match arguments.next() {
        None => 100,
        Some(text) => text
            .parse()
            .map_err(|_| format!("{text:?} is no number of tasks; write: [real] [TASKS]"))?,
    };
    println!("{tasks} tasks, {QUOTA}");
    if real {
        with_threads(tasks)
    } else {
        on_a_manual_clock(tasks)
    }
}

/// Moves the clock from one start to the next.
fn on_a_manual_clock(tasks: u32) -> Result<(), Box<dyn std::error::Error>> {
    let time = ManualClock::new();
    let limiter = SlidingWindow::builder(QUOTA.parse()?)
        .clock(&time)
        .build()?;
    for task in 1..=tasks {
        start(&limiter, |wait| time.advance(wait))?;
        report(task, time.now());
    }
    Ok(())
}

/// Runs every task in a thread. Refused threads retry at the same time, when the window admits two of them. Which two is left
/// to chance.
fn with_threads(tasks: u32) -> Result<(), Box<dyn std::error::Error>> {
    let limiter = SlidingWindow::new(QUOTA.parse()?)?;
    let began = limiter.clock().now();
    std::thread::scope(|scope| {
        for task in 1..=tasks {
            let limiter = &limiter;
            scope.spawn(move || {
                if start(limiter, std::thread::sleep).is_ok() {
                    let elapsed = limiter.clock().now().saturating_duration_since(began);
                    report(task, Timestamp::ORIGIN + elapsed);
                }
            });
        }
    });
    Ok(())
}

/// Retries until the task may start, and waits for the returned time before each retry.
fn start(limiter: &SlidingWindow, wait_for: impl Fn(Duration)) -> Result<(), Denied> {
    while let Err(denied) = limiter.try_acquire() {
        wait_for(denied.retry_after().ok_or(denied)?);
    }
    Ok(())
}

fn report(task: u32, at: Timestamp) {
    let at = Duration::from_nanos(at.as_nanos());
    println!("{:>9.3} s  task {task} starts", at.as_secs_f64());
}
