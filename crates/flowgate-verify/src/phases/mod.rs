//! The phases of an investigation, one question per file.

mod blocks;
mod burst;
mod comeback;
mod delays;
mod forgets;
mod headers;
mod keys;
mod nodes;
mod queue;
mod race;
mod refill;
mod rest;
mod saturate;
mod second;
mod shape;
mod sharpen;
mod steady;

pub(crate) use blocks::blocks;
pub(crate) use burst::{Ends, Found, burst, burst_again};
pub(crate) use comeback::{Comeback, comeback};
pub(crate) use delays::delays;
pub(crate) use forgets::forgets;
pub(crate) use headers::{headers, tell};
pub(crate) use keys::{keys, keys_of_queue};
pub(crate) use nodes::nodes;
pub(crate) use queue::queue;
pub(crate) use race::race;
pub(crate) use refill::refill;
pub(crate) use rest::rest;
pub(crate) use saturate::saturate;
pub(crate) use second::{Gentle, first_again, gently, wait_for_admission};
pub(crate) use shape::shape;
pub(crate) use sharpen::sharpen;
pub(crate) use steady::{collapse, steady};
