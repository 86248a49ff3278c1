//! The rate limiters: for each its page, its builder, and the engine that runs its algorithm.

pub(crate) mod approximate_window;
pub(crate) mod decaying_bucket;
pub(crate) mod dual_token_bucket;
pub(crate) mod fixed_window;
pub(crate) mod leaky_bucket;
pub(crate) mod leased;
pub(crate) mod segmented_window;
pub(crate) mod sliding_window;
pub(crate) mod token_bucket;
pub(crate) mod unlimited;
pub(crate) mod warm_up;
