//! Where a limiter's state and parameters are stored: building blocks that the limiters share.

pub(crate) mod cell;
#[cfg(all(test, flowgate_loom))]
mod model;
pub(crate) mod ring;
// Used by the clock over the time stamp counter, which loom does not explore, and by the models.
#[cfg(any(
    all(
        feature = "tsc",
        target_arch = "x86_64",
        target_os = "linux",
        not(flowgate_loom)
    ),
    all(test, flowgate_loom)
))]
pub(crate) mod seqlock;
pub(crate) mod thread_number;
mod versioned;
pub(crate) mod word;

pub(crate) use versioned::{Version, Versioned};
