//! Rate limits that several processes share through Redis or Valkey.
//!
//! | you need | see |
//! |---|---|
//! | a limit for several processes | [`Fleet`], [`FleetLimit::ask`] |
//! | a limit for each key, such as each tenant | [`Fleet::keyed`], [`FleetKeyed::ask`] |
//! | limits in tests, without a store | [`Fleet::local`] |
//! | a decision while the store does not answer | [`CutOff`], [`Admitted::is_degraded`] |
//!
//! ```
//! use flowgate_fleet::Fleet;
//!
//! // No store listens at this address: this process is on its own.
//! let fleet = Fleet::redis("redis://127.0.0.1:1")?.nodes(2).open()?;
//! let api = fleet.limit("api", "6/h".parse()?).build()?;
//!
//! let admitted = api.ask().n(3).block()?; // in a task: `api.ask().n(3).await`
//! assert!(admitted.is_degraded()); // half of the limit is this process's share
//! assert!(api.ask().block().unwrap_err().is_outage());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! Let b be the burst and r the rate of a limit, and let all processes state the same quota. In every interval of length t, they are
//! admitted at most b + r·t. An admission counts when the store takes its units; the caller learns of it up to one
//! [timeout](FleetBuilder::timeout) later.
//!
//! Three faults add to that:
//!
//! | fault | adds at most |
//! |---|---|
//! | a process decides alone for a time c, with a share of a/n | a/n · (b + r·c) |
//! | the store loses its records, and no process remembers | b |
//! | the store loses its records, and is reminded | what was taken since the last answer that any process has received |
//!
//! A refusal by the store states the exact time, by the store's clock. Counted from its arrival, it is at most one message too long, and
//! never too short.
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod bucket;
mod call;
mod cut_off;
mod error;
mod fleet;
mod keys;
mod limit;
mod link;
mod local;
mod record;
mod redis;
#[cfg(test)]
mod script;
mod store;
mod strict;
mod terms;

pub use cut_off::CutOff;
pub use error::FleetError;
pub use fleet::{Fleet, FleetBuilder, FleetLimitBuilder};
pub use limit::{Admitted, Ask, FleetKeyed, FleetLimit};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
