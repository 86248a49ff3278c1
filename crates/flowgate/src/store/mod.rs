//! Storage of a limiter's state and parameters: building blocks that the limiters share.

pub(crate) mod cell;
pub(crate) mod judged;
pub(crate) mod ring;
pub(crate) mod word;
