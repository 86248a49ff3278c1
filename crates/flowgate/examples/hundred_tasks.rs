//! A hundred tasks, of which two may start in every two seconds: prints each grant.
//!
//! ```text
//! cargo run -p flowgate --example hundred_tasks            # in no time: on a clock that is moved by hand
//! cargo run -p flowgate --example hundred_tasks -- real 10 # ten threads, on the machine's clock
//! ```

use flowgate::{ManualClock, Timestamp, TokenBucket};
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

/// Every task asks again when it is told to; the clock jumps from one answer to the next.
fn on_a_manual_clock(tasks: u32) -> Result<(), Box<dyn std::error::Error>> {
    let time = ManualClock::new();
    let limiter = TokenBucket::builder(QUOTA.parse()?).clock(&time).build()?;
    for task in 1..=tasks {
        while let Err(denied) = limiter.try_acquire() {
            time.advance(denied.retry_after().ok_or("it can never start")?);
        }
        report(task, time.now());
    }
    Ok(())
}

/// Every task takes its place in line, and sleeps until it is its turn.
fn with_threads(tasks: u32) -> Result<(), Box<dyn std::error::Error>> {
    let limiter = TokenBucket::new(QUOTA.parse()?);
    let began = limiter.clock().now();
    std::thread::scope(|scope| {
        for task in 1..=tasks {
            let limiter = &limiter;
            scope.spawn(move || {
                let Ok(turn) = limiter.reserve() else { return };
                let wait = turn.at().saturating_duration_since(limiter.clock().now());
                std::thread::sleep(wait);
                let elapsed = limiter.clock().now().saturating_duration_since(began);
                report(task, Timestamp::ORIGIN + elapsed);
            });
        }
    });
    Ok(())
}

fn report(task: u32, at: Timestamp) {
    let at = Duration::from_nanos(at.as_nanos());
    println!("{:>9.3} s  task {task} starts", at.as_secs_f64());
}
