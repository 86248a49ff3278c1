//! A service whose database is down for 20 seconds. It tries again every 10 ms, and each try logs. Its log stays readable:
//! each line of code logs 3 events in a burst and then 5 per minute, and reports how many events were suppressed.
//!
//! ```text
//! cargo run -p flowgate-tracing --example log_lines
//! ```

use flowgate::ManualClock;
use flowgate_tracing::RateLimitFilter;
use std::error::Error;
use std::time::Duration;
use tracing::{Level, error, info, warn};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::prelude::*;

#[allow(dead_code, reason = "the test calls `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    let left_out = run(std::io::stdout)?;
    println!("{left_out} more events were left out");
    Ok(())
}

/// Logs to `writer`, and returns how many suppressed events are not reported yet.
pub fn run<W>(writer: W) -> Result<u64, Box<dyn Error>>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A service uses the machine's clock: `RateLimitFilter::new(quota)`.
    let time = ManualClock::new();
    let limit = RateLimitFilter::builder("5/min burst 3".parse()?)
        .exempt(Level::ERROR) // errors are always logged
        .clock(&time)
        .build()?;
    let lines = fmt::layer().with_writer(writer).with_target(false);
    let lines = lines.without_time().with_ansi(false);
    let log = tracing_subscriber::registry().with(limit.clone().over(lines));
    tracing::subscriber::with_default(log, || {
        for attempt in 1..=2_000 {
            warn!(attempt, "connection refused");
            if attempt % 1_000 == 0 {
                info!("another line of code has a limit of its own");
            }
            time.advance(Duration::from_millis(10));
        }
        error!("gave up");
    });
    Ok(limit.suppressed())
}
