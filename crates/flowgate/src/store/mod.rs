//! Where a limiter's state and parameters are stored: building blocks that the limiters share.

pub(crate) mod cell;
pub(crate) mod ring;
pub(crate) mod word;
