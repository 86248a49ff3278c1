//! A pool of three connections to a database that accepts 100 queries per second. A query acquires a connection *and* a token
//! of the rate limit, or neither.
//!
//! ```text
//! cargo run -p flowgate --example database_pool
//! ```
//!
//! Eight tasks send queries as fast as they can. One more task has a deadline, and fails immediately if it cannot meet the
//! deadline.

use flowgate::{ConcurrencyLimit, Denied, Gate, Observed, TokenBucket};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const CONNECTIONS: u32 = 3;
const TASKS: u32 = 8;
const QUERIES: u32 = 3;

/// Connections that are open and idle. The gate guards them: every holder of a permit finds one.
#[derive(Default)]
struct Pool {
    idle: Mutex<Vec<u32>>,
    in_use: AtomicU32,
    most_in_use: AtomicU32,
}

impl Pool {
    async fn query(&self, took: Duration) -> Option<()> {
        let connection = self.idle.lock().ok()?.pop()?;
        let in_use = self.in_use.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_use.fetch_max(in_use, Ordering::SeqCst);
        sleep(took).await;
        self.in_use.fetch_sub(1, Ordering::SeqCst);
        self.idle.lock().ok()?.push(connection);
        Some(())
    }
}

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}

/// Runs the example, and returns the lines to print.
pub async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let gate = Gate::builder()
        .limit("queries", TokenBucket::new("100/s burst 5".parse()?))
        .limit("connections", ConcurrencyLimit::new(CONNECTIONS))
        .build()?;
    let gate = Arc::new(Observed::new(gate));
    let pool = Arc::new(Pool::default());
    pool.idle
        .lock()
        .map_err(|_| "it is new")?
        .extend(0..CONNECTIONS);

    let began = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (gate, pool) = (Arc::clone(&gate), Arc::clone(&pool));
            tokio::spawn(async move {
                let mut done = 0;
                for _ in 0..QUERIES {
                    let _permit = gate.acquire().await?;
                    let answer = pool.query(Duration::from_millis(20)).await;
                    done += u32::from(answer.is_some());
                }
                Ok::<_, Denied>(done)
            })
        })
        .collect();
    tokio::task::yield_now().await;

    let mut lines = Vec::new();
    match gate.acquire().within(Duration::from_millis(5)).await {
        Ok(_) => lines.push("a hurried query was lucky".to_owned()),
        Err(denied) => {
            let limit = gate.get_ref().name_of(&denied).unwrap_or("line");
            lines.push(format!("a hurried query, by its {limit}: {denied}"));
        }
    }
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    let most = pool.most_in_use.load(Ordering::SeqCst);
    lines.push(format!(
        "{done} queries, on {most} connections at most, in {} ms",
        began.elapsed().as_millis()
    ));
    lines.push(gate.counts().to_string());
    lines.push(gate.waits().to_string());
    Ok(lines)
}
