//! Where a limiter's state and parameters are stored: building blocks that the limiters share.

#[cfg(all(test, flowgate_loom))]
mod model;
mod versioned;

pub(crate) use versioned::{Version, Versioned};
