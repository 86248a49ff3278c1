//! A server with a rate limiter, optionally with injected faults.
//!
//! ```text
//!  connection ─▶ Site ─▶ Guard, one per node and key ─▶ LimitLayer over a limiter ─▶ Page
//!                          ╰── Fault: injected on the way
//! ```

mod fault;
mod guard;
mod limit;
mod page;
mod site;

pub(crate) use fault::{Fault, Faults};
pub(crate) use guard::Answering;
pub(crate) use limit::Limit;
pub(crate) use page::Page;
pub(crate) use site::{MAX_CONNECTIONS, Site, serve};
