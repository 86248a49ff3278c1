//! A rate limiter on the other side of HTTP, as something that can be asked.
//!
//! ```text
//!  Investigation ── Volley ──▶ HttpSubject ── each shot at its time ──▶ Lane ──▶ connection
//!                ◀─ [Observation] ──╯      ◀─ status, Told, sent and answered ──╯
//! ```
//!
//! What is asked, and what follows from the answers, is flowgate-verify's.

mod error;
mod json;
mod lane;
mod neither;
mod statuses;
mod subject;

pub use error::VerifyError;
pub use json::to_json;
pub use neither::Neither;
pub use statuses::{StatusRanges, StatusRangesError};
pub use subject::{Asking, HttpSubject, MAX_LANES};
