//! Limits how often each line of code logs, for [`tracing`](https://docs.rs/tracing).
//!
//! This crate is for services whose logs must stay readable when something fails a million times. Each callsite logs at most N
//! events per period. Its next event reports **how many were suppressed**.
//!
//! ```
//! use flowgate_tracing::RateLimitFilter;
//! use tracing_subscriber::prelude::*;
//!
//! // Each line of code that logs: 10 events in one burst, and then 5 per minute.
//! let limit = RateLimitFilter::new("5/min burst 10".parse()?);
//!
//! tracing_subscriber::registry()
//!     .with(limit.over(tracing_subscriber::fmt::layer()))
//!     .init();
//!
//! for attempt in 0..1_000 {
//!     tracing::warn!(attempt, "connection refused"); // 10 lines, not 1000
//! }
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! Twelve seconds later, the same line of code logs again:
//!
//! ```text
//! WARN shop::db: similar events were suppressed suppressed=990
//! WARN shop::db: connection refused attempt=1000
//! ```
//!
//! # What it promises
//!
//! - **Never more** (contract C1): of each callsite, at most burst + rate · t events in every span of time t; it is a
//!   [`flowgate::TokenBucket`] that decides.
//! - **Nothing is lost silently.** The numbers that are said, and what [`RateLimitFilter::suppressed`] still holds, add
//!   up to the events that were left out, on every schedule of threads.
//! - **Others are not affected.** Only the layer that it is put over is limited, and only that one hears of what was
//!   suppressed. Spans are never limited.
//! - **Silence is cheap** (C9). An event that is left out takes no lock and no memory, whatever its fields, except the
//!   first event of a callsite; there is no thread. It costs a look at a table, a clock reading and an addition.
//!
//! # Silence
//!
//! A callsite that falls silent does not say any more how often it was not heard. Then the next event says it, of whichever
//! callsite: after a minute ([`silence`](RateLimitFilterBuilder::silence)). What is untold when the program ends is said by
//! [`flush`](RateLimitFilter::flush), or a guard that is dropped then ([`flush_on_drop`](RateLimitFilter::flush_on_drop)).
//!
//! # Change while it is in use
//!
//! [`controls`](RateLimitFilter::controls) returns a handle that changes the quota and the exempt level, and turns the filter off
//! and on.
//!
//! # By a field's value
//!
//! If one line of code logs for many peers, a noisy peer should not suppress the others.
//! [`by_field`](RateLimitFilterBuilder::by_field) gives each value of a field its own limit, in memory of a fixed size:
//!
//! ```
//! use flowgate_tracing::RateLimitFilter;
//! use tracing_core::Level;
//!
//! let limit = RateLimitFilter::builder("5/min burst 10".parse()?)
//!     .by_field("peer", 10_000)
//!     .exempt(Level::ERROR)
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Together with other filters
//!
//! [`RateLimitFilter`] is a [`Filter`](tracing_subscriber::layer::Filter), so it can be combined with others. Put it last, so
//! that it counts only events that the others let through. [`telling`](RateLimitFilter::telling) then reports how many events
//! were suppressed:
//!
//! ```
//! use flowgate_tracing::RateLimitFilter;
//! use tracing_subscriber::filter::{FilterExt, LevelFilter};
//! use tracing_subscriber::prelude::*;
//!
//! let limit = RateLimitFilter::new("5/min burst 10".parse()?);
//! let layer = limit
//!     .telling(tracing_subscriber::fmt::layer())
//!     .with_filter(LevelFilter::INFO.and(limit));
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # drop(subscriber);
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! # Defaults
//!
//! | setting | default | set by |
//! |---|---|---|
//! | limit for | each callsite | [`by_field`](RateLimitFilterBuilder::by_field) |
//! | burst | the quota's burst, or its count | |
//! | exempt | no level | [`exempt`](RateLimitFilterBuilder::exempt) |
//! | silence is told after | 1 min | [`silence`](RateLimitFilterBuilder::silence) |
//! | clock | [`flowgate::Clock::system`] | [`clock`](RateLimitFilterBuilder::clock) |
//!
//! # Memory
//!
//! About a kilobyte for each callsite that has spoken, as many as the program has; a value's share of a table that
//! is made with the filter (about 88 bytes for each that it is made for). What says how many were suppressed needs a
//! description of the callsite, some 200 bytes, which stays to the end of the program.
//!
//! Records of the `log` crate that come by way of `tracing-log` all have one callsite for each level. Give them limits
//! by a field: `log.target`, say.
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/flowgate-tracing/0.1.0")]

mod builder;
mod filter;
mod flush;
mod limits;
mod live;
mod summary;
mod telling;

pub use builder::RateLimitFilterBuilder;
pub use filter::RateLimitFilter;
pub use flush::FlushGuard;
pub use live::FilterControls;
pub use telling::Telling;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
