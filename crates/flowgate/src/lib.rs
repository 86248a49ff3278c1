//! Rate limiters and concurrency limits for async code, threads and `no_std`.
//!
//! A limiter decides whether, and when, an operation may go ahead. Each limiter here guarantees a bound in integers, on every
//! schedule of threads and for every clock. A decision is one clock reading and one compare-and-swap, without locks or allocations.
//!
//! ```
//! use flowgate::TokenBucket;
//! use std::time::Duration;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let limiter = TokenBucket::new("100/s burst 20".parse()?);
//!
//!     // Do not wait: refuse, and report when to retry.
//!     if let Err(denied) = limiter.try_acquire_n(5) {
//!         println!("retry after {:?}", denied.retry_after());
//!     }
//!
//!     // Wait in a FIFO queue, for at most 50 ms. In async code: `.await` in place of `.block()`.
//!     limiter.acquire().within(Duration::from_millis(50)).block()?;
//!
//!     // Take a token now, and start when it is available.
//!     let reservation = limiter.reserve()?;
//!     println!("start in {:?}", reservation.delay()); // start in 0ns
//!     Ok(())
//! }
//! ```
//!
//! The [`guide`] explains how to choose and use a limiter: [getting started](guide::getting_started),
//! [choosing](guide::choosing), [cookbook](guide::cookbook), [coming from another library](guide::migrating).
//!
//! # Rate limiters
//!
//! - [`TokenBucket`]: bursts, and a steady rate after them (GCRA).
//! - [`LeakyBucket`]: a minimum gap between operations.
//! - [`DualTokenBucket`]: two quotas together, such as 10 per second and 1,000 per day.
//! - [`FixedWindow`]: at most N per window, also by the calendar.
//! - [`SlidingWindow`]: at most N in every window, exactly.
//! - [`SegmentedWindow`]: at most N in every window, in little memory.
//! - [`ApproximateWindow`]: the two-counter estimate that many CDNs use.
//! - [`WarmUp`]: a slow start after idle time.
//! - [`PayAfter`]: a token bucket in which an operation goes ahead, and later ones repay its debt.
//! - [`DecayingBucket`]: an outflow that grows with the level.
//! - [`Leased`]: tokens that an authority grants in advance, for a limit that processes share.
//! - [`Unlimited`]: no limit, behind the same trait.
//! - [`Limiter`]: the trait of all rate limiters, for `Arc<dyn Limiter>`.
//!
//! # Concurrency limits
//!
//! - [`ConcurrencyLimit`]: at most N operations concurrently; a fair semaphore that can be resized.
//! - [`AdaptiveLimit`]: a concurrency limit that finds its number, by latencies and overloads ([`Gradient`], [`Aimd`]).
//! - [`PriorityShedder`]: refuses the least important requests first when a limit is full.
//! - [`Degrade`]: sheds load by priority when calls become slow.
//! - [`sizing`]: computes a concurrency limit from a rate and a latency.
//!
//! # Clients of a backend that can be overloaded
//!
//! - [`Throttle`]: sends fewer requests to a backend that refuses them.
//! - [`RetryBudget`]: retries, as a share of the requests that succeed.
//!
//! # Several limits together
//!
//! - [`Gate`]: several limits that decide together, such as a rate and a concurrency limit.
//! - [`KeyedGate`]: a limit per key together with shared limits.
//! - [`Striped`]: one limiter for many cores, with local reserves of tokens.
//! - [`Batch`]: many tokens for one owner, acquired in one operation.
//!
//! # A limit per key
//!
//! - [`Keyed`]: a rate limiter for each key, in memory of a fixed size.
//! - [`KeyedConcurrencyLimit`]: a concurrency limit for each key.
//! - [`AddressKey`]: the network of an IP address as a key.
//!
//! # Bytes, streams and events
//!
//! - [`Throttled`]: readers and writers that share a bandwidth.
//! - `StreamExt::rate_limited`: streams with a limited rate (feature `futures`).
//! - [`Ticks`]: the times of a limiter's grants, as an iterator and a stream.
//! - [`Sometimes`], [`sometimes!`]: run code for one call in N, or once per interval.
//! - [`Observed`]: counts decisions, and measures waits.
//! - [`ImmediateLimit`]: limiters for code that cannot wait, also your own.
//! - `MetricsPublisher`: publishes these counts (feature `metrics`). `AdaptiveMetrics` does so for an adaptive limit.
//!
//! # Quotas, clocks and results
//!
//! - [`Quota`]: how much per period, and in one burst. `"100/s burst 20".parse()`.
//! - [`Quotas`]: one or two quotas for one limiter. `"10/s burst 5; 1000/day".parse()`.
//! - [`LimiterConfig`], [`KeyedLimiterConfig`]: limiters as text, for configuration files.
//! - [`Acquire`]: a wait; a future, and a builder of deadlines and amounts.
//! - [`WaitQueue`]: the queue of a limiter: its length, [`Order`] and bounds.
//! - [`CancelHandle`]: ends the waits of blocked threads.
//! - [`Denied`]: a refusal, with the exact time to retry.
//! - [`Permit`]: holds a place in a concurrency limit until it is dropped.
//! - [`Reservation`]: tokens that were taken now, for a later start time.
//! - [`Clock`]: the system's clock, or a [`ManualClock`] for tests that never sleep.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | system clock, blocking waits, `std::error::Error` |
//! | `tsc` | yes | time stamp counter as clock, where the kernel trusts it |
//! | `huge-pages` | yes | on Linux, [huge pages](Keyed::is_huge_page_advised) for large tables of keys |
//! | `serde` | no | (de)serialization of quotas, configurations and limiter states, as text |
//! | `futures` | no | `Stream` for [`Ticks`], and `StreamExt::rate_limited` |
//! | `futures-io` | no | [`Throttled`] for the I/O traits of futures, smol and async-std |
//! | `tokio` | no | [`Throttled`] for tokio's I/O traits, and `Clock::tokio` |
//! | `metrics` | no | `MetricsPublisher` and `AdaptiveMetrics`, for the crate `metrics` |
//!
//! # Platforms
//!
//! - Rust 1.88 or newer.
//! - Every platform of the standard library. On Linux, waits use a precise kernel timer.
//! - Targets without a 64-bit or 128-bit compare-and-swap use a lock where they need one. `is_lock_free` reports it.
//!
//! # Without the standard library
//!
//! Without `std`, the crate needs `alloc`. Limiters need a clock that you supply: a [`ManualClock`], or your own [`Source`]. Waiters
//! poll until their time has come.
//!
//! # Threads
//!
//! Decisions start no thread. The first wait in real time starts one thread, `flowgate-timer`, which wakes the waiters of all limiters
//! of the process. The thread ends after 10 seconds without a wait. A process made by `fork()` starts its own. Limiters on a
//! [`ManualClock`] never start a thread, because moving the clock wakes their waiters.
//!
//! # Guarantees
//!
//! [`guide::guarantees`] defines what every limiter guarantees. The [glossary](guide::glossary) defines the terms.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(any(feature = "tsc", feature = "huge-pages")), forbid(unsafe_code))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(docsrs, doc(auto_cfg(hide(flowgate_loom, flowgate_shuttle))))]
// Pages that always exist name items that only `std` has. With `std`, each link is checked.
#![cfg_attr(not(feature = "std"), allow(rustdoc::broken_intra_doc_links))]
#![doc(html_root_url = "https://docs.rs/flowgate/0.1.0")]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod algorithm;
mod clock;
mod companions;
mod concurrency;
mod gate;
pub mod guide;
mod keyed;
mod limiter;
mod primitive;
mod queue;
mod quota;
mod store;
mod striped;
mod types;
mod verdict;

pub use clock::{Clock, ManualClock, Sleep, Source, Timestamp};
pub use companions::address::{AddressKey, AddressPrefixes};
pub use companions::config::{
    AnyKeyed, KeyedLimiterConfig, LimiterConfig, LimiterConfigError, LimiterKind,
};
pub use companions::degrade::{Degrade, DegradeBuilder, DegradeCall, SlowCalls};
pub use companions::immediate::ImmediateLimit;
#[cfg(all(feature = "std", not(flowgate_loom)))]
pub use companions::io::Throttled;
#[cfg(feature = "metrics")]
pub use companions::metrics::{AdaptiveMetrics, MetricsPublisher};
pub use companions::observed::{
    Observed, ObservedCounts, ObservedKey, Refusals, SharedCounters, Waits,
};
pub use companions::priority_shedder::{PriorityShedder, PriorityShedderBuilder};
pub use companions::retry_budget::{RetryBudget, RetryBudgetBuilder};
pub use companions::sizing;
pub use companions::sometimes::{Sometimes, SometimesBuilder, SometimesBy};
#[cfg(feature = "futures")]
pub use companions::stream::{Cost, OneToken, RateLimited, StreamExt};
pub use companions::throttle::{Throttle, ThrottleBuilder, ThrottleCounts, ThrottlePermit};
pub use concurrency::adaptive::{
    Adapt, AdaptReport, AdaptWindow, AdaptiveLimit, AdaptiveLimitBuilder, AdaptivePermit,
    AdaptivePermits, AdaptiveView, Aimd, Bdp, CallOutcome, FineLimit, Gradient, GradientBuilder,
    OwnedAdaptivePermit, Vegas,
};
pub use concurrency::limit::{ConcurrencyLimit, ConcurrencyLimitBuilder, OwnedPermit};
pub use concurrency::permit::{Permit, Permits};
pub use gate::{Gate, GateBuilder, GateError, GateLimits, KeyedGate, KeyedGateBuilder, KeyedTurn};
pub use keyed::{
    AsKey, AtKey, Exact, Hashed, KeyId, KeyLimiter, KeyNames, KeyPermit, KeyPermits, KeyUsage,
    Keyed, KeyedAlgorithm, KeyedBuilder, KeyedConcurrencyLimit, KeyedCounts, KeyedError, KeyedView,
    OwnedKeyPermit, WhenFull, WithLimit,
};
pub use limiter::{
    At, Builder, Limit, Limiter, LimiterState, LimiterStateError, QuotaState, RateLimiter,
    Reservation, Snapshot,
};
pub use queue::{
    Acquirable, Acquire, CancelHandle, Codel, Deadline, Grant, Order, Precision, Spacing, Ticks,
    WaitQueue,
};
pub use quota::policy::Policy;
pub use quota::{Quota, QuotaError, Quotas};
pub use striped::{Batch, Draw, OneWord, Striped};
pub use types::approximate_window::{ApproximateWindow, ApproximateWindowBuilder};
pub use types::decaying_bucket::{DecayingBucket, DecayingBucketBuilder};
pub use types::dual_token_bucket::{DualTokenBucket, DualTokenBucketBuilder};
pub use types::fixed_window::{FixedWindow, FixedWindowBuilder};
pub use types::leaky_bucket::{Drain, LeakyBucket, LeakyBucketBuilder};
pub use types::leased::{Filler, LeaseHeld, LeaseUse, Leased, LeasedBuilder};
pub use types::segmented_window::{SegmentedWindow, SegmentedWindowBuilder};
pub use types::sliding_window::{SlidingWindow, SlidingWindowBuilder};
pub use types::token_bucket::{Carry, PayAfter, Refill, TokenBucket, TokenBucketBuilder};
pub use types::unlimited::Unlimited;
pub use types::warm_up::{WarmUp, WarmUpBuilder};
pub use verdict::Denied;

/// Type parameters of [`RateLimiter`]: the engines, and the traits for their capabilities.
///
/// Name them in code that is generic over limiters:
///
/// ```
/// use flowgate::engine::{Engine, Refunds};
/// use flowgate::{FixedWindow, RateLimiter, TokenBucket};
///
/// fn retry<E: Engine + Refunds>(limiter: &RateLimiter<E>) -> u64 {
///     limiter.refund(1)
/// }
///
/// retry(&TokenBucket::new("1/s".parse()?));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub mod engine {
    pub use crate::limiter::builder::Build;
    pub use crate::limiter::engine::{Engine, Refunds, Requotas, Reserves};
    pub use crate::limiter::state::Exports;
    pub use crate::types::approximate_window::Approximate;
    pub use crate::types::decaying_bucket::Decaying;
    pub use crate::types::dual_token_bucket::Dual;
    pub use crate::types::fixed_window::Windows;
    pub use crate::types::leased::Leases;
    pub use crate::types::segmented_window::Segments;
    pub use crate::types::sliding_window::Log;
    pub use crate::types::token_bucket::{Bucket, Debts, Drops, Mode, PaysBefore, Tokens};
    pub use crate::types::unlimited::NoLimit;
    pub use crate::types::warm_up::Warming;
}

/// The examples of the README are tested, too. flowgate-tower tests those of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
