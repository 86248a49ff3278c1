//! The guide: how to choose, set up, use, change, observe and test limiters.
//!
//! It is for readers who know tokio or threads, and nothing of this crate. Begin with [`getting_started`], or look for your
//! task in the [`cookbook`].
//!
//! ```
//! use flowgate::TokenBucket;
//!
//! let limiter = TokenBucket::new("100/s burst 20".parse()?);
//! if let Err(denied) = limiter.try_acquire() {
//!     println!("retry after {:?}", denied.retry_after());
//! }
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! # First steps
//!
//! - [`getting_started`]: from the dependency to the first working limit.
//! - [`choosing`]: from your question to a type, as a decision tree.
//! - [`rate_or_concurrency`]: which of the two to limit, and when to limit both.
//! - [`quotas`]: how to write a rate and a burst, as text and in code.
//! - [`burst_and_slack`]: how large a burst should be.
//!
//! # Tasks
//!
//! - [`cookbook`]: 15 tasks, each a whole program.
//! - [`waiting`]: deadlines, cancel safety, blocking, fairness, shutdown.
//! - [`keys`]: a limit for each user, address or tenant.
//! - [`adaptive_limits`]: concurrency limits that find their number, priorities, throttles.
//! - [`several_limits`]: two quotas, or a rate and a concurrency limit, in one decision.
//! - [`live_changes`]: replacing a quota while the limiter is in use.
//! - [`many_threads`]: one limiter for many cores.
//! - [`io`]: limits for bytes and for streams.
//! - [`observability`]: counts, waits and metrics.
//! - [`testing`]: tests that move the clock and never sleep.
//!
//! # HTTP, traces, logs, and several processes
//!
//! These have crates of their own, each with a guide of the same kind:
//!
//! - [HTTP servers](https://docs.rs/flowgate-tower/latest/flowgate_tower/guide/http_server/) and
//!   [HTTP clients](https://docs.rs/flowgate-tower/latest/flowgate_tower/guide/http_client/): `flowgate-tower`, for axum,
//!   tonic, hyper and every other tower service.
//! - [Traces](https://docs.rs/flowgate-otel/): `flowgate-otel`, for OpenTelemetry.
//! - [Log lines](https://docs.rs/flowgate-tracing/): `flowgate-tracing`, for `tracing`.
//! - [Limits of several processes](https://docs.rs/flowgate-fleet/latest/flowgate_fleet/guide/): `flowgate-fleet`, through Redis or
//!   Valkey.
//!
//! # Reference
//!
//! - [`migrating`]: from governor, tower_governor, leaky-bucket, ratelimit, tokio, Guava, resilience4j and Go.
//! - [`guarantees`]: what every limiter guarantees, in words and as formulas.
//! - [`glossary`]: what each term means in this crate.

#[doc = include_str!("getting_started.md")]
pub mod getting_started {}

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("rate_or_concurrency.md")]
pub mod rate_or_concurrency {}

#[doc = include_str!("quotas.md")]
pub mod quotas {}

#[doc = include_str!("burst_and_slack.md")]
pub mod burst_and_slack {}

#[doc = include_str!("cookbook.md")]
pub mod cookbook {}

#[doc = include_str!("waiting.md")]
pub mod waiting {}

#[doc = include_str!("keys.md")]
pub mod keys {}

#[doc = include_str!("adaptive_limits.md")]
pub mod adaptive_limits {}

#[doc = include_str!("several_limits.md")]
pub mod several_limits {}

#[doc = include_str!("live_changes.md")]
pub mod live_changes {}

#[doc = include_str!("many_threads.md")]
pub mod many_threads {}

#[doc = include_str!("io.md")]
pub mod io {}

#[doc = include_str!("observability.md")]
pub mod observability {}

#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("migrating.md")]
pub mod migrating {}

#[doc = include_str!("guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("glossary.md")]
pub mod glossary {}
