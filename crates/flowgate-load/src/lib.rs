//! Sends HTTP requests at an exact rate, and proves how well the rate was held.
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
//! | lag | when it was due | when its first byte was written | how late the client was |
//! | service | when its first byte was written | its answer is complete | how slow the server was |
//! | response | when it was due | its answer is complete | what a user would have felt |
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

mod connection;
mod engine;
mod failure;
mod measurement;
mod origin;
mod pacer;
mod plan;
mod pool;
mod report;
mod schedule;
mod stop;
mod target;
mod timeline;
mod verdict;
mod worker;

pub use engine::{RunError, run};
pub use failure::Failure;
pub use measurement::{Counts, Spread, Statuses};
pub use origin::Origin;
pub use pacer::Pacer;
pub use plan::{MAX_CONNECTIONS, Plan, Template};
pub use report::{Connections, Report};
pub use schedule::{
    Extent, MAX_POISSON, MAX_REPLAYED, MAX_SEGMENTS, ReplayError, Schedule, ScheduleError, Segment,
    Times,
};
pub use stop::Stop;
pub use target::{Target, TargetError};
pub use timeline::{Slot, Timeline};
pub use verdict::{Cause, Thresholds, Verdict};
