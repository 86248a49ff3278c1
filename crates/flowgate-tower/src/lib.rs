//! Rate and concurrency limits as a [tower](https://docs.rs/tower) layer, for axum, tonic and hyper.
//!
//! This crate is for servers that limit how often, or how many at a time, requests are admitted. It works with every
//! `Service<Request<_>>`. The [`guide`] shows it task by task.
//!
//! ```no_run
//! use axum::{Router, routing::get};
//! use flowgate::Keyed;
//! use flowgate_tower::{LimitLayer, by};
//! use std::net::SocketAddr;
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! // 100 requests per minute, 20 at once, for each client address, of which a million may be busy at a time.
//! let limits = Keyed::token_bucket("100/min burst 20".parse()?).capacity(1_000_000)?;
//!
//! let app = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(LimitLayer::keyed(limits, by::peer_address()));
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(()) }
//! ```
//!
//! The example needs this crate's feature `axum` (or `tonic`, or `hyper`), because servers keep the client's address in
//! different places. A client that sends too many requests receives this response:
//!
//! ```text
//! HTTP/1.1 429 Too Many Requests
//! retry-after: 1
//! ratelimit-policy: "default";q=20;w=12
//! ratelimit: "default";r=0;t_us=412873
//!
//! over the limit `default`; retry after 1 s
//! ```
//!
//! # What can be limited, and how
//!
//! - [`LimitLayer::new`]: one limit for all requests: any rate limiter, a [`ConcurrencyLimit`](flowgate::ConcurrencyLimit),
//!   an [`AdaptiveLimit`](flowgate::AdaptiveLimit), or a [`Gate`](flowgate::Gate) of several.
//! - [`LimitLayer::keyed`]: one limit for each key: any [`Keyed`](flowgate::Keyed), also with two quotas, a
//!   [`KeyedConcurrencyLimit`](flowgate::KeyedConcurrencyLimit), or a [`KeyedGate`](flowgate::KeyedGate) of limits for each
//!   key and limits that all keys share. The key is found [`by`] address, header, path, extension, or a function.
//! - [`Custom`]: a limiter of your own, such as one in a database, for either of them.
//! - [`reject`](LimitLayer::reject), [`wait`](LimitLayer::wait) in the queue with a maximum wait, or a
//!   [`dry_run`](LimitLayer::dry_run) that only counts.
//! - [`priority`](LimitLayer::priority): under overload, the least important requests are refused first.
//! - [`exempt`](LimitLayer::exempt), [`cost`](LimitLayer::cost), [`settle`](LimitLayer::settle),
//!   [`outcome_of`](LimitLayer::outcome_of), [`quota_of`](LimitLayer::quota_of), [`quota_classes`](LimitLayer::quota_classes),
//!   [`on_rejected`](LimitLayer::on_rejected), [`grpc_status`](LimitLayer::grpc_status).
//! - [`counts`](LimitLayer::counts), by reason and by [class](LimitLayer::classes);
//!   [`on_decision`](LimitLayer::on_decision); `LayerMetrics`, for the facade `metrics`.
//! - [`controls`](LimitLayer::controls) change the maximum wait, the dry run, the exemptions, and whether the layer is on,
//!   while it serves. The quota changes at the limiter, of which you keep an `Arc`.
//! - [`Refusal`]: the same response from a handler that calls a limiter itself, with `limiter.try_acquire()?`.
//!
//! The layer adds no limit of its own: its guarantees are those of its limit ([guarantees](flowgate::guide::guarantees)).
//!
//! # Defaults
//!
//! | setting | default | set by |
//! |---|---|---|
//! | request over the limit | rejected immediately | [`reject`](LimitLayer::reject), [`wait`](LimitLayer::wait) |
//! | status | 429, or 503 if the server is at its capacity | [`Rejection`] |
//! | gRPC code | `RESOURCE_EXHAUSTED`, or `UNAVAILABLE` | [`grpc_status`](LimitLayer::grpc_status) |
//! | `grpc-timeout` of a gRPC request | bounds its wait | [`wait`](LimitLayer::wait) |
//! | body of a rejection | a line of text; none for gRPC | [`on_rejected`](LimitLayer::on_rejected) |
//! | `Retry-After` | whenever a time is known; whole seconds, rounded up, at least 1 | |
//! | other fields | `RateLimit-Policy` and `RateLimit` of the current draft | [`headers`](LimitLayer::headers) |
//! | name of the limit | `default` | [`name`](LimitLayer::name) |
//! | names of two quotas | the limit's name with `-1`, `-2` | [`quota_names`](LimitLayer::quota_names) |
//! | cost | one token, one permit | [`cost`](LimitLayer::cost) |
//! | cost corrected afterwards | no | [`settle`](LimitLayer::settle) |
//! | permits of a concurrency or adaptive limit | in use until the response's body ends | [`release_at_head`](LimitLayer::release_at_head) |
//! | outcome of a response for an adaptive limit | by its status | [`outcome_of`](LimitLayer::outcome_of) |
//! | levels of importance | none: all requests are equal | [`priority`](LimitLayer::priority) |
//! | no key, or one that cannot be read | rejected | [`missing`](LimitLayer::missing) |
//! | IPv6 addresses | one key for each /64 | [`PeerAddress::prefixes`](by::PeerAddress::prefixes) |
//! | fields that proxies write | not read | [`by::client_address`] |
//! | exempt requests | none | [`exempt`](LimitLayer::exempt) |
//! | turned on | yes | [`enabled`](LimitLayer::enabled) |
//!
//! # Guarantees of the layer
//!
//! - **Tokens are taken in `call`.** The layer takes tokens and permits for a request, never in `poll_ready`. Idle
//!   connections hold none.
//! - **Waiters are served in the order of the limit's queue.** A request is refused immediately if it is certain to miss
//!   its deadline. A client that disconnects while it waits does not delay the others.
//! - **A request that has started has paid.** If it is canceled while the service works, its permits are returned, but its
//!   tokens are not. Otherwise a client could avoid the limit by resetting its streams. [`LimitLayer::settle`] can refund
//!   the tokens.
//! - **A permit lasts as long as the response's body**, so that slow downloads count. An upgraded connection (a WebSocket)
//!   has no body; its permit is returned when the upgrade is answered.
//! - **Header fields are accurate.** The layer takes a snapshot of the limit when it sends the response's head, and writes
//!   it into the fields. Remaining tokens are rounded down, and times are rounded up.
//! - **Memory is bounded.** A table allocates its memory when it is built: 24 bytes per key for [`Keyed`](flowgate::Keyed) (35 in
//!   small tables), including what it needs when it is full, and 64 bytes for [`KeyedConcurrencyLimit`](flowgate::KeyedConcurrencyLimit).
//!   Unless you choose `exact`, the table does not store the keys themselves. A header value over 1024 bytes is not a key.
//!   Waiters take additional memory, and their number is bounded.
//! - **Bad input never panics.** The request is rejected or shares a limit ([`Missing`]).
//!
//! # Limits in gRPC
//!
//! A [`Limited`] service keeps its name (feature `tonic`), so that a limit can be put around one service of a server. A
//! layer of the whole server works as well.
//!
//! ```no_run
//! use flowgate::ConcurrencyLimit;
//! use flowgate_tower::LimitLayer;
//! use tonic::transport::Server;
//! use tower::Layer;
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let (_reporter, health) = tonic_health::server::health_reporter();
//! let layer = LimitLayer::new(ConcurrencyLimit::new(50)).grpc_status(|_| tonic::Code::ResourceExhausted);
//! Server::builder().add_service(layer.layer(health)).serve("127.0.0.1:3000".parse()?).await?;
//! # Ok(()) }
//! ```
//!
//! # Mistakes in the setup
//!
//! - Without one of the features `axum`, `tonic` and `hyper`, [`by::peer_address`] does not exist: the program does not
//!   compile.
//! - [`quota_classes`](LimitLayer::quota_classes) returns an error for a quota that the table cannot keep.
//! - Other mistakes show at the first request: an axum server without `into_make_service_with_connect_info`, or a quota
//!   that [`quota_of`](LimitLayer::quota_of) makes up. The response is a 500 whose text names what to do, and
//!   [`Counts::misconfigured`] counts it.
//!
//! # Behind a proxy
//!
//! Then the address of who is connected is the proxy's. [`by::client_address`] reads what trusted proxies wrote, from
//! the right; what clients invent changes nothing.
//!
//! ```
//! use flowgate::Keyed;
//! use flowgate_tower::by::{self, TrustedProxies};
//! use flowgate_tower::LimitLayer;
//!
//! let limits = Keyed::token_bucket("100/min".parse()?).capacity(100_000)?;
//! let proxies = TrustedProxies::x_forwarded_for(["10.0.0.0/8".parse()?]);
//! let layer = LimitLayer::keyed(limits, by::client_address(proxies));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `axum` | no | [`by::peer_address`] reads axum's `ConnectInfo<SocketAddr>` |
//! | `tonic` | no | [`by::peer_address`] reads tonic's `TcpConnectInfo` |
//! | `hyper` | no | [`by::peer_address`] reads a bare `SocketAddr` in the request's extensions |
//! | `fleet` | no | layers take limits of flowgate-fleet: `LimitLayer::new(limit)`, `LimitLayer::keyed(Custom::new(limits), by)` |
//! | `metrics` | no | `LayerMetrics`, for the facade of the crate `metrics` |
//! | `retry` | no | `ClientLayer::retry_budget`, and tower's trait of budgets |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/flowgate-tower/0.1.0")]

mod body;
pub mod by;
mod call_outcome;
pub mod client;
mod counts;
mod decision;
mod future;
mod grpc;
pub mod guide;
mod head;
mod headers;
mod layer;
mod limits;
mod live;
#[cfg(feature = "metrics")]
mod metrics;
mod policy;
mod priority;
mod reason;
mod refusal;
mod rejection;
mod rules;
mod service;

pub use body::LimitBody;
pub use counts::{Counts, CountsHandle};
pub use decision::{Decision, LayerVerdict, RefusalReason};
pub use future::ResponseFuture;
pub use grpc::GrpcCode;
pub use head::{RequestHead, ResponseHead};
pub use headers::{Headers, LimitHeaders, Reset};
pub use layer::LimitLayer;
pub use limits::{
    Admission, AnyLimit, Custom, CustomLimit, Deciding, IntoTable, Limits, Missing, PerKey, Table,
};
pub use live::{Controls, Exemptions};
#[cfg(feature = "metrics")]
pub use metrics::LayerMetrics;
pub use refusal::Refusal;
pub use rejection::Rejection;
pub use rules::{Outcome, WouldReject};
pub use service::Limited;

/// The examples of both READMEs are tested, too: this crate's, and the repository's.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    mod of_the_crate {}
    #[doc = include_str!("repository.md")]
    mod of_the_repository {}
}
