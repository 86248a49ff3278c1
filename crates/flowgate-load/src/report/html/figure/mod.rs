//! The charts: which lines they have.
//!
//! One run has all its lines in one chart; several have a chart for each line, all on the same axes, in which every run
//! has its own colour and dash. Either way, no chart has more lines than can be told apart.

mod envelope;
mod percentiles;
mod responses;
mod throughput;
mod timed;

use std::fmt;

use flowgate_chart::{Look, keys};

use crate::report::html::run::Run;

/// All figures of a page.
pub(super) struct Figures<'a>(pub(super) &'a [Run<'a>]);

impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        f.write_str("<div class=\"figures\">\n")?;
        throughput::figure(self.0).fmt(f)?;
        responses::figure(self.0).fmt(f)?;
        percentiles::durations(self.0).fmt(f)?;
        percentiles::lag(self.0).fmt(f)?;
        envelope::figure(self.0).fmt(f)?;
        f.write_str("</div>\n")
    }
}

/// A line that a figure has of every run.
struct Measure<T> {
    name: &'static str,
    look: Look,
    value: T,
}

fn run_keys(runs: &[Run]) -> String {
    keys(runs.iter().map(|run| (run.look, run.name.as_str())))
}
