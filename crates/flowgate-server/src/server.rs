//! Listeners and connections.

use crate::bounds::{MAX_BODIES, MAX_HEADERS, MAX_MESSAGE, MAX_STREAMS, MAX_UNREAD, ServerBounds};
use crate::compare::OtherServer;
use crate::counts::ServerCounts;
use crate::grpc::Services;
use crate::http::{Activity, Arrived, Late, Running, Site, Streams, Timed, Watch};
use crate::limits::DecideLimits;
use crate::places::{Place, Places};
use crate::reload::{Current, Reloader};
use crate::resp::{self, Talk};
use crate::tls::ServerTls;
use crate::token::Token;
use crate::trace::DecideTraces;
use crate::view::DecideViewer;
use futures_util::FutureExt;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};
use tracing::{Instrument, Span, debug_span};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Door {
    /// HTTP/1.1 and HTTP/2 without TLS.
    Http,
    /// RESP2 and RESP3, of Redis.
    Resp,
    /// HTTP for operators: `/metrics`, `/healthz`, `/readyz` and `/config`.
    ///
    /// Its connections are bounded by themselves, and it answers until the last client of the other doors is gone.
    Admin,
    /// gRPC over HTTP/2: Envoy's rate limit services, health and reflection.
    Grpc,
}

impl Door {
    pub(crate) const ALL: [Self; 4] = [Self::Http, Self::Resp, Self::Admin, Self::Grpc];

    /// Returns the name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Admin => "admin",
            Self::Grpc => "grpc",
        }
    }
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
    current: Arc<Current>,
    bounds: ServerBounds,
    token: Option<Token>,
    listeners: Vec<(Door, TcpListener)>,
    other: Option<OtherServer>,
    traces: Option<DecideTraces>,
    counts: Arc<ServerCounts>,
}

impl DecideServer {
    /// Creates a server without doors.
    pub fn new(limits: DecideLimits) -> Self {
        Self {
            current: Arc::new(Current::new(limits)),
            bounds: ServerBounds::default(),
            token: None,
            listeners: Vec::new(),
            other: None,
            traces: None,
            counts: Arc::new(ServerCounts::new()),
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

    /// Asks another server each question of Envoy, too, to see where the two differ.
    pub fn compare_with(mut self, other: OtherServer) -> Self {
        self.other = Some(other);
        self
    }

    /// Delivers spans of sampled requests.
    pub fn trace(mut self, traces: DecideTraces) -> Self {
        self.traces = Some(traces);
        self
    }

    /// Encrypts all doors, with this certificate.
    pub fn tls(self, tls: ServerTls) -> Self {
        self.current.set_tls(tls);
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
        Reloader::new(&self.current, &self.counts)
    }

    /// Returns a handle that looks at the server while it runs.
    pub fn viewer(&self) -> DecideViewer {
        DecideViewer::new(&self.current, &self.counts)
    }

    /// Answers clients until `end` completes, and then those in flight, for at most [`ServerBounds::drain_time`].
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses to watch a listener, or refuses the thread of [`trace`](Self::trace).
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with I/O and time.
    pub async fn run(self, end: impl Future<Output = ()>) -> io::Result<()> {
        let places = Arc::new(Places::new(&self.bounds));
        let places_of_operators = Arc::new(Places::new(&ServerBounds {
            connections: self.bounds.operators,
            connections_per_address: self.bounds.operators,
            ..self.bounds.clone()
        }));
        let (tell, ending) = watch::channel(());
        let (tell_operators, ending_of_operators) = watch::channel(());
        let drain_time = self.bounds.drain_time;
        let traces = self.traces;
        let tracer = traces.map(|traces| traces.begin(self.counts.spans()));
        let site = Arc::new(Site {
            tracer: tracer.transpose()?,
            current: self.current,
            token: self.token,
            bounds: self.bounds,
            counts: self.counts,
            other: self.other.map(OtherServer::begin),
            page: Mutex::default(),
            is_ending: AtomicBool::new(false),
        });
        for (door, listener) in self.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (places, ending) = match door {
                Door::Admin => (&places_of_operators, &ending_of_operators),
                _ => (&places, &ending),
            };
            let (site, places) = (Arc::clone(&site), Arc::clone(places));
            tokio::spawn(accept(listener, door, site, places, ending.clone()));
        }
        drop((ending, ending_of_operators));
        end.await;
        site.is_ending.store(true, Relaxed);
        // Ends the listeners, and each connection after what it answers now.
        drop(tell);
        let _ = timeout(drain_time, places.all_free()).await;
        if let Some(tracer) = &site.tracer {
            tracer.end().await;
        }
        // Operators see the end.
        drop(tell_operators);
        let _ = timeout(LAST_LOOK, places_of_operators.all_free()).await;
        Ok(())
    }
}

/// The time for operators to read what they have asked for.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// Accepts clients of one door until the server ends.
async fn accept(
    listener: tokio::net::TcpListener,
    door: Door,
    site: Arc<Site>,
    places: Arc<Places>,
    mut ending: watch::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ending.changed() => return,
        };
        let Ok((stream, peer)) = accepted else {
            // Probably too many open files: some will be closed soon.
            site.counts.accept_error();
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Some(place) = places.take(peer.ip()) else {
            site.counts.refused(door);
            continue;
        };
        // Until there is room, this one and those in the system's queue wait.
        let permit = tokio::select! {
            permit = places.any() => permit,
            _ = ending.changed() => return,
        };
        let open = site.counts.open(door);
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let site = Arc::clone(&site);
        let ending = ending.clone();
        tokio::spawn(async move {
            let is_late = match site.current.tls(door) {
                None => serve(stream, door, &place, &site, ending).await,
                Some(tls) => match timeout(site.bounds.head_time, tls.accept(stream)).await {
                    Ok(Ok(stream)) => serve(stream, door, &place, &site, ending).await,
                    Ok(Err(_)) => {
                        open.not_encrypted();
                        false
                    }
                    Err(_) => true,
                },
            };
            if is_late {
                open.late();
            }
            drop((open, place, permit));
        });
    }
}

/// Answers one client. Returns whether it was too slow.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    door: Door,
    place: &Place,
    site: &Arc<Site>,
    mut ending: watch::Receiver<()>,
) -> bool {
    // A request clones one reference.
    let services = Arc::new(Services::new(site, &ending));
    let ended = async move { _ = ending.changed().await };
    match door {
        Door::Http | Door::Admin => {
            let of = Arc::clone(site);
            let is_near = place.is_near();
            let answer = move |request, running: Running| {
                let site = Arc::clone(&of);
                let span = span(door, &request);
                let answer = async move {
                    let reply = site.answer(door, is_near, request, &running).await;
                    reply.map(|body| running.until_sent(body))
                };
                answer.instrument(span)
            };
            serve_http(stream, false, site, answer, ended).await
        }
        Door::Grpc => {
            let answer = move |request, running: Running| {
                let services = Arc::clone(&services);
                let span = span(door, &request);
                let answer = async move {
                    let reply = services.answer(request, &running).await;
                    reply.map(|body| running.until_sent(body))
                };
                answer.instrument(span)
            };
            serve_http(stream, true, site, answer, ended).await
        }
        Door::Resp => {
            let talk = Talk::new(place.id(), site.token.as_ref());
            // A client that leaves is no concern of the server.
            let served = resp::serve(stream, talk, site, ended).await;
            served.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        }
    }
}

/// The span of a request. Its query is left out, because it has keys.
fn span<B>(door: Door, request: &Request<B>) -> Span {
    debug_span!("request", door = door.name(), path = request.uri().path())
}

/// Both versions of HTTP, within their bounds.
fn http(arrived: &Arrived) -> auto::Builder<Arrived> {
    let mut builder = auto::Builder::new(arrived.clone());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(MAX_MESSAGE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        .initial_stream_window_size(MAX_MESSAGE as u32)
        .initial_connection_window_size(MAX_BODIES as u32)
        .max_send_buf_size(MAX_UNREAD)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

/// Answers requests of one connection. Returns whether the client was too slow.
async fn serve_http<A, B>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    is_http2_only: bool,
    site: &Site,
    answer: impl Fn(Request<Incoming>, Running) -> A,
    ended: impl Future<Output = ()>,
) -> bool
where
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    let activity = Activity::new();
    let stream = TokioIo::new(Timed::new(stream, &activity, &site.bounds));
    let mut watch = Watch::new(&activity, &site.bounds);
    let end_time = site.bounds.command_time;
    let requests = Arc::clone(&activity);
    let answer = service_fn(|request| {
        let answer = answer(request, requests.request());
        // No `async` block, which would hold the future twice, and copy it.
        answer.map(Ok::<_, Infallible>)
    });
    let mut streams = Streams::default();
    let builder = match http(streams.arrived()) {
        builder if is_http2_only => builder.http2_only(),
        builder => builder,
    };
    let mut connection = pin!(builder.serve_connection(stream, answer));
    let mut ended = pin!(ended);
    let mut is_ending = false;
    let late = loop {
        tokio::select! {
            biased;
            result = both(&mut connection, &mut streams) => {
                let is_timeout = result.is_err_and(|error| is_timeout(&*error));
                return is_timeout || activity.has_late_body();
            }
            late = watch.late() => break late,
            () = &mut ended, if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if late == Late::Request {
        // A client of HTTP/2 is told, so that it sends nothing that is lost.
        connection.as_mut().graceful_shutdown();
        let _ = timeout(end_time, both(&mut connection, &mut streams)).await;
    }
    true
}

/// Goes on with a connection and its requests, until the connection ends.
async fn both<C: Future>(connection: &mut Pin<&mut C>, streams: &mut Streams) -> C::Output {
    poll_fn(|context| {
        let ended = connection.as_mut().poll(context);
        // Answers wake the connection, which writes all of them.
        streams.poll(context);
        ended
    })
    .await
}

/// Returns whether an error was caused by a stream that took too long.
fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| {
        let stream = error.downcast_ref::<io::Error>();
        stream.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    })
}

impl Site {
    pub(crate) fn limits(&self) -> Arc<DecideLimits> {
        self.current.limits()
    }
}
