//! The guide: limits for HTTP servers and clients.
//!
//! It is for readers who know axum, tonic or tower, and nothing of this crate.
//!
//! ```
//! use flowgate::Keyed;
//! use flowgate_tower::{LimitLayer, by};
//!
//! // 100 requests per minute for each API key.
//! let limits = Keyed::token_bucket("100/min".parse()?).capacity(10_000)?;
//! let layer = LimitLayer::keyed(limits, by::header("x-api-key"));
//! # let _ = layer;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`http_server`]: limit the requests that a server accepts.
//! - [`http_client`]: limit the requests that a client sends, and obey the servers' limits.
//!
//! Quotas, waiting, keys and tests are explained in the
//! [guide of flowgate](https://docs.rs/flowgate/latest/flowgate/guide/).

#[doc = include_str!("http_server.md")]
pub mod http_server {}

#[doc = include_str!("http_client.md")]
pub mod http_client {}
