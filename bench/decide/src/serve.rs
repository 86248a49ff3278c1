//! The servers that this program is, each in a process of its own: ours, bare ones of gRPC and HTTP/1.1, and limitador.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use clap::ValueEnum;
use flowgate::{Keyed, Quota, TokenBucket};
use flowgate_fleet::Fleet;
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime, Door};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace};
use serde::Deserialize;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::messages::{DescriptorStatus, OK, OVER_LIMIT, RateLimitRequest, RateLimitResponse};

/// A limit that never refuses here.
pub const LIMIT: u64 = 1_000_000_000;

/// What answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Flowgate,
    Tonic,
    Hyper,
    Limitador,
}

impl Kind {
    /// Returns the word of `--serve`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flowgate => "flowgate",
            Self::Tonic => "tonic",
            Self::Hyper => "hyper",
            Self::Limitador => "limitador",
        }
    }
}

/// Serves on one thread, until this process is killed.
///
/// # Errors
///
/// A message if it cannot.
pub fn run(kind: Kind, port: u16, store: Option<&str>) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // As `flowgate decide --threads 1`.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    match kind {
        Kind::Flowgate => runtime.block_on(flowgate(address, store)),
        Kind::Hyper => runtime.block_on(hyper(address, keys()?)),
        Kind::Tonic => {
            let keys = keys()?;
            let decide = move |request: RateLimitRequest| ready(Ok(by_keys(&keys, &request)));
            runtime.block_on(tonic(address, decide))
        }
        Kind::Limitador => runtime.block_on(limitador(address)),
    }
}

fn quota() -> Quota {
    Quota::per_second(LIMIT)
}

fn keys() -> Result<Keyed<TokenBucket>, String> {
    let keys = Keyed::token_bucket(quota()).capacity(1_000_000);
    keys.map_err(|error| error.to_string())
}

/// The server, with all of its doors for clients at ports that follow one another.
async fn flowgate(address: SocketAddr, store: Option<&str>) -> Result<(), String> {
    let text =
        format!("{{domain: api, descriptors: [{{key: user, name: users, quota: {LIMIT}/s}}]}}");
    let config = Config::parse("bench", &text).map_err(|error| error.to_string())?;
    let time = DecisionTime::system();
    let limits = match store {
        None => DecideLimits::new(&config, &time),
        Some(store) => {
            let fleet = Fleet::redis(store).and_then(|fleet| fleet.nodes(1).open());
            let fleet = fleet.map_err(|error| error.to_string())?;
            fleet.ready().await;
            DecideLimits::in_store(&config, &time, &fleet)
        }
    };
    let mut server = DecideServer::new(limits.map_err(|error| error.to_string())?);
    for (door, port) in [Door::Grpc, Door::Http, Door::Resp]
        .into_iter()
        .zip(address.port()..)
    {
        let address = SocketAddr::new(address.ip(), port);
        let opened = server.listen(door, address);
        opened.map_err(|error| format!("{address}: {error}"))?;
    }
    let never = std::future::pending();
    server.run(never).await.map_err(|error| error.to_string())
}

/// What a server has to do at least: find the value, and take a token.
fn by_keys(keys: &Keyed<TokenBucket>, request: &RateLimitRequest) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        overall_code: OK,
        statuses: Vec::with_capacity(request.descriptors.len()),
    };
    for descriptor in &request.descriptors {
        let value = descriptor.entries.first().map_or("", |entry| &entry.value);
        let code = match keys.try_acquire(value) {
            Ok(()) => OK,
            Err(_) => OVER_LIMIT,
        };
        response.overall_code = response.overall_code.max(code);
        let limit_remaining = u32::try_from(keys.snapshot(value).remaining).unwrap_or(u32::MAX);
        response.statuses.push(DescriptorStatus {
            code,
            limit_remaining,
        });
    }
    response
}

/// The question of `POST /v1/ask`.
#[derive(Deserialize)]
struct Ask {
    key: String,
}

/// hyper's own server of HTTP/1.1: it reads a key from JSON, takes a token, and writes what is left.
async fn hyper(address: SocketAddr, keys: Keyed<TokenBucket>) -> Result<(), String> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| error.to_string())?;
    let keys = Arc::new(keys);
    loop {
        let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let keys = Arc::clone(&keys);
        let answer = service_fn(move |request: http::Request<Incoming>| {
            let keys = Arc::clone(&keys);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let (status, text) = match serde_json::from_slice::<Ask>(&body) {
                    Err(_) => (http::StatusCode::BAD_REQUEST, String::new()),
                    Ok(ask) => {
                        let status = match keys.try_acquire(&*ask.key) {
                            Ok(()) => http::StatusCode::OK,
                            Err(_) => http::StatusCode::TOO_MANY_REQUESTS,
                        };
                        let remaining = keys.snapshot(&*ask.key).remaining;
                        (status, format!("{{\"remaining\":{remaining}}}"))
                    }
                };
                let mut reply = http::Response::new(Full::new(Bytes::from(text)));
                *reply.status_mut() = status;
                Ok::<_, hyper::Error>(reply)
            }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        // A client that leaves is no failure.
        tokio::spawn(async move { drop(connection.await) });
    }
}

/// limitador's library behind tonic's server, with the calls of its own server.
async fn limitador(address: SocketAddr) -> Result<(), String> {
    let user = Expression::parse("descriptors[0].user").map_err(|error| format!("{error:?}"))?;
    let limits = RateLimiter::new(1_000_000);
    limits.add_limit(Limit::new("api", LIMIT, 60, [], [user]));
    let decide = move |request: RateLimitRequest| {
        let (namespace, context, hits) = of_limitador(request);
        let checked = limits.check_rate_limited_and_update(&namespace, &context, hits);
        ready(of_check(checked.map(|checked| checked.limited)))
    };
    tonic(address, decide).await
}

fn of_limitador(request: RateLimitRequest) -> (Namespace, Context<'static>, u64) {
    let mut context = Context::default();
    let values = request.descriptors.into_iter().map(|descriptor| {
        let entries = descriptor.entries.into_iter();
        entries
            .map(|entry| (entry.key, entry.value))
            .collect::<HashMap<_, _>>()
    });
    context.list_binding("descriptors".to_owned(), values.collect());
    (
        request.domain.into(),
        context,
        request.hits_addend.max(1).into(),
    )
}

fn of_check<E: std::fmt::Debug>(limited: Result<bool, E>) -> Result<RateLimitResponse, Status> {
    let limited = limited.map_err(|error| Status::unavailable(format!("{error:?}")))?;
    Ok(RateLimitResponse {
        overall_code: if limited { OVER_LIMIT } else { OK },
        statuses: Vec::new(),
    })
}

/// tonic's own server, with one method.
async fn tonic<F, A>(address: SocketAddr, decide: F) -> Result<(), String>
where
    F: Fn(RateLimitRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<RateLimitResponse, Status>> + Send + 'static,
{
    let listener = TcpIncoming::bind(address).map_err(|error| error.to_string())?;
    tonic::transport::Server::builder()
        .add_service(RateLimit(Arc::new(decide)))
        .serve_with_incoming(listener.with_nodelay(Some(true)))
        .await
        .map_err(|error| error.to_string())
}

/// The service, as tonic's generated code has it.
struct RateLimit<F>(Arc<F>);

impl<F> Clone for RateLimit<F> {
    fn clone(&self) -> Self {
        RateLimit(Arc::clone(&self.0))
    }
}

impl<F> NamedService for RateLimit<F> {
    const NAME: &'static str = crate::messages::SERVICE;
}

impl<F, A> Service<http::Request<Body>> for RateLimit<F>
where
    F: Fn(RateLimitRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<RateLimitResponse, Status>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Method(Arc::clone(&self.0));
        Box::pin(async move {
            if request.uri().path() != crate::messages::PATH {
                return Ok(Status::unimplemented("").into_http());
            }
            let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
            Ok(Grpc::new(codec).unary(method, request).await)
        })
    }
}

struct Method<F>(Arc<F>);

impl<F, A> UnaryService<RateLimitRequest> for Method<F>
where
    F: Fn(RateLimitRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<RateLimitResponse, Status>> + Send + 'static,
{
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = Result<Response<RateLimitResponse>, Status>> + Send>>;

    fn call(&mut self, request: Request<RateLimitRequest>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new) })
    }
}
