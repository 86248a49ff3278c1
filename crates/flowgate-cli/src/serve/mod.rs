//! A server guarded by a limiter, honest or with a fault that is put in on purpose.
//!
//! ```text
//!  connection ─▶ Site ─▶ Guard, one for each node and key ─▶ LimitLayer over a limiter ─▶ Page
//!                          ╰── Fault: what is done wrong on the way
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
