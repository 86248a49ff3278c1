//! An axum server with workers and random service times, behind an adaptive limit.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use flowgate::{AdaptiveLimit, Gradient};
use flowgate_tower::LimitLayer;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::{DEADLINE, Measured, SERVICE, WORKERS};

pub struct Server {
    /// The server ends with it.
    runtime: Runtime,
    address: SocketAddr,
    service: Arc<Service>,
    duration: Duration,
}

/// What the requests share.
struct Service {
    workers: Semaphore,
    limit: Arc<AdaptiveLimit<Gradient>>,
    began: Instant,
    slowdown: f64,
    /// When the service is slower, since the beginning.
    slow: std::ops::Range<Duration>,
    random: Mutex<fastrand::Rng>,
    requests: AtomicU64,
    /// The sum of the limits that requests met.
    limits: AtomicU64,
    served: Mutex<Vec<Served>>,
}

struct Served {
    latency: Duration,
    service: Duration,
    is_slow: bool,
}

impl Server {
    pub fn start(seed: u64, slowdown: f64, duration: Duration) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let limit = Arc::new(AdaptiveLimit::new(Gradient::default()));
        let layer = LimitLayer::new(Arc::clone(&limit));
        let service = Arc::new(Service {
            workers: Semaphore::new(WORKERS as usize),
            limit,
            began: Instant::now(),
            slowdown,
            slow: duration / 3..duration * 2 / 3,
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            requests: AtomicU64::new(0),
            limits: AtomicU64::new(0),
            served: Mutex::default(),
        });
        let app = Router::new()
            .route("/", get(serve))
            .layer(layer)
            .layer(middleware::from_fn_with_state(Arc::clone(&service), count))
            .with_state(Arc::clone(&service));
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        runtime.spawn(async { axum::serve(listener, app).await });
        Ok(Self {
            runtime,
            address,
            service,
            duration,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops it. Returns what came of the requests, and the service times while it was not slow.
    pub fn finish(self) -> (Measured, Vec<Duration>) {
        self.runtime.shutdown_background();
        let served = lock(&self.service.served);
        let requests = self.service.requests.load(Ordering::Relaxed) as f64;
        let mut latencies: Vec<f64> = served
            .iter()
            .map(|served| served.latency.as_secs_f64() * 1e3)
            .collect();
        latencies.sort_by(f64::total_cmp);
        let count = latencies.len() as f64;
        let in_time = served.iter().filter(|served| served.latency <= DEADLINE);
        let measured = Measured {
            goodput: in_time.count() as f64 / self.duration.as_secs_f64(),
            mean_ms: latencies.iter().sum::<f64>() / count,
            p99_ms: latencies
                .get(latencies.len() * 99 / 100)
                .copied()
                .unwrap_or_default(),
            refused: 1.0 - count / requests,
            limit: self.service.limits.load(Ordering::Relaxed) as f64 / requests,
        };
        let usual = served.iter().filter(|served| !served.is_slow);
        (measured, usual.map(|served| served.service).collect())
    }
}

/// Counts a request, and the limit that it meets.
async fn count(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    service.requests.fetch_add(1, Ordering::Relaxed);
    let permits = service.limit.limit().permits();
    service
        .limits
        .fetch_add(u64::from(permits), Ordering::Relaxed);
    next.run(request).await
}

/// Waits for a worker, who is busy for a random time.
async fn serve(State(service): State<Arc<Service>>) {
    let begun = Instant::now();
    let Ok(_worker) = service.workers.acquire().await else {
        return;
    };
    let is_slow = service.slowdown > 1.0 && service.slow.contains(&service.began.elapsed());
    let share = 1.0 - lock(&service.random).f64();
    let factor = if is_slow { service.slowdown } else { 1.0 };
    let taken = Instant::now();
    tokio::time::sleep(SERVICE.mul_f64(-share.ln() * factor)).await;
    let served = Served {
        latency: begun.elapsed(),
        service: taken.elapsed(),
        is_slow,
    };
    lock(&service.served).push(served);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
