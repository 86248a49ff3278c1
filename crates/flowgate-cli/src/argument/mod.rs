//! Parsers of argument values, and groups of related arguments.

pub(crate) mod cap;
pub(crate) mod command_line;
pub(crate) mod connecting;
pub(crate) mod count;
pub(crate) mod duration;
mod form;
pub(crate) mod gate;
pub(crate) mod habit;
pub(crate) mod header;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod percentile;
mod plan;
pub(crate) mod profile;
pub(crate) mod rate;
pub(crate) mod request;
pub(crate) mod slice;
pub(crate) mod slo;
pub(crate) mod targets;
pub(crate) mod url;
