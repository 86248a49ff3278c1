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
//! # Guarantees
//!
//! - **[Never over-admits](flowgate::guide::guarantees).** In every interval of length *t*, each callsite logs at most
//!   *burst + rate × t* events. A [`flowgate::TokenBucket`] decides.
//! - **Every suppressed event is counted.** The reported numbers, plus [`RateLimitFilter::suppressed`], equal the number of
//!   events that were left out, for every schedule of threads.
//! - **Other layers are not affected.** Only the layer under the filter is limited, and only that layer receives the
//!   summaries. Spans are never limited.
//! - **A suppressed event is cheap.** It takes no lock and no memory, whatever its fields, except the first event of a
//!   callsite. It costs a table lookup, a clock reading and an addition. There is no background thread.
//!
//! # Silence
//!
//! A callsite that becomes silent cannot report its suppressed events itself. After one minute
//! ([`silence`](RateLimitFilterBuilder::silence)), the next event of any callsite reports them. When the program ends,
//! [`flush`](RateLimitFilter::flush) reports the rest, or a guard that is dropped then
//! ([`flush_on_drop`](RateLimitFilter::flush_on_drop)).
//!
//! # Change while it is in use
//!
//! [`controls`](RateLimitFilter::controls) returns a handle that changes the quota and the exempt level, and turns the filter off
//! and on:
//!
//! ```
//! use flowgate_tracing::RateLimitFilter;
//! use tracing_core::Level;
//! use tracing_subscriber::prelude::*;
//!
//! let limit = RateLimitFilter::new("5/min burst 10".parse()?);
//! let controls = limit.controls(); // for the task that reloads the configuration
//! tracing_subscriber::registry()
//!     .with(limit.over(tracing_subscriber::fmt::layer()))
//!     .init();
//!
//! controls.set_quota("60/min burst 100".parse()?)?;
//! controls.set_exempt(Some(Level::ERROR)); // log every error
//! controls.set_enabled(false); // log everything
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
//! # Limits of your own
//!
//! [`limit_of`](RateLimitFilterBuilder::limit_of) chooses the limit of each callsite: another quota for a level or a target, one
//! limit that several callsites share, or your own implementation of [`flowgate::ImmediateLimit`].
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
//! | limit | a token bucket of the quota | [`limit_of`](RateLimitFilterBuilder::limit_of) |
//! | burst | the quota's burst, or its count | |
//! | exempt | no level | [`exempt`](RateLimitFilterBuilder::exempt) |
//! | silence is reported after | 1 min | [`silence`](RateLimitFilterBuilder::silence) |
//! | clock | [`flowgate::Clock::system`] | [`clock`](RateLimitFilterBuilder::clock) |
//!
//! # Memory
//!
//! - Each callsite that has logged takes about 1 kB. The program determines their number.
//! - A table of values is allocated with the filter: about 88 bytes for each value of its capacity.
//! - A summary needs a description of its callsite, about 200 bytes, which stays until the program ends.
//!
//! Records of the `log` crate that come through `tracing-log` have one callsite for each level. Limit them by a field, for
//! example `log.target`.
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
