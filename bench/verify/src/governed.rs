//! axum behind tower_governor, as its users set it up.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::{self, JoinHandle};

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// A server with 100/s and a burst of 20 per peer address, with headers.
///
/// It runs in a separate thread on a free port of 127.0.0.1, and ends when this value is dropped.
pub struct Governed {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Governed {
    /// # Errors
    ///
    /// A message if there is no free port, or no thread.
    pub fn start() -> Result<Governed, String> {
        let failed = |error| format!("axum cannot be started: {error}");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let config = GovernorConfigBuilder::default()
            .per_millisecond(10)
            .burst_size(20)
            .use_headers()
            .finish();
        let config = config.ok_or("neither burst nor period is 0")?;
        let router = Router::new()
            .route("/", get(|| async { "ok" }))
            .layer(GovernorLayer::new(config))
            .into_make_service_with_connect_info::<SocketAddr>();
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            tokio::select! {
                _ = stopped => {}
                _ = axum::serve(listener, router) => {}
            }
        };
        let thread = thread::Builder::new().spawn(move || runtime.block_on(serve));
        Ok(Governed {
            address,
            stop: Some(stop),
            thread: Some(thread.map_err(failed)?),
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Governed {
    fn drop(&mut self) {
        // Dropped, it stops the server.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
