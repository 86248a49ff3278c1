//! A service with a limit for each tenant: 3 requests per hour, 6 for those who pay; the health check has none. It is
//! started on a free port, asked a few times, and says what it answered.
//!
//! ```text
//! cargo run -p flowgate-tower --example axum_tenants
//! ```

use axum::Router;
use axum::routing::get;
use flowgate::{Keyed, Quota};
use flowgate_tower::{LimitLayer, by};
use http::{Request, header::RETRY_AFTER};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}

/// The service, and what it says to a few tenants.
pub async fn run() -> Result<Vec<String>, AnyError> {
    // Memory for 10,000 tenants, 240 kB, and never more.
    let tenants = Keyed::token_bucket(Quota::per_hour(3)).capacity(10_000)?;
    let limit = LimitLayer::keyed(tenants, by::header("x-tenant"))
        .name("per tenant")
        .quota_of(|_request, tenant| tenant.starts_with("gold-").then_some(Quota::per_hour(6)))
        .exempt_paths(["/health"])
        .on_rejected(|rejection| rejection.problem_details());
    let counts = limit.counts();
    let app = Router::new()
        .route("/", get(async || "hello"))
        .route("/health", get(async || "ok"))
        .layer(limit);

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let server = listener.local_addr()?;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async { axum::serve(listener, app).await });

    let mut lines = Vec::new();
    for tenant in ["acme", "gold-corp"] {
        for _ in 0..7 {
            lines.push(ask(server, "/", Some(tenant)).await?);
        }
    }
    lines.push(ask(server, "/", None).await?);
    lines.push(ask(server, "/health", None).await?);

    let counts = counts.get();
    lines.push(format!(
        "{} let through, {} rejected, {} exempt",
        counts.admitted, counts.refused, counts.exempt
    ));
    serving.abort();
    Ok(lines)
}

/// One request, and what came of it in a line.
async fn ask(server: SocketAddr, path: &str, tenant: Option<&str>) -> Result<String, AnyError> {
    let mut request = Request::get(format!("http://{server}{path}"));
    if let Some(tenant) = tenant {
        request = request.header("x-tenant", tenant);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request.body(Empty::<bytes::Bytes>::new())?)
        .await?;
    let status = response.status().as_u16();
    let field = |name: &str| match response.headers().get(name) {
        Some(value) => value.to_str().unwrap_or("?").to_owned(),
        None => "-".to_owned(),
    };
    let (standing, retry_after) = (field("ratelimit"), field(RETRY_AFTER.as_str()));
    let body = response.into_body().collect().await?.to_bytes();
    let tenant = tenant.unwrap_or("nobody");
    let body = String::from_utf8_lossy(&body);
    Ok(format!(
        "{tenant:<9} {path:<7} {status}  {standing:<29} retry-after {retry_after:<4}  {}",
        body.trim_end()
    ))
}
