//! Response times per second.

use std::time::Duration;

use super::timed::Course;
use super::{Figure, Measure, keys, run_keys};
use crate::report::html::axis::Axis;
use crate::report::html::chart::{Chart, Layer, Shape};
use crate::report::html::run::{Look, Run};
use crate::timeline::Slot;

type Value = fn(&Slot) -> Duration;

const MEASURES: [Measure<Value>; 4] = [
    Measure {
        name: "response p50",
        look: Look::GREEN,
        value: |slot| slot.response_p50,
    },
    Measure {
        name: "response p99",
        look: Look::BLUE,
        value: |slot| slot.response_p99,
    },
    Measure {
        name: "response max",
        look: Look::RED,
        value: |slot| slot.response_max,
    },
    Measure {
        name: "lag p99",
        look: Look::VIOLET,
        value: |slot| slot.lag_p99,
    },
];

pub(super) fn figure(runs: &[Run]) -> Figure {
    let courses: Vec<(&Run, Course)> = runs
        .iter()
        .map(|run| (run, Course::of(run.report)))
        .collect();
    let end = courses
        .iter()
        .map(|(_, course)| course.end())
        .fold(0.0, f64::max);
    let mut layers: Vec<Vec<Layer>> = MEASURES
        .iter()
        .map(|measure| layers(measure, &courses))
        .collect();
    let values: Vec<f64> = layers
        .iter()
        .flatten()
        .flat_map(|layer| &layer.pieces)
        .flatten()
        .map(|point| point.y)
        .collect();
    let chart = |index: usize, title: &str, layers: Vec<Layer>| Chart {
        id: format!("response-{index}"),
        title: title.to_owned(),
        x: Axis::time(end),
        y: Axis::durations(values.iter().copied()),
        x_name: "time since the start",
        y_name: "duration",
        layers,
        has_bands: true,
        is_wide: false,
        nothing: "no answers",
    };
    let (charts, keys) = match runs {
        [_] => {
            let shown = MEASURES
                .iter()
                .zip(&layers)
                .filter(|(_, layers)| !layers.is_empty());
            let keys = keys(shown.map(|(measure, _)| (measure.look, measure.name)));
            // From the slowest to the fastest, so that the lower lines are in front.
            layers.swap(0, 2);
            let layers = layers.into_iter().flatten().collect();
            (
                vec![chart(0, "Response times and lag over time", layers)],
                keys,
            )
        }
        _ => {
            let titled = MEASURES.iter().zip(layers).enumerate();
            let charts =
                titled.map(|(index, (measure, layers))| chart(index, measure.name, layers));
            (charts.collect(), run_keys(runs))
        }
    };
    Figure {
        title: "Response times",
        caption: "Response: from the scheduled time of a request until its answer was complete, of those answered in each \
            second (longer runs have longer slots). Lag: how late requests were sent.",
        keys,
        charts,
    }
}

/// Draws one line of every run.
fn layers(measure: &Measure<Value>, courses: &[(&Run, Course)]) -> Vec<Layer> {
    let layer = |(run, course): &(&Run, Course)| Layer {
        look: if courses.len() == 1 {
            measure.look
        } else {
            run.look
        },
        name: if courses.len() == 1 {
            measure.name.to_owned()
        } else {
            run.name.clone()
        },
        shape: Shape::Line,
        is_stepped: true,
        pieces: course.durations(measure.value),
    };
    courses
        .iter()
        .map(layer)
        .filter(|layer| !layer.pieces.is_empty())
        .collect()
}
