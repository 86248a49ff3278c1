//! Discrete-event simulation of rate limits, queues and servers, with the limiters of flowgate.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/flowgate-sim/0.1.0")]

mod agenda;
mod distribution;
mod error;
mod keys;
mod log;
mod outcome;
mod policy;
mod random;
mod scenario;
mod server;
mod simulation;
mod text;
mod traffic;

pub use distribution::Distribution;
pub use error::TextError;
pub use keys::Keys;
pub use log::{
    DurationReader, KeyNames, LogError, LogFormat, LogProgress, LogReader, MalformedLine,
    MalformedLines, RecordedDurations, RecordedLog,
};
pub use outcome::{KeyCounts, Latency, OutcomeCounts, RunOutcome, TimeSlot};
pub use policy::{AdmissionPolicy, Decision, Held, LimiterPolicy, Request, Unprotected, Wait};
pub use scenario::{
    ArrivalsConfig, LimitConfig, LimiterText, Scenario, ScenarioError, TrafficConfig,
};
pub use server::{Contention, Fault, FaultKind, QueueOrder, Server};
pub use simulation::Simulation;
pub use traffic::{Arrivals, Recorded, Retries, Traffic};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
