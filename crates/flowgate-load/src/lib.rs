//! Sends HTTP requests at an exact rate or under one, and proves that the rate was held or the rate limit kept.
//!
//! *Rate held* means: every scheduled request was sent, on time, and the mean rate was the one asked for. *Rate limit kept*
//! means: the sends never exceeded the rate, in any interval.
//!
//! The load is **open loop**: when a request is sent depends only on its index, never on how fast
//! the server answers, so a slow server cannot slow the measurement down and hide itself. When
//! every allowed connection is busy, requests wait for one, and that wait is measured and shown as
//! *lag*.
//!
//! Three times are taken for every request, and three durations follow from them:
//!
//! | duration | from | to | says |
//! |---|---|---|---|
//! | lag | its scheduled time | when its first byte was written | how late the client was |
//! | service | when its first byte was written | its answer is complete | how slow the server was |
//! | response | its scheduled time | its answer is complete | what a user would have felt |
//!
//! # Examples
//!
//! Load the crate's own server for a moment:
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

mod connection;
mod counts;
mod dispatcher;
mod engine;
mod event;
mod failure;
mod measurement;
mod origin;
mod pacer;
mod pacing;
mod pacing_limiter;
mod plan;
mod pool;
mod progress;
mod report;
mod schedule;
mod shard;
mod spread;
mod stop;
mod target;
mod timeline;
mod verdict;
pub mod verify;
mod worker;

pub use connection::{ConnectOptions, HttpVersion, TlsError, Trust};
pub use counts::{Counts, Statuses};
pub use engine::{RunError, run, run_watched};
pub use failure::{Failure, TlsFault};
pub use origin::Origin;
pub use pacer::Pacer;
pub use pacing::{Busiest, Cluster, Pacing};
pub use pacing_limiter::{Margin, PacingLimiter, PacingLimiterError};
pub use plan::{Late, MAX_CONNECTIONS, Pace, Plan, Template};
pub use progress::Progress;
pub use report::{Asked, Connections, Curves, Guarantee, Mode, Report, ReportError, Window, html};
pub use schedule::{
    Extent, MAX_POISSON, MAX_REPLAYED, MAX_SEGMENTS, ReplayError, Schedule, ScheduleError, Segment,
    Times,
};
pub use spread::{Quantile, Spread};
pub use stop::Stop;
pub use target::{Target, TargetError};
pub use timeline::{Slot, Timeline};
pub use verdict::{Cause, Thresholds, Verdict};

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
