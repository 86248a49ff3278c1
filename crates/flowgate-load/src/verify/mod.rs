//! Sends the requests of an investigation to a server over HTTP.
//!
//! ```text
//!  Investigation ── ProbeBatch ──▶ HttpSubject ── each probe at its time ──▶ Prober ──▶ connection
//!                ◀─ [Observation] ──╯      ◀─ status, Advertised, sent and answered ──╯
//! ```
//!
//! The crate flowgate-verify plans the requests and draws the conclusions.

mod error;
mod inconclusive;
mod json;
mod prober;
mod statuses;
mod subject;

pub use error::VerifyError;
pub use inconclusive::Inconclusive;
pub use json::to_json;
pub use statuses::{StatusRanges, StatusRangesError};
pub use subject::{Asking, HttpSubject, MAX_CONNECTIONS};
