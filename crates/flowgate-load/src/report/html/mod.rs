//! Reports as a page for a browser.
//!
//! ```text
//!  page ─▶ summary   what was asked, the verdict, the numbers
//!       └▶ figure/   which lines a chart has ─▶ flowgate_chart::Chart
//! ```

mod figure;
mod found;
mod limiter;
mod run;
mod summary;

use std::borrow::Borrow;
use std::fmt::Display;

pub use found::finding_page;
pub use limiter::limiter_page;

use crate::report::Report;
use crate::report::html::run::Run;

/// Returns one page of HTML about these labeled runs.
///
/// The page is a single file that loads nothing and runs no script. It contains, from the top:
///
/// - what each run was asked to do, the verdict and its causes, and the main numbers side by side
/// - requests per second and response times over time
/// - the percentiles of response, service and lag
/// - the *envelope*: the most sends in any interval, by its length, with the allowed number
///
/// Several runs are drawn over each other. The size is at most 100 KB, plus 100 KB per run.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, Stop, Target, html};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let before = flowgate_load::run(plan.clone(), &Stop::new())?;
/// let after = flowgate_load::run(plan, &Stop::new())?;
///
/// let page = html::page(&[("before", &before), ("after", &after)]);
/// assert!(page.starts_with("<!DOCTYPE html>") && page.len() < 300_000);
/// let page = html::page(&[("after", &after)]); // of one
/// assert!(page.contains("after") && !page.contains("before"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn page<L: AsRef<str>, R: Borrow<Report>>(runs: &[(L, R)]) -> String {
    let pairs = runs
        .iter()
        .map(|(label, report)| (label.as_ref(), report.borrow()));
    let runs: Vec<Run> = pairs
        .enumerate()
        .map(|(index, (label, report))| Run::new(index, label, report))
        .collect();
    let title = match runs.as_slice() {
        [] => "no runs".to_owned(),
        [run] => format!("{}: {}", run.name, run.report.verdict()),
        [first, rest @ ..] => format!("{} and {} more", first.name, rest.len()),
    };
    let (summary, figures) = (summary::Summary(&runs), figure::Figures(&runs));
    document(&title, "flowgate load", &format_args!("{summary}{figures}"))
}

/// Returns a whole page for this subcommand.
fn document(title: &str, product: &str, content: &dyn Display) -> String {
    flowgate_chart::page(title, product, env!("CARGO_PKG_VERSION"), content)
}
