//! Sends HTTP requests at an exact rate, or never above a rate, and proves it.
//!
//! - *Rate held*: every scheduled request was sent on time, and the mean rate matches the target.
//! - *Rate limit kept*: the sends never exceeded the rate in any interval.
//!
//! The load is **open loop**: the time of a request depends only on its index, never on how fast the server responds. A
//! slow server therefore cannot slow the measurement down, and response times are corrected for coordinated omission.
//! If every connection is busy, requests wait for one, and that wait counts as *lag*.
//!
//! Each request has three timestamps, which give three durations:
//!
//! | duration | from | to | meaning |
//! |---|---|---|---|
//! | lag | scheduled time | first byte written | how late the client was |
//! | service | first byte written | response complete | how slow the server was |
//! | response | scheduled time | response complete | what a user would have felt |
//!
//! # Examples
//!
//! Send requests to the built-in test server for 100 ms:
//!
//! ```
//! use std::time::Duration;
//!
//! use flowgate::Quota;
//! use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
//!
//! let origin = Origin::start()?;
//! let schedule = Schedule::lasting(Quota::per_second(200), Duration::from_millis(100))?;
//! let plan = Plan::new(Target::parse(&origin.url())?, schedule);
//!
//! let report = flowgate_load::run(plan, &Stop::new())?;
//! assert_eq!(report.counts.sent, 20);
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock_offset;
mod compare;
mod connection;
mod counts;
mod decoder;
mod detail;
mod dispatcher;
mod engine;
mod event;
mod failure;
pub mod find;
mod measurement;
mod origin;
mod otlp;
mod pacer;
mod pacing;
mod pacing_limiter;
mod plan;
mod pool;
mod prepared;
mod progress;
mod report;
mod request_file;
mod request_log;
mod request_mix;
mod session;
mod shard;
mod slice;
mod spread;
mod stop;
mod target;
mod timeline;
mod verdict;
pub mod verify;
mod worker;

pub use clock_offset::ClockOffset;
pub use compare::{Compared, Difference, RunComparison, compare};
pub use connection::{
    ClientIdentity, ConnectOptions, ContentCoding, HostAddress, HttpProxy, HttpVersion, Peer,
    TlsError, Trust, Via,
};
pub use counts::{ErrorCause, RequestCounts, Statuses};
pub use decoder::Decoded;
pub use detail::{Detail, Histogram, HistogramError, TimeBlock};
pub use engine::{RunError, run, run_logged, run_watched};
pub use failure::{Failure, TlsFault};
#[doc(no_inline)]
pub use flowgate_schedule::{
    Extent, MAX_POISSON, MAX_REPLAYED, MAX_SEGMENTS, ReplayError, Schedule, ScheduleError, Segment,
    Times,
};
pub use origin::Origin;
pub use otlp::{OtlpCollector, OtlpPush, OtlpSender, OtlpSignal, PushError, Pushed};
pub use pacer::Pacer;
pub use pacing::{Busiest, Cluster, Pacing};
pub use pacing_limiter::{Margin, PacingLimiter, PacingLimiterError};
pub use plan::{Late, MAX_CONNECTIONS, Pace, Plan, Template};
pub use progress::Progress;
pub use report::{
    Asked, Connections, Curves, Guarantee, MergeError, Merged, MergedPart, PacingMode, Provenance,
    Report, ReportError, Window, html,
};
pub use request_file::{RequestFile, RequestFileError, RequestFormat, Rows};
pub use request_log::RequestLog;
pub use request_mix::{RequestMix, RequestMixError};
pub use slice::Slice;
pub use spread::{Quantile, Spread};
pub use stop::Stop;
pub use target::{Target, TargetError};
pub use timeline::{Slot, Timeline};
pub use verdict::{Cause, Thresholds, Verdict};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
