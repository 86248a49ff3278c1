//! What is that rate limiter, and what does it really admit?
//!
//! This crate plans what to ask, and concludes from the answers. It does no I/O: a [`Subject`] asks for it, over HTTP
//! (`flowgate verify`), or in process on a manual clock (`flowgate_testkit::verify`).
//!
//! ```text
//!  investigate ─▶ Volley ─▶ Subject ─▶ [Observation] ─▶ likeness, envelope, faults ─▶ Findings
//!      ▲                                    │
//!      └── what to ask next ◀───────────────┘
//! ```
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod allowance;
mod budget;
mod claim;
mod clock;
mod conclusion;
mod crowd;
mod evidence;
mod findings;
mod fit;
mod forecast;
mod hints;
mod identify;
mod inquiry;
mod investigation;
mod likeness;
mod models;
mod observation;
mod phases;
mod plateau;
mod progress;
mod search;
mod simulated;
mod subject;
mod text;
mod told_quota;

pub use budget::Budget;
pub use claim::{Claim, ClaimError, ClaimedKind};
pub use findings::{
    Alignment, Estimate, Fault, Findings, Honesty, Judgement, KeyIsolation, Kind, Likeness, Point,
    Steady, ToldQuota, Verdict, Worst,
};
pub use forecast::Forecast;
pub use investigation::Investigation;
pub use observation::{Observation, Outcome, Told};
pub use progress::Progress;
pub use simulated::{Answer, Question, Simulated};
pub use subject::{Phase, Shot, Subject, Volley};

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
