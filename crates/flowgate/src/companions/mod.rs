//! Companions of the limiters: they use limiters, or help to choose them. No limiter needs them.
//!
//! They are in this crate, and not in separate crates, because each part is small, adds no dependency without its feature, and
//! uses private parts of this crate (queues, and atomics that loom can explore).

pub(crate) mod address;
pub(crate) mod config;
pub(crate) mod degrade;
pub(crate) mod immediate;
#[cfg(all(feature = "std", not(flowgate_loom)))]
pub(crate) mod io;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod observed;
#[cfg(any(feature = "futures", all(feature = "std", not(flowgate_loom))))]
mod payer;
pub(crate) mod priority_shedder;
pub(crate) mod retry_budget;
#[cfg(feature = "serde")]
mod serde;
pub mod sizing;
pub(crate) mod sometimes;
#[cfg(feature = "futures")]
pub(crate) mod stream;
pub(crate) mod throttle;
