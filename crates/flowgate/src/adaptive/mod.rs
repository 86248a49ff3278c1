//! Limits that an algorithm sets: [`AdaptiveLimit`].
//!
//! ```text
//!  limit: every method ──▶ permit ──▶ samples: one word ──▶ windower ──▶ algorithm ──▶ limit
//! ```
//!
//! `docs/internals/adaptive.md` tells how a sample flows, and why so.

mod algorithm;
mod bounds;
mod builder;
mod fine_limit;
mod inspect;
mod limit;
#[cfg(all(test, flowgate_loom))]
mod model;
mod permit;
mod rest;
mod sampler;
mod samples;
#[cfg(all(test, not(flowgate_loom)))]
mod tests;
mod window;
mod windower;

pub use algorithm::aimd::Aimd;
pub use algorithm::bdp::Bdp;
pub use algorithm::gradient::{Gradient, GradientBuilder};
pub use algorithm::vegas::Vegas;
pub use algorithm::{Adapt, AdaptReport};
pub use builder::AdaptiveLimitBuilder;
pub use fine_limit::FineLimit;
pub use inspect::AdaptiveView;
pub use limit::AdaptiveLimit;
pub use permit::{AdaptivePermit, AdaptivePermits, Outcome, OwnedAdaptivePermit};
pub use window::AdaptWindow;
