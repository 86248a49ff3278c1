//! Tests rate limiters: exact oracles, a conformance suite, a history checker, and known-broken limiters.
//!
//! | module | question |
//! |---|---|
//! | [`oracle`] | What does an exact token bucket answer? |
//! | [`differential`] | Does a bucket ever differ from the oracle? |
//! | [`conformance`] | Does a limiter keep each contract? If not, what is the shortest history that shows it? |
//! | [`promise`] | What is the bound, and in which interval was it exceeded? |
//! | [`allowance`] | What may several processes admit together, and how close did they come? |
//! | [`ledger`] | What were real processes admitted, in real time? |
//! | [`proxy`] | What becomes of a client if messages to its server are late or lost? |
//! | [`history`] | Can a correct limiter explain what real threads observed? |
//! | [`interleave`] | Is there a schedule of threads that violates the bound? |
//! | [`exhaustive`] | Do refunds ever violate the bound in a short history? |
//! | [`task`] | What happens if futures are polled in a given order? |
//! | [`verify`] | Which algorithm does a limiter appear to use, and what does it really admit? |
//! | [`broken`] | How do limiters fail? `cargo run -p flowgate-testkit --example broken_limiters` |
//!
//! To test your own limiter, implement [`subject::Subject`] for it and pass it to [`conformance::check`]:
//!
//! ```
//! use flowgate_testkit::conformance::{self, Contract};
//! use flowgate_testkit::promise::Kind;
//! use flowgate_testkit::broken::starts_empty::StartsEmpty;
//! use flowgate_testkit::subject::BuildSubject;
//!
//! let build: BuildSubject<'_> = &|setup, test| test(&mut StartsEmpty::new(setup.quota));
//! let report = conformance::check(Kind::Bucket, build, 100);
//! assert_eq!(report.broken(), [Contract::C2, Contract::C8]);
//! println!("{report}");
//! ```
//!
//! All times are explicit, all randomness is seeded, and nothing sleeps, except in [`ledger`] and [`proxy`].
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod allowance;
pub mod broken;
pub mod conformance;
pub mod differential;
pub mod draw;
pub mod exhaustive;
pub mod history;
pub mod interleave;
pub mod ledger;
pub mod oracle;
pub mod promise;
pub mod proxy;
mod rate;
pub mod script;
pub mod shrink;
pub mod subject;
pub mod task;
pub mod verify;

pub use rate::Rate;

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
