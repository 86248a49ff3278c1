//! The texts that arguments are written in, and the groups of arguments that belong together.

pub(crate) mod cap;
pub(crate) mod connecting;
pub(crate) mod duration;
pub(crate) mod gate;
pub(crate) mod habit;
mod header;
pub(crate) mod output;
mod plan;
pub(crate) mod profile;
pub(crate) mod rate;
pub(crate) mod request;
pub(crate) mod url;
