//! A gRPC service behind a gate: 3 calls per hour, and 2 concurrently. The status code of a refusal shows which limit
//! refused, and a call waits no longer than its `grpc-timeout`.
//!
//! ```text
//! cargo run -p flowgate-tower --example tonic_gate
//! ```

use flowgate::{ConcurrencyLimit, Gate, TokenBucket};
use flowgate_tower::LimitLayer;
use std::error::Error;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::Request;
use tonic::transport::{Channel, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run().await?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Starts the service, and returns a client's results.
pub async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    // A call needs a token and a permit, and takes both or neither. A stream holds its permit until it ends.
    let gate = Gate::builder()
        .limit("calls", TokenBucket::new("3/h".parse()?))
        .limit("in flight", ConcurrencyLimit::new(2))
        .build()?;
    let limit = LimitLayer::new(gate);
    let controls = limit.controls();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (_reporter, service) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(limit).add_service(service);
    let server = tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let mut client = HealthClient::new(Channel::from_shared(url)?.connect().await?);
    let check = HealthCheckRequest::default;

    let streams = [client.watch(check()).await?, client.watch(check()).await?];
    let busy = client
        .check(check())
        .await
        .expect_err("both slots are held");

    controls.set_wait(Some(Duration::from_secs(3600))); // from now on, calls wait
    drop(streams);
    client.check(check()).await?; // waits until a slot is free

    let mut hurried = Request::new(check());
    hurried.set_timeout(Duration::from_secs(30));
    // The next token is 20 minutes away. The call is refused immediately, and not after 30 s.
    let over = client.check(hurried).await.expect_err("no token is left");

    server.abort();
    let line = |status: tonic::Status| format!("{:?}: {}", status.code(), status.message());
    Ok(vec![line(busy), line(over)])
}
