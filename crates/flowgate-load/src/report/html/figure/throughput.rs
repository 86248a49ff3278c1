//! Scheduled, sent and answered requests per second.

use flowgate_chart::{Axis, Chart, Figure, Key, Layer, Look, Point, Unit, keys};

use super::timed::Course;
use super::{Measure, run_keys};
use crate::report::PacingMode;
use crate::report::html::run::Run;

type Lines = fn(&Course) -> Vec<Vec<Point>>;

const MEASURES: [Measure<Lines>; 4] = [
    Measure {
        name: "sent",
        look: Look::BLUE,
        value: |course| course.requests(|slot| slot.sent),
    },
    Measure {
        name: "admitted",
        look: Look::GREEN,
        value: |course| course.answers(|slot| slot.admitted),
    },
    Measure {
        name: "limited",
        look: Look::OCHER,
        value: |course| course.answers(|slot| slot.limited),
    },
    Measure {
        name: "failed",
        look: Look::RED,
        value: |course| course.answers(|slot| slot.failed),
    },
];

pub(super) fn figure(runs: &[Run]) -> Figure {
    let courses: Vec<(&Run, Course)> = runs
        .iter()
        .map(|run| (run, Course::of(run.report)))
        .collect();
    let (charts, keys) = match courses.as_slice() {
        [(run, course)] => one(run, course),
        _ => (several(&courses), several_keys(runs)),
    };
    Figure::new(
        "Requests per second",
        "Target: what was scheduled. Admitted: answers 1xx to 3xx; limited: 429 and 503; failed: other errors, and \
         requests without an answer. Answers count when they are complete.",
    )
    .keys(keys)
    .charts(charts)
}

fn one(run: &Run, course: &Course) -> (Vec<Chart>, String) {
    let mut layers: Vec<Layer> = target(run, course, Look::GRAY, "target")
        .into_iter()
        .collect();
    let mut texts = Vec::new();
    for measure in &MEASURES {
        let layer = line(measure, course, measure.look, measure.name);
        match layer {
            Some(layer) => {
                layers.push(layer);
                texts.push((measure.look, measure.name.to_owned()));
            }
            None => texts.push((measure.look, format!("{} (none)", measure.name))),
        }
    }
    let target = match run.report.asked.mode {
        PacingMode::Unpaced => String::new(),
        _ => format!("{} ", Key::area(Look::GRAY, "target")),
    };
    let keys = keys(texts.iter().map(|(look, text)| (*look, text.as_str())));
    let chart = chart(
        0,
        "Requests per second over time",
        layers,
        &[course],
        &[course],
    );
    (vec![chart.wide()], target + &keys)
}

fn several(courses: &[(&Run, Course)]) -> Vec<Chart> {
    let all: Vec<&Course> = courses.iter().map(|(_, course)| course).collect();
    let charts = MEASURES.iter().enumerate().map(|(index, measure)| {
        let mut layers = Vec::new();
        if index == 0 {
            let name = |run: &Run| format!("{}, target", run.name);
            layers.extend(
                courses
                    .iter()
                    .filter_map(|(run, course)| target(run, course, run.look, &name(run))),
            );
        }
        layers.extend(
            courses
                .iter()
                .filter_map(|(run, course)| line(measure, course, run.look, &run.name)),
        );
        // Sent and admitted requests are comparable; a few failures would be invisible beside them.
        let shown: &[&Course] = if index < 2 { &all } else { &[] };
        chart(index, measure.name, layers, &all, shown)
    });
    charts.collect()
}

fn several_keys(runs: &[Run]) -> String {
    match runs
        .iter()
        .find(|run| run.report.asked.mode != PacingMode::Unpaced)
    {
        None => run_keys(runs),
        Some(_) => format!(
            "{} {}",
            run_keys(runs),
            Key::area(Look::GRAY, "shaded: target")
        ),
    }
}

/// Returns the scheduled rate; `None` without a rate.
fn target(run: &Run, course: &Course, look: Look, name: &str) -> Option<Layer> {
    (run.report.asked.mode != PacingMode::Unpaced)
        .then(|| Layer::area(name, look, course.requests(|slot| slot.scheduled)).stepped())
}

/// Returns one line, unless it is zero everywhere.
fn line(measure: &Measure<Lines>, course: &Course, look: Look, name: &str) -> Option<Layer> {
    let pieces = (measure.value)(course);
    pieces
        .iter()
        .flatten()
        .any(|point| point.y() > 0.0)
        .then(|| Layer::line(name, look, pieces).stepped())
}

/// Returns a chart as long as all runs, and at least as high as the highest scheduled rate.
fn chart(
    index: usize,
    title: &str,
    layers: Vec<Layer>,
    courses: &[&Course],
    compared: &[&Course],
) -> Chart {
    let shown = layers.iter().flat_map(Layer::values);
    let compared = compared
        .iter()
        .flat_map(|course| course.requests(|slot| slot.scheduled.max(slot.sent)));
    let compared: Vec<f64> = compared.flatten().map(|point| point.y()).collect();
    let ends = courses.iter().map(|course| course.end());
    let x = Axis::time(ends.fold(0.0, f64::max));
    let y = Axis::from_zero(Unit::Rate, shown.chain(compared));
    Chart::new(format!("requests-{index}"), title, x, y)
        .names("time since the start", "per second")
        .layers(layers)
        .with_bands()
        .empty_text("none")
}
