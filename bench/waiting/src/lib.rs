//! What waiting is worth, measured beside other libraries: [`pacing`] one caller after another,
//! [`strict`] pacing of a thread, and [`permits`]: contention, long lines and fair shares.
//!
//! Nothing here pins the thread that calls it, since the runtimes' threads would inherit that.

mod cpu;
mod outcome;
pub mod pacing;
pub mod permits;
mod runtime;
mod spread;
pub mod strict;

pub use outcome::Verdict;

/// The part of a subject's name that says that it is ours.
pub const OURS: &str = "flowgate";

/// Is `subject` asked for? Without a text every one is; otherwise those whose name contains it.
fn chosen(subject: &str, only: Option<&str>) -> bool {
    only.is_none_or(|text| subject.contains(text))
}
