//! An axum server under twice its load, over sockets: what holds whatever the machine's timing.

use axum::Router;
use axum::routing::get;
use flowgate::{
    Adapt, AdaptWindow, AdaptiveLimit, FineLimit, Gradient, PriorityShedder, Timestamp,
};
use flowgate_tower::LimitLayer;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const WORKERS: usize = 4;

/// A gradient, and the number of outcomes that it has seen.
struct Counted {
    algorithm: Gradient,
    outcomes: Arc<AtomicU64>,
}

impl Adapt for Counted {
    fn initial(&self) -> FineLimit {
        FineLimit::whole(2)
    }

    fn on_window(&mut self, now: Timestamp, window: &AdaptWindow) -> FineLimit {
        let outcomes = window.successes + window.overloads;
        self.outcomes.fetch_add(outcomes, Ordering::Relaxed);
        self.algorithm.on_window(now, window)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_returns_all_permits_and_counts_each_outcome_once() {
    let outcomes = Arc::new(AtomicU64::new(0));
    let algorithm = Counted {
        algorithm: Gradient::default(),
        outcomes: Arc::clone(&outcomes),
    };
    let (min, max) = (FineLimit::ONE, FineLimit::whole(64));
    let limit = AdaptiveLimit::builder(algorithm)
        .bounds(min, max)
        .shortest_window(Duration::from_millis(1))
        .min_outcomes(10);
    let limit = Arc::new(limit.build().expect("a limit"));
    let layer = LimitLayer::new(Arc::clone(&limit))
        .wait(Duration::from_millis(20))
        .priority(PriorityShedder::new(2).expect("a shedder"), |request| {
            u32::from(request.uri.path() != "/batch")
        });
    let counts = layer.counts();
    let workers = Arc::new(Semaphore::new(WORKERS));
    let work = get(move || {
        let workers = Arc::clone(&workers);
        async move {
            let _worker = workers.acquire_owned().await.expect("never closed");
            tokio::time::sleep(Duration::from_millis(2)).await;
            "done"
        }
    });
    let app = Router::new().route("/{*path}", work).layer(layer);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async { axum::serve(listener, app).await });

    // Twice as many clients as could be served within the maximum wait.
    let clients = (0..8 * WORKERS).map(|n| {
        let url = format!("{url}/{}", if n % 2 == 0 { "batch" } else { "user" });
        tokio::spawn(async move {
            let client = reqwest::Client::new();
            let (mut done, mut refused) = (0, 0);
            for _ in 0..50 {
                let response = client.get(&url).send().await.expect("a response");
                let (status, after) = (
                    response.status(),
                    response.headers().get("retry-after").cloned(),
                );
                let text = response.text().await.expect("a body");
                match status.as_u16() {
                    200 => done += u64::from(text == "done"),
                    503 => refused += 1,
                    other => panic!("{other}: {text}"),
                }
                let seconds = after.map(|after| after.to_str().expect("text").parse::<u64>());
                assert!(seconds.is_none_or(|seconds| status == 503 && seconds == Ok(1)));
            }
            (done, refused)
        })
    });
    let (mut done, mut refused) = (0, 0);
    for client in clients.collect::<Vec<_>>() {
        let of_client = client.await.expect("no panic");
        (done, refused) = (done + of_client.0, refused + of_client.1);
    }
    assert_eq!(done + refused, 8 * WORKERS as u64 * 50);
    let counted = counts.get();
    assert_eq!((counted.admitted, counted.refused), (done, refused));
    assert_eq!((limit.in_flight(), limit.inspect().waiting), (0, 0));
    assert!((min..=max).contains(&limit.limit()));

    // The last outcomes are in the window that is still open. Some requests close it.
    let client = reqwest::Client::new();
    while outcomes.load(Ordering::Relaxed) < done {
        let response = client
            .get(format!("{url}/user"))
            .send()
            .await
            .expect("a response");
        done += u64::from(response.status() == 200);
        response.text().await.expect("a body");
    }
    assert_eq!(outcomes.load(Ordering::Relaxed), done);
    server.abort();
}
