//! A server that finds its own concurrency. Of twice the requests that it can serve, it refuses the least important first.
//!
//! ```text
//! cargo run -p flowgate-tower --example adaptive_server
//! ```

use axum::{Router, routing::get};
use flowgate::{AdaptiveLimit, Gradient, PriorityShedder};
use flowgate_tower::LimitLayer;
use std::{error::Error, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, time};

const LEVELS: [&str; 3] = ["batch", "user", "payment"];

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(4_000).await?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Sends 800 requests per second, and returns what became of them.
pub async fn run(requests: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let limit = Arc::new(AdaptiveLimit::new(Gradient::default()));
    let layer = LimitLayer::new(Arc::clone(&limit))
        .wait(Duration::from_millis(100))
        .priority(PriorityShedder::new(3)?, |request| {
            request.uri.path()[1..].parse().unwrap_or(0)
        });
    // Eight workers, and 20 ms for each request: at most 400 requests per second.
    let workers = Arc::new(Semaphore::new(8));
    let work = get(move || async move {
        let _worker = workers.acquire_owned().await;
        time::sleep(Duration::from_millis(20)).await;
    });
    let app = Router::new().route("/{level}", work).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(async { axum::serve(listener, app).await });

    let client = reqwest::Client::new();
    let mut ticks = time::interval(Duration::from_micros(1250));
    let mut calls = Vec::new();
    for n in 0..requests {
        ticks.tick().await;
        let level = [0, 0, 1, 0, 2, 0, 1, 0, 2, 1][n % 10];
        let call = client.get(format!("{url}/{level}")).send();
        calls.push((level, tokio::spawn(call)));
    }
    let mut fates = [[0, 0]; 3];
    for (level, call) in calls {
        let is_served = call.await??.status().is_success();
        fates[level] = [fates[level][0] + u32::from(is_served), fates[level][1] + 1];
    }
    server.abort();
    let line = |(level, [served, sent]): (&str, [u32; 2])| format!("{level:<8} {served} of {sent}");
    let mut lines: Vec<_> = LEVELS.into_iter().zip(fates).rev().map(line).collect();
    lines.push(format!("limit    {}", limit.limit()));
    Ok(lines)
}
