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

use crate::report::html::chart::Chart;
use crate::report::html::escape::Escaped;
use crate::report::html::run::{Key, Look, Run};

/// Charts that belong together.
pub(super) struct Figure {
    pub(super) title: &'static str,
    /// What the figure shows, and how to read it.
    pub(super) caption: &'static str,
    /// Legend: for one run the meaning of the lines, for several the runs.
    pub(super) keys: String,
    pub(super) charts: Vec<Chart>,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_half = matches!(self.charts.as_slice(), [chart] if !chart.is_wide);
        let class = if is_half { "half" } else { "full" };
        writeln!(f, "<section class=\"{class}\">")?;
        writeln!(f, "<h2>{}</h2>", Escaped(self.title))?;
        writeln!(f, "<p class=\"caption\">{}</p>", Escaped(self.caption))?;
        writeln!(f, "<p class=\"keys\">{}</p>", self.keys)?;
        f.write_str("<div class=\"charts\">\n")?;
        for chart in &self.charts {
            f.write_str("<figure>\n")?;
            if self.charts.len() > 1 {
                writeln!(f, "<figcaption>{}</figcaption>", Escaped(&chart.title))?;
            }
            writeln!(f, "{chart}</figure>")?;
        }
        f.write_str("</div>\n</section>\n")
    }
}

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

/// Writes several legend entries side by side.
pub(super) fn keys<'a>(keys: impl Iterator<Item = (Look, &'a str)>) -> String {
    let keys = keys.map(|(look, text)| {
        Key {
            look,
            text,
            is_area: false,
        }
        .to_string()
    });
    keys.collect::<Vec<_>>().join(" ")
}

fn run_keys(runs: &[Run]) -> String {
    keys(runs.iter().map(|run| (run.look, run.name.as_str())))
}
