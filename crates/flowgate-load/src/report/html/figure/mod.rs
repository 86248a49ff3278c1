//! The charts, and the lines of each.
//!
//! One run has all its lines in one chart. Several runs have a chart per line, all with the same axes, and each run has
//! its own color and dash. So no chart has more lines than a reader can distinguish.

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

/// A line that a figure draws for every run.
struct Measure<T> {
    name: &'static str,
    look: Look,
    value: T,
}

fn run_keys(runs: &[Run]) -> String {
    keys(runs.iter().map(|run| (run.look, run.name.as_str())))
}
