//! What stands beside the limiters: it uses them, or helps to choose them, and no limiter needs it.
//!
//! It is in this crate, not in crates of its own, because each part is small, adds no dependency without its feature, and uses
//! what is private here (queues, atomics that loom can explore).

pub(crate) mod address;
pub(crate) mod config;
pub(crate) mod degrade;
#[cfg(all(feature = "std", not(flowgate_loom)))]
pub(crate) mod io;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod observed;
#[cfg(any(feature = "futures", all(feature = "std", not(flowgate_loom))))]
mod payer;
#[cfg(feature = "serde")]
mod serde;
pub mod sizing;
pub(crate) mod sometimes;
#[cfg(feature = "futures")]
pub(crate) mod stream;
