//! Detects which algorithm a rate limiter uses, and how much it really admits.
//!
//! This crate plans requests and draws conclusions from the responses. It does no I/O. A [`ProbeSubject`] sends the
//! requests: over HTTP (`flowgate verify`), or in process on a manual clock (`flowgate_testkit::verify`).
//!
//! ```text
//!  Investigation ─▶ ProbeBatch ─▶ ProbeSubject ─▶ [Observation] ─▶ algorithm, envelope, defects ─▶ Findings
//!      ▲                                               │
//!      └── next batch ◀────────────────────────────────┘
//! ```
//!
//! An [`Investigation`] sends bursts, steady streams and pauses, and returns [`Findings`]: the detected algorithm, rate
//! and burst with error bounds, the worst interval, and defects.
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod advertised;
mod allowance;
mod blocks;
mod budget;
mod clock;
mod conclusion;
mod counting;
mod delays;
mod detect;
mod evidence;
mod expected;
mod findings;
mod fit;
mod forecast;
mod hints;
mod identify;
mod inquiry;
mod investigation;
mod models;
mod observation;
mod phases;
mod plateau;
mod progress;
mod quantile;
mod search;
mod second;
mod simulated;
mod slots;
mod subject;
mod text;
mod unexplained_group;
mod unresolved;
mod window_pairs;

pub use budget::Budget;
pub use expected::{ExpectedKind, ExpectedLimit, ExpectedLimitError};
pub use findings::{
    AdvertisedQuota, Alignment, BlockStart, Defect, DetectedAlgorithm, DetectedBlock,
    DetectedDelays, DetectedKind, DetectedLimit, EnvelopePoint, Estimate, ExpectedVerdict,
    Findings, HeaderAccuracy, Judgement, KeyIsolation, SeenSlot, Steady, Worst,
};
pub use forecast::Forecast;
pub use investigation::Investigation;
pub use observation::{Advertised, Observation, ProbeOutcome};
pub use progress::ProbeProgress;
pub use simulated::{Answer, Question, Simulated};
pub use subject::{Phase, Probe, ProbeBatch, ProbeSubject};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
