//! Finds the highest load at which a service keeps its objective.
//!
//! ```text
//!  Search ─▶ level ─▶ Subject: one step at this level ─▶ Blocks ─▶ judge ─▶ Search …
//!                       HttpService: a run of this crate
//! ```
//!
//! A search multiplies the level until a step breaks the objective ([`Slo`]), and then halves the ratio between the highest level
//! that kept it and the lowest that broke it. A step that is not clear is repeated. A step in which this client fell behind says
//! nothing about the service. After a broken step, the search waits until the service responds as before.
//!
//! # Examples
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use flowgate_load::find::{Condition, HttpService, Slo, LoadSearch};
//! use flowgate_load::{Stop, Target};
//!
//! let slo = Slo::new([Condition::quantile(0.99, Duration::from_millis(50))?])?;
//! let mut service = HttpService::new(Target::parse("http://127.0.0.1:8080/")?, &Stop::new());
//! let finding = service.find(&LoadSearch::new(slo), |step| println!("{step}"))?;
//! println!("{finding}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod blocks;
mod conduct;
mod finding;
mod http;
mod judgment;
mod load_search;
mod search;
mod slo;
#[cfg(test)]
mod tests;

pub use conduct::ServiceLost;
pub use finding::{End, LoadFinding, SearchStep, StepVerdict};
pub use http::HttpService;
pub use judgment::{BrokenObjective, Measured};
pub use load_search::{LoadSearch, Varied};
pub use slo::{Condition, Slo, SloError};
