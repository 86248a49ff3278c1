//! The layer in axum, under as much as a load generator can send.

#![cfg(unix)]

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use flowgate::{Quota, TokenBucket};
use flowgate_tower::LimitLayer;
use http::{Response, StatusCode};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tower::util::MapResponseLayer;

const RATE: u64 = 100;
const BURST: u64 = 20;

/// What the server has answered.
#[derive(Default)]
struct Statuses {
    ok: AtomicU64,
    too_many: AtomicU64,
    others: AtomicU64,
}

impl Statuses {
    fn count(&self, status: StatusCode) {
        let counter = match status {
            StatusCode::OK => &self.ok,
            StatusCode::TOO_MANY_REQUESTS => &self.too_many,
            _ => &self.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two seconds at full speed over 20 connections; `None` if wrk is not installed.
fn wrk(url: &str) -> Option<Output> {
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", "-c20", "-d2s", "--timeout", "5s", url]);
    match wrk.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        output => Some(output.expect("wrk can be run")),
    }
}

/// The number in `text` before `unit`.
fn number_before(text: &str, unit: &str) -> u64 {
    let (before, _) = text.split_once(unit).expect("wrk says how many there were");
    let number = before.split_whitespace().last().expect("a number");
    number.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c1_wrk_at_full_speed_gets_burst_and_rate() {
    let layer = LimitLayer::new(TokenBucket::new(Quota::per_second(RATE).burst(BURST)));
    let counts = layer.counts();
    let statuses = Arc::new(Statuses::default());
    let seen = Arc::clone(&statuses);
    let app = Router::new()
        .route("/", get(async || "hello"))
        .layer(layer)
        .layer(MapResponseLayer::new(move |response: Response<Body>| {
            seen.count(response.status());
            response
        }));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async { axum::serve(listener, app).await });

    let begin = Instant::now();
    let url = format!("http://{address}/");
    let output = spawn_blocking(move || wrk(&url)).await.expect("no panic");
    let Some(output) = output else {
        println!("SKIPPED: wrk is not installed (Debian: apt-get install wrk)");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");

    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (ok, too_many) = (read(&statuses.ok), read(&statuses.too_many));
    // Every answer that was counted had been decided on before now.
    let elapsed_ns = begin.elapsed().as_nanos();
    let most = u128::from(BURST) + u128::from(RATE) * elapsed_ns / 1_000_000_000;
    assert!(u128::from(ok) <= most, "{ok} in {elapsed_ns} ns");
    assert!(ok >= BURST, "{ok}: {text}");
    assert!(too_many > 0, "no load at all: {text}");
    assert_eq!(read(&statuses.others), 0, "{text}");
    assert!(counts.get().admitted >= ok);

    // And as wrk saw it, which does not count what was on its way at the end.
    let requests = number_before(&text, " requests in");
    let refused = text.split_once("Non-2xx or 3xx responses: ");
    let (_, refused) = refused.expect("most were refused");
    let refused: u64 = refused
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number");
    assert!(
        requests - refused <= ok,
        "{ok} were admitted by the server: {text}"
    );
    assert!(!text.contains("Socket errors"), "{text}");
}
