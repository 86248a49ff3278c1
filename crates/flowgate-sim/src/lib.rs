//! Discrete-event simulation of rate limits, queues and servers, with the limiters of flowgate.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/flowgate-sim/0.1.0")]

mod bound;
mod distribution;
mod error;
mod key_table;
mod keys;
mod log;
mod outcome;
mod policy;
mod random;
mod run;
mod scenario;
mod server;
mod share;
mod simulation;
mod suggest;
mod text;
mod time;
mod traffic;
mod windows;

pub use bound::AdmissionBound;
pub use distribution::Distribution;
pub use error::TextError;
pub use key_table::{KeyCounts, KeyTable};
pub use keys::Keys;
pub use log::{
    DurationReader, LogError, LogFormat, LogKeys, LogProgress, LogReader, MalformedLine,
    MalformedLines, RecordedDurations, RecordedLog,
};
pub use outcome::{Latency, OutcomeCounts, RunOutcome, SourceOutcome, StopReason, TimeSlot};
pub use policy::{
    AdmissionDecision, AdmissionPolicy, Held, LimiterPolicy, Request, Unprotected, Wait,
};
pub use scenario::{
    ArrivalsConfig, LimitConfig, LimiterText, LogOptions, PreparedScenario, Scenario,
    ScenarioError, TrafficConfig,
};
pub use server::{Contention, Fault, FaultKind, QueueOrder, Server};
pub use share::Share;
pub use simulation::{RunProgress, Simulation};
pub use suggest::{Search, Suggestion, Tried, Wish, suggest};
pub use traffic::{Arrivals, Recorded, Retries, Traffic};
pub use windows::{Peak, WorstWindow};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
