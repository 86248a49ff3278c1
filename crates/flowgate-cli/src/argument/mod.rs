//! The texts that arguments are written in.

pub(crate) mod duration;
pub(crate) mod header;
mod plan;
pub(crate) mod profile;
pub(crate) mod rate;
