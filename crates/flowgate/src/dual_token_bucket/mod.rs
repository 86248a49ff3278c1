//! Two quotas on one limiter.

mod parameters;
#[cfg(all(test, not(flowgate_loom)))]
mod tests;
