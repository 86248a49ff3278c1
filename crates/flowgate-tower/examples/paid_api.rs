//! A client of a paid API that allows 10 requests per second and 1,000 per day. The client keeps both quotas, also over a
//! restart, and follows `Retry-After`. It sends 1,500 requests. Two days take a second, as the program moves the clock.
//!
//! ```text
//! cargo run -p flowgate-tower --example paid_api
//! ```

use axum::{Router, http::Request, http::StatusCode};
use flowgate::{Gate, Keyed, LeakyBucket, ManualClock, Quota};
use flowgate_tower::client::ClientLayer;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::sync::{Arc, Mutex};
use std::{error::Error, time::Duration};
use tower::{Layer, Service};

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds: Vec<_> = run().await?.into_iter().step_by(100).collect();
    println!("each 100th request, in seconds: {seconds:.1?}");
    Ok(())
}

/// Sends the requests, and returns after how many seconds each of them reached the API.
pub async fn run() -> Result<Vec<f64>, Box<dyn Error>> {
    let time = ManualClock::new(); // without `clock(&time)`, the limits use the machine's clock
    let log = Arc::new(Mutex::new(Vec::new()));
    let (clock, times) = (time.clone(), Arc::clone(&log));
    let api = async move || {
        let mut times = times.lock().unwrap();
        times.push(clock.now().as_nanos() as f64 / 1e9);
        let status = if times.len() == 300 { 503 } else { 200 }; // overloaded once
        let status = StatusCode::from_u16(status).unwrap();
        (status, [("retry-after", "120")])
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async { axum::serve(listener, Router::new().fallback(api)).await });
    // What the day has used is kept in a table of one key, as tables can be saved.
    let day = || Keyed::fixed_window(Quota::per_day(1_000)).clock(&time);
    let mut saved = day().capacity(1)?.export();
    for _start in 0..2 {
        let day = Arc::new(day().import(&saved)?);
        let second = LeakyBucket::builder(Quota::per_second(10)).clock(&time);
        let both = Gate::builder().limit("second", second.build()?);
        let both = both.limit("day", day.key_owned("api")).build()?;
        let http = Client::builder(TokioExecutor::new()).build_http::<String>();
        // Without `within`, `call` waits. With it, the error has the time by which to move the clock.
        let mut client = ClientLayer::new(both).within(Duration::ZERO).layer(http);
        let request = || Request::get(&url).body(String::new());
        for _request in 0..750 {
            while let Err(error) = client.call(request()?).await {
                time.advance(error.retry_after().ok_or(error)?);
            }
        }
        saved = day.export(); // to a file
        time.advance(Duration::from_secs(1)); // the restart
    }
    Ok(log.lock().unwrap().clone())
}
