//! A crawler of 1,000 hosts: each is asked every two seconds at most, fifty requests are in flight, and 15,000 pages are
//! fetched a day. It fetches 20,000 pages under tokio's paused clock: a day in less than a second.
//!
//! ```text
//! cargo run -p flowgate --example polite_crawler
//! ```

use flowgate::{Clock, ConcurrencyLimit, Denied, FixedWindow, Gate, Keyed};
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[allow(dead_code, reason = "the test calls `crawl`")]
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let (took, shortest) = crawl(20_000).await?;
    println!("{took:.0?}; the shortest time between two pages of one host: {shortest:?}");
    Ok(())
}

/// How long it takes to fetch `pages`, and the shortest time between two of one host.
pub async fn crawl(pages: u64) -> Result<(Duration, Duration), Box<dyn Error>> {
    let clock = Clock::tokio();
    let slots = ConcurrencyLimit::builder(50).clock(&clock).build()?;
    let budget = FixedWindow::builder("15000/day".parse()?).clock(&clock);
    let hosts = Keyed::leaky_bucket("1/2s".parse()?).clock(&clock);
    let gate = Gate::builder()
        .limit("slots", slots)
        .limit("budget", budget.build()?)
        .keyed("host", hosts.capacity(10_000)?);
    let gate = Arc::new(gate.build()?);

    let began = Instant::now();
    let seen = Arc::new(Mutex::new((HashMap::new(), Duration::MAX)));
    let fetch = |page: u64| {
        let (gate, seen) = (Arc::clone(&gate), Arc::clone(&seen));
        async move {
            let host = page * page % 1_000; // a few hosts have most of the pages
            let permit = gate.acquire(&host).await?;
            {
                let (last, shortest) = &mut *seen.lock().expect("no panic");
                if let Some(before) = last.insert(host, Instant::now()) {
                    *shortest = before.elapsed().min(*shortest);
                }
            }
            sleep(Duration::from_millis(100 + page % 4_000)).await;
            drop(permit);
            Ok::<_, Denied>(())
        }
    };
    let tasks: Vec<_> = (0..pages).map(|page| tokio::spawn(fetch(page))).collect();
    for task in tasks {
        task.await??;
    }
    let shortest = seen.lock().expect("no panic").1;
    Ok((began.elapsed(), shortest))
}
