//! Response times over time.

use std::time::Duration;

use flowgate_chart::{Axis, Chart, Figure, Layer, Look, keys};

use super::timed::Course;
use super::{Measure, run_keys};
use crate::report::html::run::Run;
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
    let values: Vec<f64> = layers.iter().flatten().flat_map(Layer::values).collect();
    let chart = |index: usize, title: &str, layers: Vec<Layer>| {
        let y = Axis::durations(values.iter().copied());
        Chart::new(format!("response-{index}"), title, Axis::time(end), y)
            .names("time since the start", "duration")
            .layers(layers)
            .with_bands()
            .empty_text("no answers")
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
    Figure::new(
        "Response times",
        "Response: from the scheduled time of a request until its answer was complete, of those answered in each \
            interval. Lag: how late requests were sent.",
    )
    .keys(keys)
    .charts(charts)
}

/// Draws one line of every run.
fn layers(measure: &Measure<Value>, courses: &[(&Run, Course)]) -> Vec<Layer> {
    let layer = |(run, course): &(&Run, Course)| {
        let (name, look) = match courses.len() {
            1 => (measure.name, measure.look),
            _ => (run.name.as_str(), run.look),
        };
        Layer::line(name, look, course.durations(measure.value)).stepped()
    };
    let layers = courses.iter().map(layer);
    layers
        .filter(|layer| layer.values().next().is_some())
        .collect()
}
