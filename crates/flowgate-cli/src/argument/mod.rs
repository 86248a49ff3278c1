//! The texts that arguments are written in.

pub(crate) mod duration;
pub(crate) mod header;
pub(crate) mod rate;
