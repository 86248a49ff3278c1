//! What a search found, as a page for a browser.

use flowgate_chart::{Axis, Chart, Escaped, Figure, Layer, Look, Point, Unit, keys};

use super::document;
use crate::find::{LoadFinding, SearchStep, Varied};

/// Returns one page of HTML about what a search found.
///
/// The page is a single file that loads nothing and runs no script. It contains, from the top:
///
/// - the result, and the text report
/// - response times by level: the median and the 99th percentile, and which steps broke the objective
/// - completed requests per second by level
///
/// Its size is at most 150 KB.
///
/// # Examples
///
/// ```no_run
/// use flowgate_load::find::{Condition, HttpService, Slo, LoadSearch};
/// use flowgate_load::{Stop, Target, html};
/// use std::time::Duration;
///
/// let mut service = HttpService::new(Target::parse("http://127.0.0.1:8080/")?, &Stop::new());
/// let slo = Slo::new([Condition::quantile(0.99, Duration::from_millis(50))?])?;
/// let finding = service.find(&LoadSearch::new(slo), |_| {})?;
/// std::fs::write("curve.html", html::finding_page(&finding))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn finding_page(finding: &LoadFinding) -> String {
    let (class, word) = match finding.kept {
        Some(kept) => ("good", finding.mode.in_words(kept)),
        None => ("bad", "✗ NOT KEPT".to_owned()),
    };
    let content = format!(
        "<header>\n<p class=\"product\">flowgate find</p>\n<h1>{}</h1>\n</header>\n\
        <div class=\"verdicts\">\n<article class=\"{class}\">\n\
        <p class=\"asked\"><strong class=\"word\">{word}</strong> <span>{}</span></p>\n\
        <p>{}</p>\n<pre class=\"scroll\">{}</pre>\n</article>\n</div>\n\
        <div class=\"figures\">\n{}{}</div>\n",
        Escaped(&finding.target),
        Escaped(&finding.slo.to_string()),
        Escaped(&finding.conclusion()),
        Escaped(&finding.to_string()),
        response(finding),
        completed(finding),
    );
    let title = format!("{}: {word}", finding.target);
    document(&title, "flowgate find", &content)
}

/// Steps that say something about the service, by level.
fn by_level(finding: &LoadFinding) -> Vec<&SearchStep> {
    let mut steps: Vec<&SearchStep> = finding.steps.iter().collect();
    steps.retain(|step| step.is_about_service());
    steps.sort_by(|one, other| one.level.total_cmp(&other.level));
    steps
}

fn levels(finding: &LoadFinding, steps: &[&SearchStep]) -> Axis {
    let unit = match finding.mode {
        Varied::Rate => Unit::Rate,
        Varied::Connections | Varied::Burst => Unit::Count,
    };
    let levels = steps.iter().map(|step| step.level);
    Axis::log(
        unit,
        levels.clone().fold(f64::INFINITY, f64::min),
        levels.fold(1.0, f64::max),
    )
}

fn response(finding: &LoadFinding) -> Figure {
    let steps = by_level(finding);
    let p99 = |step: &&SearchStep| {
        Point::new(step.level, step.p99.value).text(format!(
            "{}: p99 {} ({} to {})",
            step.mode.in_words(step.level),
            Unit::Nanos.exact(step.p99.value),
            Unit::Nanos.exact(step.p99.low),
            Unit::Nanos.exact(step.p99.high),
        ))
    };
    let p50 = |step: &&SearchStep| {
        Point::new(step.level, step.p50.value).text(format!(
            "{}: p50 {}",
            step.mode.in_words(step.level),
            Unit::Nanos.exact(step.p50.value)
        ))
    };
    let broken = steps.iter().filter(|step| !step.is_kept()).map(p99);
    let layers = [
        Layer::line("p50", Look::GREEN, [steps.iter().map(p50).collect()]),
        Layer::dots("p99", Look::BLUE, [steps.iter().map(p99).collect()]),
        // A piece each, so that no line joins them.
        Layer::dots("broken", Look::RED, broken.map(|point| vec![point])),
    ];
    let values: Vec<f64> = steps
        .iter()
        .flat_map(|step| [step.p50.value, step.p99.value])
        .collect();
    let y = Axis::durations(values.iter().copied());
    let chart = Chart::new("response", "Response time", levels(finding, &steps), y)
        .names(finding.mode.to_string(), "response time")
        .layers(layers)
        .empty_text("no step could be judged");
    Figure::new(
        "Response time by level",
        "Each dot is one step. Red dots broke the objective. The time counts from the scheduled time of a request, so it has \
         the wait for a free connection in it.",
    )
    .keys(keys([(Look::BLUE, "p99"), (Look::GREEN, "p50"), (Look::RED, "broken")].into_iter()))
    .charts([chart])
}

fn completed(finding: &LoadFinding) -> Figure {
    let steps = by_level(finding);
    let dots = steps.iter().map(|step| {
        Point::new(step.level, step.completed_per_second).text(format!(
            "{}: {} completed",
            step.mode.in_words(step.level),
            Unit::Rate.exact(step.completed_per_second)
        ))
    });
    let y = Axis::from_zero(
        Unit::Rate,
        steps.iter().map(|step| step.completed_per_second),
    );
    let chart = Chart::new(
        "completed",
        "Completed per second",
        levels(finding, &steps),
        y,
    )
    .names(finding.mode.to_string(), "completed per second")
    .layer(Layer::dots("completed", Look::BLUE, [dots.collect()]))
    .empty_text("no step could be judged");
    Figure::new(
        "Completed requests by level",
        "Up to its capacity, a server completes what is sent. Beyond it, the line stays level or falls.",
    )
    .keys(keys([(Look::BLUE, "completed")].into_iter()))
    .charts([chart])
}
