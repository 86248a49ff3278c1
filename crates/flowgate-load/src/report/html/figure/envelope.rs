//! The most sends in any interval, by its length, with the allowed number.

use super::{Figure, keys, run_keys};
use crate::pacing::Cluster;
use crate::report::html::axis::Axis;
use crate::report::html::chart::{Chart, Layer, Point, Shape};
use crate::report::html::run::{Key, Look, Run};
use crate::report::html::unit::{Unit, significant};
use crate::report::{Guarantee, Mode, Report};

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
            Some(Layer {
                look: if is_alone { Look::GREY } else { run.look },
                name: if is_alone {
                    "ideal".to_owned()
                } else {
                    format!("{}, ideal", run.name)
                },
                shape: Shape::Area,
                is_stepped: false,
                pieces: vec![points.collect()],
            })
        });
    let mut layers: Vec<Layer> = guarantees.collect();
    layers.extend(runs.iter().map(|run| Layer {
        look: if is_alone { Look::BLUE } else { run.look },
        name: if is_alone {
            "sent".to_owned()
        } else {
            run.name.clone()
        },
        shape: Shape::Dots,
        is_stepped: false,
        pieces: points(run, is_alone).into_iter().collect(),
    }));
    Figure {
        title: "Envelope: the most sends in any interval",
        caption: "Each dot is the shortest span in which so many requests were sent. Shaded is what the rate allows \
            in a span w: burst + rate · w of a limit; 1 + rate · w when a constant rate is held, where a late send \
            brings its dot up by as much. Dots inside the shading were paced as asked.",
        keys: key_texts(runs),
        charts: vec![Chart {
            id: "envelope".to_owned(),
            title: "The most sends in any interval".to_owned(),
            x,
            y,
            x_name: "length of the interval",
            y_name: "sends",
            layers,
            has_bands: false,
            is_wide: false,
            nothing: "too few sends, or no rate",
        }],
    }
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
        Point {
            x: nanos(cluster).max(SHORTEST),
            y: cluster.sends as f64,
            text: Some(text),
        }
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
    let ideal = Key {
        look: Look::GREY,
        text: "ideal",
        is_area: true,
    };
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

/// Returns the bound of the run. For a constant rate that is held: one more than its number of gaps.
fn limit(report: &Report) -> Option<Guarantee> {
    let asked = &report.asked;
    let is_even = asked.mode == Mode::Hold && asked.is_constant;
    let even = || {
        Some(Guarantee {
            burst: 1,
            per_second: asked.per_second.filter(|_| is_even)?,
        })
    };
    asked.guarantee.or_else(even)
}

/// Returns the number of sends allowed in an interval of this many nanoseconds.
fn most(limit: Guarantee, span: f64) -> f64 {
    limit.burst as f64 + limit.per_second * span / 1e9
}

fn nanos(cluster: &Cluster) -> f64 {
    cluster.within.as_nanos() as f64
}
