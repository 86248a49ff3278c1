//! A service with a limit for each tenant: 3 requests per hour, 6 for gold tenants, none for the health check. Then it
//! reloads its quotas while it runs: 5 and 10. A client sends requests over a socket.
//!
//! ```text
//! cargo run -p flowgate-tower --example axum_tenants
//! ```

use axum::{Router, routing::get};
use flowgate::{Keyed, Quota};
use flowgate_tower::{LimitLayer, by};
use std::error::Error;
use std::sync::{Arc, RwLock};
use tokio::net::TcpListener;

#[allow(dead_code, reason = "the test calls `run`")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run().await?.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// Starts the service, and returns its responses.
pub async fn run() -> Result<Vec<String>, Box<dyn Error>> {
    // Memory for 10,000 tenants, 240 kB, and never more.
    let tenants = Arc::new(Keyed::token_bucket(Quota::per_hour(3)).capacity(10_000)?);
    let gold = Arc::new(RwLock::new(Quota::per_hour(6)));
    let gold_now = Arc::clone(&gold);
    let is_gold = |tenant: &str| tenant.starts_with("gold-");
    let limit = LimitLayer::keyed(Arc::clone(&tenants), by::header("x-tenant"))
        .name("per tenant")
        .quota_of(move |_, tenant| is_gold(tenant).then(|| *gold_now.read().unwrap()))
        .exempt_paths(["/health"])
        .on_rejected(|rejection| rejection.problem_details());
    let hello = get(async || "hello");
    let app = Router::new().route("/{*path}", hello).layer(limit);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(async { axum::serve(listener, app).await });

    let client = reqwest::Client::new();
    let ask = async |path: &str, tenant: &str| -> Result<String, reqwest::Error> {
        let request = client.get(format!("{url}/{path}"));
        let response = request.header("x-tenant", tenant).send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        Ok(format!("{tenant:<9} {path:<6} {status}  {text}"))
    };
    let mut lines = vec![ask("health", "").await?, ask("orders", "").await?];
    for quotas in [[3, 6], [5, 10]] {
        // The reload. Tokens that a tenant has taken stay taken, or up to a sixteenth more.
        let [usual, more] = quotas.map(Quota::per_hour);
        tenants.set_quota(usual)?;
        *gold.write().unwrap() = more;
        for tenant in [["acme"; 7], ["gold-corp"; 7]].as_flattened() {
            lines.push(ask("orders", tenant).await?);
        }
    }
    server.abort();
    Ok(lines)
}
