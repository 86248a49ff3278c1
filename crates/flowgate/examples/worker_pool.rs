//! A worker pool: 4 jobs run at the same time, and only 2 after the pool was shrunk while it works. Jobs start in order of
//! arrival. A job that is in a hurry gives up at its deadline, and delays no other job.
//!
//! ```text
//! cargo run -p flowgate --example worker_pool
//! ```

use flowgate::{Clock, ConcurrencyLimit, Denied};
use std::error::Error;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    for (ms, what) in run().await? {
        println!("{ms:>3} ms  {what}");
    }
    Ok(())
}

/// Runs 12 jobs of 100 ms each. Returns what happened, and after how many milliseconds.
pub async fn run() -> Result<Vec<(u128, String)>, Box<dyn Error>> {
    // With the machine's clock: `ConcurrencyLimit::new(4)`.
    let pool = ConcurrencyLimit::builder(4).clock(Clock::tokio()).build()?;
    let pool = Arc::new(pool);
    let (log, entries) = mpsc::channel();
    let began = Instant::now();
    let say = move |what: String| _ = log.send((began.elapsed().as_millis(), what));

    let job = |number: u32| {
        let (pool, say) = (Arc::clone(&pool), say.clone());
        async move {
            let permit = pool.acquire().await?; // waits behind the jobs that came before
            let running = pool.in_flight();
            say(format!("job {number} starts, {running} running"));
            sleep(Duration::from_millis(100)).await; // the work
            drop(permit); // the next job starts
            Ok::<_, Denied>(())
        }
    };
    let jobs: Vec<_> = (1..=12).map(|number| tokio::spawn(job(number))).collect();
    sleep(Duration::from_millis(150)).await;
    pool.set_limit(2)?; // jobs that run go on
    say("the pool shrinks to 2".to_owned());
    let hurried = pool.acquire().within(Duration::from_millis(20)).await;
    let denied = hurried.expect_err("all are busy");
    say(format!("a hurried job gives up: {denied}"));
    for job in jobs {
        job.await??;
    }
    say("all done".to_owned());
    drop(say);
    Ok(entries.into_iter().collect())
}
