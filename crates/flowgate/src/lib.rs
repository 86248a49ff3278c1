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
//! - [`TokenBucket`]: at most burst + rate · t in every span t; bursts, reservations, refunds, overdraft,
//!   live change of rate and size.
//! - [`LeakyBucket`]: evenly spaced; never two closer together than the quota says.
//! - [`FixedWindow`]: at most limit in each window, by the calendar if you like.
//! - [`SlidingWindow`]: at most limit in every window, exactly, with memory for each admission in it.
//! - [`SegmentedWindow`]: at most limit in every window, in little memory; may refuse up to one segment longer.
//! - [`ApproximateWindow`]: two counters and a straight line between them; at most 2 · limit − 1 in a window.
//! - [`WarmUp`]: ramps up from cold.
//! - [`PayAfter`]: a token bucket where a large operation goes at once, and the next one pays.
//! - [`DecayingBucket`]: outflow that grows with the level.
//! - [`Sometimes`], [`sometimes!`]: speak now and then, and say how often you did not.
//! - [`Unlimited`]: no limit, behind the same trait.
//! - [`Denied`]: a refusal that knows when to come back.
//! - [`Clock`]: the machine's time, or a [`ManualClock`] for tests that never sleep.
//! - [`Limiter`]: any of the limiters, behind `&dyn`.
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(not(feature = "tsc"), forbid(unsafe_code))]
#![doc(html_root_url = "https://docs.rs/flowgate/0.1.0")]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod algorithm;
mod approximate_window;
mod at;
mod cell;
mod clock;
mod decaying_bucket;
mod fixed_window;
mod leaky_bucket;
mod limiter;
mod primitive;
mod quota;
mod reservation;
mod ring;
mod segmented_window;
mod sliding_window;
mod sometimes;
mod token_bucket;
mod unlimited;
mod verdict;
mod warm_up;
mod word;

pub use approximate_window::{ApproximateWindow, ApproximateWindowBuilder};
pub use at::At;
pub use clock::{Clock, ManualClock, Source, Timestamp};
pub use decaying_bucket::{DecayingBucket, DecayingBucketBuilder};
pub use fixed_window::{FixedWindow, FixedWindowBuilder};
pub use leaky_bucket::{LeakyBucket, LeakyBucketBuilder};
pub use limiter::{Limiter, Snapshot};
pub use quota::{Quota, QuotaError};
pub use reservation::Reservation;
pub use segmented_window::{SegmentedWindow, SegmentedWindowBuilder};
pub use sliding_window::{SlidingWindow, SlidingWindowBuilder};
pub use sometimes::{Sometimes, SometimesBuilder, SometimesBy};
pub use token_bucket::{Carry, PayAfter, Refill, TokenBucket, TokenBucketBuilder};
pub use unlimited::Unlimited;
pub use verdict::Denied;
pub use warm_up::{WarmUp, WarmUpBuilder};
