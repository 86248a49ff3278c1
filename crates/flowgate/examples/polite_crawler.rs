//! A crawler of 10,000 hosts: 2 s between two pages of one host, 50 requests in flight, 15,000 pages per day. It fetches
//! 30,000 pages under tokio's paused clock. To run it: `cargo run -p flowgate --example polite_crawler`

use flowgate::{Clock, ConcurrencyLimit, Denied, FixedWindow, Gate, Keyed};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const HOSTS: usize = 10_000;

#[allow(dead_code, reason = "the test calls `crawl`")]
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let (took, distances) = crawl(3).await?;
    let hours = took.as_secs_f64() / 3600.0;
    let shortest = distances.into_iter().min().unwrap_or_default();
    println!("30,000 pages in {hours:.1} hours, those of a host at least {shortest:.0?} apart");
    Ok(())
}

/// Fetches `pages` of each host, and returns the total time.
///
/// Also returns the times between two pages of one host.
pub async fn crawl(pages: usize) -> Result<(Duration, Vec<Duration>), Box<dyn Error>> {
    // One clock for all limits of the gate. Without `clock`, they use the machine's.
    let clock = Clock::tokio();
    let slots = ConcurrencyLimit::builder(50).clock(&clock).build()?;
    let budget = FixedWindow::builder("15000/day".parse()?).clock(&clock);
    let hosts = Keyed::leaky_bucket("1/2s".parse()?).clock(&clock);
    let gate = Gate::builder()
        .limit("slots", slots)
        .limit("budget", budget.build()?);
    let gate = Arc::new(gate.keyed("host", hosts.capacity(HOSTS)?).build()?);

    let visits: Arc<[_]> = (0..HOSTS).map(|_| Mutex::new(Vec::new())).collect();
    let fetch = |page: usize| {
        let (gate, visits) = (Arc::clone(&gate), Arc::clone(&visits));
        async move {
            let host = page / pages; // pages of one host come one after the other, as links do
            let permit = gate.acquire(&host).await?; // all three limits at one instant, or none
            visits[host].lock().expect("no panic").push(Instant::now());
            sleep(Duration::from_millis(100 + page as u64 * 7 % 4_000)).await; // the request
            drop(permit); // the slot is free again
            Ok::<_, Denied>(())
        }
    };
    let began = Instant::now();
    let tasks = (0..pages * HOSTS).map(|page| tokio::spawn(fetch(page)));
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    let mut distances = Vec::new();
    for times in visits.iter() {
        let times = times.lock().expect("no panic");
        distances.extend(times.windows(2).map(|pair| pair[1] - pair[0]));
    }
    Ok((began.elapsed(), distances))
}
