//! The most sends in any interval, by its length, with the allowed number.

use flowgate_chart::{Axis, Chart, Figure, Key, Layer, Look, Point, Unit, keys, significant};

use super::run_keys;
use crate::pacing::Cluster;
use crate::report::html::run::Run;
use crate::report::{Guarantee, PacingMode, Report};

/// Number of points of the curve of the allowed number.
const PARTS: u32 = 96;
/// Shorter intervals are drawn at this length, because zero has no position on a log axis.
const SHORTEST: f64 = 1e3;

pub(super) fn figure(runs: &[Run]) -> Figure {
    let clusters = || runs.iter().flat_map(|run| &run.report.pacing.envelope);
    let spans = clusters().map(nanos).map(|span| span.max(SHORTEST));
    let longest = spans.clone().fold(0.0, f64::max);
    let x = match longest > 0.0 {
        true => Axis::log(Unit::Nanos, spans.fold(f64::INFINITY, f64::min), longest),
        false => Axis::log(Unit::Nanos, 1e6, 1e9),
    };
    let sends = clusters().map(|cluster| cluster.sends as f64);
    let allowed = runs
        .iter()
        .filter_map(|run| Some(most(limit(run.report)?, longest_of(run))));
    let y = Axis::log(Unit::Count, 1.0, sends.chain(allowed).fold(10.0, f64::max));
    let is_alone = runs.len() == 1;
    let guarantees = runs
        .iter()
        .filter(|run| !run.report.pacing.envelope.is_empty())
        .filter_map(|run| {
            let limit = limit(run.report)?;
            let end = longest_of(run).max(SHORTEST);
            let spans = x.sampled(PARTS).filter(|span| *span < end).chain([end]);
            let points = spans.map(|span| Point::new(span, most(limit, span)));
            let points = vec![points.collect()];
            Some(match is_alone {
                true => Layer::area("ideal", Look::GRAY, points),
                false => Layer::area(format!("{}, ideal", run.name), run.look, points),
            })
        });
    let mut layers: Vec<Layer> = guarantees.collect();
    layers.extend(runs.iter().map(|run| match is_alone {
        true => Layer::dots("sent", Look::BLUE, points(run, is_alone)),
        false => Layer::dots(&run.name, run.look, points(run, is_alone)),
    }));
    let chart = Chart::new("envelope", "The most sends in any interval", x, y)
        .names("length of the interval", "sends")
        .layers(layers)
        .empty_text("too few sends, or no rate");
    Figure::new(
        "Envelope: the most sends in any interval",
        "Each dot is the shortest interval that contains this number of sends. The shaded area is what the rate allows \
            in an interval of length w: burst + rate × w for a limit; 1 + rate × w for a constant rate, in which a late \
            send raises its dot by 1. For a rate that changes, it is the highest rate. Dots inside the shaded area were paced as requested.",
    )
    .keys(key_texts(runs))
    .charts([chart])
}

/// Returns the dots of a run, if it has any.
fn points(run: &Run, is_alone: bool) -> Option<Vec<Point>> {
    let clusters = &run.report.pacing.envelope;
    let limit = limit(run.report);
    let whose = if is_alone {
        String::new()
    } else {
        format!("{}: ", run.name)
    };
    let points = clusters.iter().map(|cluster| {
        let (sends, span) = (
            Unit::Count.exact(cluster.sends as f64),
            Unit::Nanos.exact(nanos(cluster)),
        );
        let ideal =
            limit.map(|limit| format!("; ideal {}", significant(most(limit, nanos(cluster)), 4)));
        let text = format!(
            "{whose}{sends} sends in {span}{}",
            ideal.unwrap_or_default()
        );
        Point::new(nanos(cluster).max(SHORTEST), cluster.sends as f64).text(text)
    });
    (!clusters.is_empty()).then(|| points.collect())
}

/// Returns the longest interval of a run's envelope.
fn longest_of(run: &Run) -> f64 {
    run.report
        .pacing
        .envelope
        .iter()
        .map(nanos)
        .fold(0.0, f64::max)
}

fn key_texts(runs: &[Run]) -> String {
    let ideal = Key::area(Look::GRAY, "ideal");
    let has_ideal = runs.iter().any(|run| limit(run.report).is_some());
    let lines = match runs {
        [_] => keys([(Look::BLUE, "sent")].into_iter()),
        _ => run_keys(runs),
    };
    if has_ideal {
        format!("{lines} {ideal}")
    } else {
        lines
    }
}

/// Returns the bound of the run. For a rate that is held: one more than its number of gaps, at its highest.
fn limit(report: &Report) -> Option<Guarantee> {
    let asked = &report.asked;
    let is_held = asked.mode == PacingMode::Hold;
    let held = || {
        Some(Guarantee {
            burst: asked.burst,
            per_second: asked.highest_per_second.filter(|_| is_held)?,
        })
    };
    asked.guarantee.or_else(held)
}

/// Returns the number of sends allowed in an interval of this many nanoseconds.
fn most(limit: Guarantee, span: f64) -> f64 {
    limit.burst as f64 + limit.per_second * span / 1e9
}

fn nanos(cluster: &Cluster) -> f64 {
    cluster.within.as_nanos() as f64
}
