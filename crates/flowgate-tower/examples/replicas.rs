//! Four processes of one service split a limit of 40 requests per hour: 10 for each process. Together, they never admit
//! more. A process does not share what it does not use: a process that gets all requests refuses all except 10.
//!
//! ```text
//! cargo run -p flowgate-tower --example replicas
//! ```

use axum::{Router, routing::get};
use flowgate::{Quota, TokenBucket};
use flowgate_tower::LimitLayer;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().any(|word| word == "replica") {
        return serve().await;
    }
    let mut replica = Command::new(std::env::current_exe()?);
    let [all, one] = run(replica.arg("replica")).await?;
    println!("let through: {all} of 60 requests to all in turn, {one} of 60 to one of them");
    Ok(())
}

/// One process of the service, with its share of the limit. It ends when its input ends, and so with its parent.
pub async fn serve() -> Result<(), Box<dyn Error>> {
    let share = TokenBucket::new(Quota::per_hour(40 / 4));
    let app = Router::new().route("/", get(async || "hello"));
    let app = app.layer(LimitLayer::new(share));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("http://{}/", listener.local_addr()?);
    let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let server = axum::serve(listener, app).with_graceful_shutdown(async { _ = parent.await });
    Ok(server.await?)
}

/// Counts how many of 60 requests all replicas admit, and how many one admits.
pub async fn run(replica: &mut Command) -> Result<[u32; 2], Box<dyn Error>> {
    let mut admitted = [0; 2];
    for (admitted, asked) in admitted.iter_mut().zip([4, 1]) {
        let mut replicas = Vec::new();
        for _ in 0..4 {
            let pipes = replica.stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut process = pipes.spawn()?;
            let mut url = String::new();
            BufReader::new(process.stderr.take().unwrap()).read_line(&mut url)?;
            replicas.push((process, url));
        }
        for (_, url) in replicas[..asked].iter().cycle().take(60) {
            let response = reqwest::get(url.trim()).await?;
            *admitted += u32::from(response.status().is_success());
        }
        for (mut process, _) in replicas {
            process.wait()?; // closes its input first
        }
    }
    Ok(admitted)
}
