//! Listeners and connections.

use crate::bounds::{MAX_MESSAGE, MAX_STREAMS, MAX_UNREAD, ServerBounds};
use crate::config::{Config, Problem};
use crate::grpc::Services;
use crate::http::Site;
use crate::limits::DecideLimits;
use crate::resp::{self, Talk};
use crate::token::Token;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Door {
    /// HTTP/1.1 and HTTP/2 without TLS.
    Http,
    /// RESP2 and RESP3, of Redis.
    Resp,
    /// gRPC over HTTP/2 without TLS: Envoy's rate limit service, health and reflection.
    Grpc,
}

/// Limits behind doors.
///
/// ```
/// use flowgate_server::{Config, Door, DecideLimits, DecideServer, DecisionTime};
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
///
/// let config = Config::parse("api", "{domain: api, descriptors: [{key: user, quota: 2/min}]}")?;
/// let mut server = DecideServer::new(DecideLimits::new(&config, &DecisionTime::system())?);
/// let address = server.listen(Door::Resp, "127.0.0.1:0".parse()?)?;
///
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let (end, ended) = tokio::sync::oneshot::channel::<()>();
/// let running = runtime.spawn(server.run(async { drop(ended.await) }));
///
/// let mut client = TcpStream::connect(address)?;
/// client.write_all(b"FG.ASK api.user alice\r\nQUIT\r\n")?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert_eq!(answer, "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:30000\r\n+OK\r\n");
/// drop(end);
/// runtime.block_on(running)??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a server does nothing until it runs"]
#[derive(Debug)]
pub struct DecideServer {
    limits: Arc<RwLock<Arc<DecideLimits>>>,
    bounds: ServerBounds,
    token: Option<Token>,
    listeners: Vec<(Door, TcpListener)>,
}

/// Replaces the limits of a server that runs.
#[derive(Clone, Debug)]
pub struct Reloader(Arc<RwLock<Arc<DecideLimits>>>);

impl Reloader {
    /// Replaces the limits by those of another configuration. What was taken stays taken.
    ///
    /// # Errors
    ///
    /// Returns a [`Problem`], and changes nothing, if the limits cannot be kept.
    pub fn reload(&self, config: &Config) -> Result<(), Problem> {
        let reloaded = current(&self.0).reloaded(config)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(reloaded);
        Ok(())
    }
}

fn current(limits: &RwLock<Arc<DecideLimits>>) -> Arc<DecideLimits> {
    // A pointer is replaced in one step.
    Arc::clone(&limits.read().unwrap_or_else(PoisonError::into_inner))
}

impl DecideServer {
    /// Creates a server without doors.
    pub fn new(limits: DecideLimits) -> Self {
        Self {
            limits: Arc::new(RwLock::new(Arc::new(limits))),
            bounds: ServerBounds::default(),
            token: None,
            listeners: Vec::new(),
        }
    }

    /// Sets what clients may use.
    pub fn bounds(mut self, bounds: ServerBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets a secret that every client must send: `AUTH SECRET`, or `Authorization: Bearer SECRET`.
    pub fn secret(mut self, secret: &str) -> Self {
        self.token = Some(Token::new(secret));
        self
    }

    /// Opens a door, and returns its address. Port 0 is any free port. Clients are accepted when the server runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is in use, or the system refuses it.
    pub fn listen(&mut self, door: Door, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.listeners.push((door, listener));
        Ok(address)
    }

    /// Returns a handle that replaces the limits while the server runs.
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.limits))
    }

    /// Answers clients until `end` completes, and then those in flight, for at most [`ServerBounds::drain_time`].
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses to watch a listener.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with I/O and time.
    pub async fn run(self, end: impl Future<Output = ()>) -> io::Result<()> {
        let places = Arc::new(Places::new(&self.bounds));
        let (tell, ending) = watch::channel(());
        let drain_time = self.bounds.drain_time;
        let site = Arc::new(Site {
            limits: self.limits,
            token: self.token,
            bounds: self.bounds,
        });
        for (door, listener) in self.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (site, places) = (Arc::clone(&site), Arc::clone(&places));
            tokio::spawn(accept(listener, door, site, places, ending.clone()));
        }
        drop(ending);
        end.await;
        // Ends the listeners, and each connection after what it answers now.
        drop(tell);
        let _ = timeout(drain_time, places.all_free()).await;
        Ok(())
    }
}

/// Connections, in all and for each address.
struct Places {
    connections: u32,
    per_address: usize,
    all: Arc<Semaphore>,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    next_id: AtomicU64,
}

/// One connection of an address.
struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    fn new(bounds: &ServerBounds) -> Self {
        let connections = u32::try_from(bounds.connections).unwrap_or(u32::MAX);
        Self {
            connections,
            per_address: bounds.connections_per_address,
            all: Arc::new(Semaphore::new(connections as usize)),
            addresses: Mutex::default(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Counts a connection. `None` if its address has as many as it may have.
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(address).or_insert(0);
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Place {
            places: Arc::clone(self),
            address,
        })
    }

    async fn all_free(&self) {
        // The semaphore is never closed.
        let _ = self.all.acquire_many(self.connections).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let addresses = &self.places.addresses;
        let mut addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// Accepts clients of one door until the server ends.
async fn accept(
    listener: tokio::net::TcpListener,
    door: Door,
    site: Arc<Site>,
    places: Arc<Places>,
    mut ending: watch::Receiver<()>,
) {
    loop {
        let accepted = async {
            let place = Arc::clone(&places.all).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = ending.changed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            // Probably too many open files: some will be closed soon.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(place) = places.take(peer.ip()) else {
            continue;
        };
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let site = Arc::clone(&site);
        let ending = ending.clone();
        tokio::spawn(async move {
            let mut end = ending.clone();
            let ended = async move { _ = end.changed().await };
            match door {
                Door::Http => {
                    let of = Arc::clone(&site);
                    let answer = move |request| {
                        let site = Arc::clone(&of);
                        async move { site.answer(request).await }
                    };
                    serve_http(stream, &site.bounds, http(&site.bounds), answer, ended).await;
                }
                Door::Grpc => {
                    let services = Arc::new(Services::new(Arc::clone(&site), ending));
                    let answer = move |request| {
                        let services = Arc::clone(&services);
                        async move { services.answer(request).await }
                    };
                    let http2 = http(&site.bounds).http2_only();
                    serve_http(stream, &site.bounds, http2, answer, ended).await;
                }
                Door::Resp => {
                    let id = place.places.next_id.fetch_add(1, Relaxed);
                    let talk = Talk::new(id, site.token.as_ref());
                    // A client that leaves, or that is too slow, is no concern of the server.
                    let _ = resp::serve(stream, talk, &site, ended).await;
                }
            }
            drop((place, permit));
        });
    }
}

/// Both versions of HTTP within their bounds.
fn http(bounds: &ServerBounds) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_time)
        .max_buf_size(MAX_MESSAGE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(MAX_UNREAD)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Answers requests of one connection.
async fn serve_http<A, B>(
    stream: TcpStream,
    bounds: &ServerBounds,
    builder: auto::Builder<TokioExecutor>,
    answer: impl Fn(Request<Incoming>) -> A,
    ended: impl Future<Output = ()>,
) where
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    let is_asked = AtomicBool::new(false);
    let answer = service_fn(|request| {
        is_asked.store(true, Relaxed);
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let mut first = pin!(sleep(bounds.head_time));
    let mut ended = pin!(ended);
    let (mut is_first, mut is_ending) = (true, false);
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            // Whether this is HTTP/2 is not known before some bytes are there, and nothing else limits that time.
            () = &mut first, if is_first => {
                is_first = false;
                if !is_asked.load(Relaxed) {
                    // A client that is about to ask opens another connection, and loses nothing.
                    connection.as_mut().graceful_shutdown();
                }
            }
            () = &mut ended, if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

impl Site {
    pub(crate) fn limits(&self) -> Arc<DecideLimits> {
        current(&self.limits)
    }
}
