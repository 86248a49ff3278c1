//! Logs: the requests of real traffic, and what services really took.
//!
//! ```text
//!  bytes ──▶ Lines ──▶ Extract (access, json, csv) ──▶ time, key, cost ──▶ Recording ──▶ RecordedLog
//! ```

mod access;
mod csv;
mod durations;
mod error;
mod fields;
mod format;
mod json;
mod lines;
mod moment;
mod reader;
mod recording;

pub use durations::{DurationReader, RecordedDurations};
pub use error::{LogError, MalformedLine, MalformedLines};
pub use format::LogFormat;
pub use reader::{LogProgress, LogReader};
pub use recording::{LogKeys, RecordedLog};
