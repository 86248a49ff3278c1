//! How to choose a limiter, give it numbers, test what uses it, and come here from another library.
//!
//! - [`choosing`]: from your question to a type.
//! - [`rate_or_concurrency`]: which of the two to bound, and when both.
//! - [`burst_and_slack`]: the second number of a limit, drawn.
//! - [`testing`]: a clock that you move, and no sleeping.
//! - [`migrating`]: from governor, tower, tokio's `Semaphore`, Guava, Go's `x/time/rate`.

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("rate_or_concurrency.md")]
pub mod rate_or_concurrency {}

#[doc = include_str!("burst_and_slack.md")]
pub mod burst_and_slack {}

#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("migrating.md")]
pub mod migrating {}
