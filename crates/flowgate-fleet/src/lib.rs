//! Rate limits that several processes share through Redis or Valkey.
//!
//! | you need | see |
//! |---|---|
//! | a limit for several processes | [`Fleet`], [`FleetLimit::ask`] |
//! | a limit for each key, such as each tenant | [`Fleet::keyed`], [`FleetKeyed::ask`] |
//! | evenly spread requests, a leaky bucket | [`Fleet::leaky_bucket`], [`Fleet::keyed_leaky_bucket`] |
//! | windows, such as calendar days | [`Fleet::window`], [`Fleet::keyed_window`] |
//! | another quota while a limit is used | [`FleetLimit::set_quota`] |
//! | several limits together, from all or from none | [`Ask::all`] |
//! | limits in tests, without a store | [`Fleet::local`], [`LocalStore`] |
//! | to know how much a limit may have been exceeded | [`FleetLimit::bound`], [`FleetLeased::bound`] |
//! | decisions without a call to the store | [`FleetLeased`], [`FleetLimitBuilder::leased`]; of busy keys, the same of a [`keyed`](Fleet::keyed) limit |
//! | to look at a limit, and to reset it, as an operator | [`FleetStore`] |
//! | an answer in a caller's time | [`Ask::within`] |
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
//! The [guide] explains outages, tests, the store's settings and metrics.
//!
//! # Guarantees
//!
//! Let b be the burst and r the rate of a limit, and let all processes state the same quota. In every interval of length t, they are
//! admitted at most b + r·t. An admission counts when the store takes its units; the caller learns of it up to one
//! [timeout](FleetBuilder::timeout) later. Of several limits in a cluster, it is up to one timeout per limit.
//!
//! Windows of N in a period of P admit at most N in each window, and windows begin at least P apart. So in every interval of length t,
//! they admit at most 2·N + N/P·t. In an interval shorter than P, that is a part of two windows, and at most 2·N.
//!
//! A leased limit admits at most its [`Overshoot`] more, and so does each key of a limit whose busy keys lease. That is what all processes
//! hold when the interval begins. Tokens that are [refunded](flowgate::RateLimiter::refund) after the next lease has been granted are held in addition.
//!
//! Four faults add to that:
//!
//! | fault | adds at most |
//! |---|---|
//! | a process decides alone for a time c, with a share of a/n | a/n · (b + r·c) |
//! | the store loses its records, and no process remembers | b; with leases, b and the overshoot |
//! | the store loses its records, and is reminded | what was taken since the last answer of the process that asks first |
//! | two servers are asked as the primary, for a time d | r·d |
//!
//! Of windows, r is N/P, and b is N where the store loses its records, and 2·N for the share of a process.
//!
//! A refusal by the store states the exact time, by the store's clock. Counted from its arrival, it is at most one message too long, and
//! never too short.
//!
//! # What each fault does
//!
//! | fault | what happens | adds |
//! |---|---|---|
//! | the store is killed | each process decides alone until it is back | shares |
//! | the store hangs | after one [timeout](FleetBuilder::timeout), each process decides alone | shares |
//! | the store is back, and empty | processes remind it of what they have seen | less than b |
//! | the store is back, and has kept its log (`appendonly yes`) | the limit goes on | nothing |
//! | `FLUSHALL`, or a record is evicted | processes remind it of what they have seen | less than b |
//! | `SCRIPT FLUSH` | the script is loaded again, within the same call | nothing |
//! | the store's memory is full | each process decides alone, and asks again after 1 s | shares |
//! | the store's clock is set back | time goes on from there; an open window ends within 2·P | nothing |
//! | the store's clock is set ahead by j | what flows back in j flows back now | r·j, at most b (2·N of aligned windows) |
//! | an answer is lost, or late | what it granted is lost; nothing is sent twice | shares |
//! | a message is lost while units are given back | they flow back at the limit's rate | nothing |
//! | Sentinel replaces a primary that failed | processes follow when the sentinels name the new one | less than b |
//! | Sentinel replaces a primary that works | until all processes follow, both admit | less than b, and r·d |
//! | a cluster replaces a primary | its records are decided alone until a replica is promoted | shares, less than b |
//! | a slot of a cluster is moved | calls follow it | nothing |
//!
//! *Shares* are what processes admit alone. With [`CutOff::Deny`], they are nothing.
//!
//! Sentinel leaves an old primary admitting for about 10 s. A process asks the sentinels each second, and when they tell of a change. So it
//! follows sooner; one that is cut off from the sentinels does not. With `min-replicas-to-write 1` and `min-replicas-max-lag 2`, the old
//! primary stops after about 2 s. Redis 6.2 does not apply that to scripts.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `metrics` | `FleetMetrics`, for the facade of the crate `metrics` |
//! | `server` | `Fleet::server`, for limits of a decision server |
//! | `tls` | addresses that begin with `rediss://` or `https://`, by rustls |
//!
//! Certificates are the system's, or those of `FleetBuilder::certificate_authorities`. For OpenTelemetry, `register_fleet_metrics` of
//! flowgate-otel does the same as `FleetMetrics`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod advice;
mod all;
mod bucket;
mod busy;
mod call;
mod cluster;
mod cut_off;
mod delivery;
mod error;
mod fleet;
pub mod guide;
mod inspect;
mod kept;
mod keys;
mod leased;
mod leaser;
mod limit;
mod link;
mod local;
#[cfg(feature = "metrics")]
mod metrics;
mod names;
mod node;
mod overshoot;
mod patience;
mod record;
mod redis;
#[cfg(feature = "server")]
mod remote;
#[cfg(test)]
mod script;
mod sentinel;
#[cfg(test)]
mod sim;
mod store;
mod strict;
mod tally;
mod terms;
mod view;
mod window;
mod window_builder;

pub use all::{AskAll, DeniedBy};
pub use cut_off::CutOff;
pub use error::FleetError;
pub use fleet::{Fleet, FleetBuilder, FleetLimitBuilder};
pub use inspect::{FleetNode, FleetRecord, FleetStore, FleetStoreError, FleetWindow};
pub use leased::FleetLeased;
pub use limit::{Admitted, Ask, FleetKey, FleetKeyed, FleetLimit};
pub use local::LocalStore;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use metrics::FleetMetrics;
pub use overshoot::Overshoot;
#[cfg(feature = "server")]
#[doc(hidden)]
pub use remote::{LEASE_METHOD, LeaseAnswers, LeaseRequests};
pub use view::{FleetBound, FleetCounts, FleetStanding, FleetView};
pub use window_builder::FleetWindowBuilder;

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
