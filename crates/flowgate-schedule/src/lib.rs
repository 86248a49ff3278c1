//! Schedules for load tests and simulations: the scheduled time of each request.
//!
//! A [`Schedule`] is a pure function from the index of a request to its time. It has a constant rate, a ramp, a plan, bursts or a
//! sine. Times can also be random (Poisson), or recorded.
//!
//! ```
//! use flowgate_schedule::Schedule;
//! use std::time::Duration;
//!
//! let schedule = Schedule::lasting("1000/s".parse()?, Duration::from_secs(5))?;
//! assert_eq!(schedule.len(), 5000);
//! assert_eq!(schedule.scheduled(3), Some(Duration::from_millis(3)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The rule
//!
//!
//! Each kind of schedule is a file in this folder. R(t) is the integral of the rate: the number of requests that the
//! rate requires by time t. Request `k` (the first is 0) is scheduled at the time at which R begins to exceed `k`,
//! rounded up to a whole nanosecond.
//!
//! ```text
//!  R(t)
//!    3 ┤                         ╱     the slope of R is the rate
//!    2 ┤       ╱─────────────╱         a pause: request 2 waits for its end
//!    1 ┤   ╱
//!    0 ┼╱──┬─────────────────┬──▶ t
//!      0   1                 2         requests, at their scheduled times
//! ```
//!
//! R is continuous, so no request is lost or sent twice when the rate changes. Each scheduled time is computed from the
//! start of the run, or from a sum of integers, so nothing drifts.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/flowgate-schedule/0.1.0")]

mod bursts;
mod error;
mod length;
mod poisson;
mod replay;
mod schedule;
mod search;
mod segments;
mod sine;
mod times;

pub use error::{ReplayError, ScheduleError};
pub use poisson::MAX_POISSON;
pub use replay::MAX_REPLAYED;
pub use schedule::{Extent, Schedule};
pub use segments::{MAX_SEGMENTS, Segment};
pub use times::Times;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
