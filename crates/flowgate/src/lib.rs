//! flowgate decides **whether, and when, an operation may go ahead**.
//!
//! This crate holds the limiters. Each keeps a promise that is an inequality over integers, on every thread
//! schedule and every clock; a decision is one clock reading and one compare-and-swap.
//!
//! ```
//! use flowgate::TokenBucket;
//!
//! let limiter = TokenBucket::new("100/s burst 20".parse()?);
//! if let Err(denied) = limiter.try_acquire_n(5) {
//!     eprintln!("{denied}; retry after {:?}", denied.retry_after());
//! }
//! # Ok::<(), flowgate::QuotaError>(())
//! ```
//!
//! - [`Quota`]: what is allowed. `"100/s burst 20".parse()`, or [`Quota::per_second`].
//! - [`Quotas`]: two of them for one limiter. `"10/s burst 5; 1000/day".parse()`.
//! - [`TokenBucket`]: at most burst + rate · t in every span t; bursts, reservations, refunds, overdraft,
//!   live change of rate and size.
//! - [`LeakyBucket`]: evenly spaced; never two closer together than the quota says.
//! - [`DualTokenBucket`]: two quotas at once, 10 per second *and* 1,000 per day; all or nothing.
//! - [`FixedWindow`]: at most limit in each window, by the calendar if you like.
//! - [`SlidingWindow`]: at most limit in every window, exactly, with memory for each admission in it.
//! - [`SegmentedWindow`]: at most limit in every window, in little memory; may refuse up to one segment longer.
//! - [`ApproximateWindow`]: two counters and a straight line between them; at most 2 · limit − 1 in a window.
//! - [`WarmUp`]: ramps up from cold.
//! - [`PayAfter`]: a token bucket where a large operation goes at once, and the next one pays.
//! - [`DecayingBucket`]: outflow that grows with the level.
//! - [`ConcurrencyLimit`]: at most limit at once, fair, resized live.
//! - [`Gate`]: several limits, one [`Permit`]: a token *and* a slot, or neither.
//! - [`Keyed`]: a limit for each key, in memory of a fixed size; [`KeyedConcurrencyLimit`]: so many in flight for each.
//! - [`Striped`]: the same promises at the cost of a local counter, across cores; [`Batch`]: for one owner.
//! - [`Degrade`]: watches how slow calls are, and says how far to degrade.
//! - [`sizing`]: how large a limit has to be for a rate and a latency.
//! - [`Sometimes`], [`sometimes!`]: speak now and then, and say how often you did not.
//! - [`Observed`]: counts what a limiter answers, and how long its callers wait.
//! - [`Throttled`]: readers and writers that share a bandwidth fairly.
//! - `StreamExt::rate_limited`, with the feature `futures`: streams whose items wait for their turns.
//! - `MetricsPublisher`, with the feature `metrics`: what [`Observed`] counts, for the facade of that name.
//! - [`Unlimited`]: no limit, behind the same trait.
//! - [`Denied`]: a refusal that knows when to come back.
//! - [`Clock`]: the machine's time, or a [`ManualClock`] for tests that never sleep.
//! - [`Limiter`]: any of the limiters, behind `&dyn`.
//!
//! Which of them, with which numbers, how to test it, and how to come here from another library: the [`guide`].
//!
//! # Waiting
//!
//! Three verbs differ in what happens when there is no room: `try_acquire()` says no, `reserve()` says when, and
//! `acquire()` waits, in turn.
//!
//! - [`Acquire`]: the wait, a future and a builder: `limiter.acquire().n(5).within(patience).await`, or `.block()`.
//! - [`WaitQueue`]: those who wait: how many, in what [`Order`], how punctually ([`Precision`]).
//! - [`Ticks`]: the instants of a limiter's turns, an iterator and a stream.
//! - [`CancelHandle`]: ends the waits of blocked threads.
//!
//! # Threads
//!
//! Decisions start no thread. The first wait in real time starts one thread, `flowgate-timer`, which wakes the waiters of all
//! limiters in the process. It ends when no limiter has needed it for 10 seconds, and the next wait starts it again. A process
//! made by `fork()` starts its own. Limiters on a [`ManualClock`] never start it: moving the clock wakes their waiters. If the
//! system refuses to start a thread, or without the feature `std`, waiters poll until their time has come.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | the system clock, blocking waits, errors as `std::error::Error` |
//! | `tsc` | yes | reads the processor's time stamp counter where the kernel trusts it |
//! | `serde` | no | `Serialize` and `Deserialize` for [`Quota`], [`LimiterConfig`] and [`LimiterState`], in their text form |
//! | `futures` | no | `Stream` for [`Ticks`], and `StreamExt::rate_limited` |
//! | `futures-io` | no | `Throttled` for the `AsyncRead` and `AsyncWrite` of futures, smol and async-std |
//! | `tokio` | no | `Throttled` for tokio's `AsyncRead` and `AsyncWrite`: the traits alone, no runtime |
//! | `metrics` | no | `MetricsPublisher`, for the facade of the crate `metrics` |
//!
//! Without `std`, the crate needs `alloc`, and limiters need a clock that you supply: a [`ManualClock`], or a [`Source`].
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(feature = "tsc"), forbid(unsafe_code))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(docsrs, doc(auto_cfg(hide(flowgate_loom, flowgate_shuttle))))]
// Pages that are there in any case name what only `std` has. With `std`, each link is checked.
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

pub use clock::{Clock, ManualClock, Source, Timestamp};
pub use companions::address::{AddressKey, AddressPrefixes};
pub use companions::config::{
    AnyKeyed, KeyedLimiterConfig, LimiterConfig, LimiterConfigError, LimiterKind,
};
pub use companions::degrade::{Degrade, DegradeBuilder, DegradeCall, SlowCalls};
#[cfg(all(feature = "std", not(flowgate_loom)))]
pub use companions::io::Throttled;
#[cfg(feature = "metrics")]
pub use companions::metrics::MetricsPublisher;
pub use companions::observed::{Counts, Observed, Refusals, Waits};
pub use companions::sizing;
pub use companions::sometimes::{Sometimes, SometimesBuilder, SometimesBy};
#[cfg(feature = "futures")]
pub use companions::stream::{Cost, OneToken, RateLimited, StreamExt};
pub use concurrency::limit::{ConcurrencyLimit, ConcurrencyLimitBuilder, OwnedPermit};
pub use concurrency::permit::{Permit, Permits};
pub use gate::{Gate, GateBuilder, GateError, KeyedGate, KeyedGateBuilder, KeyedTurn};
pub use keyed::{
    AsKey, Exact, Hashed, KeyId, KeyLimiter, KeyNames, KeyPermit, KeyPermits, KeyUsage, Keyed,
    KeyedAlgorithm, KeyedBuilder, KeyedConcurrencyLimit, KeyedCounts, KeyedError, KeyedView,
    OwnedKeyPermit, WhenFull, WithLimit,
};
pub use limiter::{
    At, Builder, Limit, Limiter, LimiterState, LimiterStateError, RateLimiter, Reservation,
    Snapshot,
};
pub use queue::{
    Acquirable, Acquire, CancelHandle, Grant, Order, Precision, Spacing, Ticks, WaitQueue,
};
pub use quota::policy::Policy;
pub use quota::{Quota, QuotaError, Quotas};
pub use striped::{Batch, Draw, OneWord, Striped};
pub use types::approximate_window::{ApproximateWindow, ApproximateWindowBuilder};
pub use types::decaying_bucket::{DecayingBucket, DecayingBucketBuilder};
pub use types::dual_token_bucket::{DualTokenBucket, DualTokenBucketBuilder};
pub use types::fixed_window::{FixedWindow, FixedWindowBuilder};
pub use types::leaky_bucket::{Drain, LeakyBucket, LeakyBucketBuilder};
pub use types::segmented_window::{SegmentedWindow, SegmentedWindowBuilder};
pub use types::sliding_window::{SlidingWindow, SlidingWindowBuilder};
pub use types::token_bucket::{Carry, PayAfter, Refill, TokenBucket, TokenBucketBuilder};
pub use types::unlimited::Unlimited;
pub use types::warm_up::{WarmUp, WarmUpBuilder};
pub use verdict::Denied;

/// Type parameters of [`RateLimiter`]: what decides, and what it is capable of.
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
    pub use crate::types::segmented_window::Segments;
    pub use crate::types::sliding_window::Log;
    pub use crate::types::token_bucket::{Bucket, Debts, Drops, Mode, PaysBefore, Tokens};
    pub use crate::types::unlimited::NoLimit;
    pub use crate::types::warm_up::Warming;
}

/// The examples of both READMEs are tested, too: this crate's, and the repository's.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    mod of_the_crate {}
    #[doc = include_str!("repository.md")]
    mod of_the_repository {}
}
