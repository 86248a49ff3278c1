//! Plain threads without async: 4 threads share 100 operations per second, at constant intervals. They wait in one queue, and
//! a handle ends their waits at shutdown.
//!
//! ```text
//! cargo run -p flowgate --example threads
//! ```

use flowgate::{CancelHandle, LeakyBucket, Quota, QuotaError};
use std::thread;
use std::time::Duration;

/// A limiter can be a `static`, which threads share without an `Arc`.
static LIMIT: LeakyBucket = LeakyBucket::new(Quota::per_second(100));

#[allow(dead_code, reason = "the test calls `run`")]
fn main() -> Result<(), QuotaError> {
    let (distances, [cancelled, hurried]) = run()?;
    let (operations, shortest) = (distances.len() + 1, distances.into_iter().min());
    let shortest = shortest.unwrap_or_default();
    println!("{operations} operations by 4 threads, at least {shortest:?} apart");
    println!("a wait that the shutdown ended: {cancelled}");
    println!("a wait of at most 60 s: {hurried}");
    Ok(())
}

/// Returns the times between 20 operations, and the results of two waits.
///
/// One wait ends at shutdown, the other has a deadline.
pub fn run() -> Result<(Vec<Duration>, [String; 2]), QuotaError> {
    let operate = || {
        let grant = LIMIT.acquire().block().expect("it is not closed"); // blocks this thread only
        // … the operation …
        grant.at() // the time for which the limiter granted it
    };
    let mut times = thread::scope(|scope| {
        let five = move || [(); 5].map(|()| operate());
        let threads = [(); 4].map(|()| scope.spawn(five));
        threads
            .map(|thread| thread.join().expect("no panic"))
            .concat()
    });
    times.sort();
    let pairs = times.windows(2);
    let distances = pairs.map(|pair| pair[1].saturating_duration_since(pair[0]));
    let distances = distances.collect();

    // A thread that waits for an hour, until the program shuts down.
    let hourly = LeakyBucket::new("1/h".parse()?);
    let shutdown = CancelHandle::new();
    hourly.try_acquire().expect("the first one is free");
    let cancelled = thread::scope(|scope| {
        let waiting = scope.spawn(|| hourly.acquire().cancelled_by(&shutdown).block());
        shutdown.cancel();
        waiting.join().expect("no panic")
    });
    // A thread with a deadline does not wait in vain: it fails immediately.
    let hurried = hourly.acquire().within(Duration::from_secs(60)).block();
    let ends = [cancelled, hurried].map(|end| end.expect_err("it takes an hour").to_string());
    Ok((distances, ends))
}
