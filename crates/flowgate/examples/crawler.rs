//! A crawler that no site bans: at most 20 pages per second, at constant intervals, and at most 3 concurrently. Tasks and a
//! thread wait in the same queue. One more task has a deadline that is too short, and is refused immediately.
//!
//! ```text
//! cargo run -p flowgate --example crawler
//! ```

use flowgate::{ConcurrencyLimit, Denied, Gate, LeakyBucket};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const HURRY: Duration = Duration::from_millis(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let site = Gate::builder()
        .limit("pages per second", LeakyBucket::new("20/s".parse()?))
        .limit("in flight", ConcurrencyLimit::new(3))
        .build()?;
    let site = Arc::new(site);
    let began = Instant::now();
    let say = move |what: &str| println!("{:>4} ms  {what}", began.elapsed().as_millis());

    let mut tasks = Vec::new();
    for page in 1..=8 {
        let site = Arc::clone(&site);
        tasks.push(tokio::spawn(async move {
            let permit = site.acquire().await?;
            say(&format!("page {page}"));
            // The second page is slow: after some time, the limit of three concurrent pages delays the others.
            sleep(Duration::from_millis(if page == 2 { 400 } else { 120 })).await;
            drop(permit);
            Ok::<_, Denied>(())
        }));
    }
    let thread = std::thread::spawn({
        let site = Arc::clone(&site);
        move || {
            let permit = site.acquire().block()?;
            say("a page for a thread");
            std::thread::sleep(Duration::from_millis(120));
            drop(permit);
            Ok::<_, Denied>(())
        }
    });

    sleep(Duration::from_millis(75)).await;
    if let Err(denied) = site.acquire().within(HURRY).await {
        let waiting = site.queue().len();
        say(&format!(
            "a caller that has only {HURRY:?} is refused immediately, behind {waiting} others: {denied}"
        ));
    }
    for task in tasks {
        task.await??;
    }
    thread.join().expect("it does not panic")?;
    say("all done");
    Ok(())
}
