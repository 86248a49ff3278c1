//! What it takes to trust a rate limiter.
//!
//! | module | what it answers |
//! |---|---|
//! | [`oracle`] | what would an exact token bucket say? |
//! | [`differential`] | do flowgate (or another bucket) and the oracle ever differ? |
//! | [`conformance`] | does it keep each contract, and if not, what shows it most briefly? |
//! | [`promise`] | what is promised, and in which interval was more granted? |
//! | [`history`] | can what real threads saw be explained by a right limiter at all? |
//! | [`interleave`] | is there a schedule of threads that breaks it? |
//! | [`exhaustive`] | does giving back ever break the promise, in any short history? |
//! | [`task`] | what happens if this one is polled now, and that one later? |
//! | [`verify`] | what does a limiter look like from outside, and what does it really admit? |
//! | [`specimens`] | how do limiters go wrong? `cargo run -p flowgate-testkit --example museum` |
//!
//! To test a limiter of your own, implement [`subject::Subject`] for it and hand it to
//! [`conformance::check`]:
//!
//! ```
//! use flowgate_testkit::conformance::{self, Contract};
//! use flowgate_testkit::promise::Kind;
//! use flowgate_testkit::specimens::starts_empty::StartsEmpty;
//! use flowgate_testkit::subject::Build;
//!
//! let build: Build<'_> = &|setup, test| test(&mut StartsEmpty::new(setup.quota));
//! let report = conformance::check(Kind::Bucket, build, 100);
//! assert_eq!(report.broken(), [Contract::C2, Contract::C8]);
//! println!("{report}");
//! ```
//!
//! All times are explicit, all randomness is seeded, nothing sleeps.
//!
//! # Features
//!
//! This crate has no features.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod conformance;
pub mod differential;
pub mod draw;
pub mod exhaustive;
pub mod history;
pub mod interleave;
pub mod oracle;
pub mod promise;
mod rate;
pub mod script;
pub mod shrink;
pub mod specimens;
pub mod subject;
pub mod task;
pub mod verify;

pub use rate::Rate;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
