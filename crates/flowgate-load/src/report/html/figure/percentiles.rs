//! Distributions, with rare durations stretched.

use super::{Figure, Measure, keys, run_keys};
use crate::report::html::axis::{self, Axis};
use crate::report::html::chart::{Chart, Layer, Point, Shape};
use crate::report::html::run::{Look, Run};
use crate::report::html::unit::Unit;
use crate::report::{Mode, Report};
use crate::spread::Quantile;

/// Number of samples, and their distribution.
type Curve = fn(&Report) -> (u64, &[Quantile]);

const DURATIONS: [Measure<Curve>; 2] = [
    Measure {
        name: "response",
        look: Look::BLUE,
        value: |report| (report.response.samples, &report.curves.response),
    },
    Measure {
        name: "service",
        look: Look::GREEN,
        value: |report| (report.service.samples, &report.curves.service),
    },
];
const LAG: [Measure<Curve>; 1] = [Measure {
    name: "lag",
    look: Look::VIOLET.solid(),
    value: lag_curve,
}];

/// Without a rate nothing is scheduled, so there is no lag.
fn lag_curve(report: &Report) -> (u64, &[Quantile]) {
    match report.asked.mode {
        Mode::Unpaced => (0, &[]),
        Mode::Hold | Mode::Under => (report.lag.samples, &report.curves.lag),
    }
}

pub(super) fn durations(runs: &[Run]) -> Figure {
    Figure {
        title: "Latency percentiles",
        caption: "How long the fastest share of the requests took at most. Response is from the scheduled time; service \
            from the first byte sent. Where they part, requests waited to be sent.",
        ..figure(runs, &DURATIONS, "no answers")
    }
}

pub(super) fn lag(runs: &[Run]) -> Figure {
    Figure {
        title: "Lag percentiles",
        caption: "How late requests were sent: first byte written − scheduled time.",
        ..figure(runs, &LAG, "nothing was scheduled")
    }
}

fn figure(runs: &[Run], measures: &[Measure<Curve>], nothing: &'static str) -> Figure {
    let all = || {
        runs.iter()
            .flat_map(|run| measures.iter().map(|measure| (measure.value)(run.report)))
    };
    let most = all().map(|(samples, _)| samples).max().unwrap_or(0);
    let values: Vec<f64> = all().flat_map(|(_, curve)| curve).map(nanos).collect();
    let chart = |title: &str, layers: Vec<Layer>| Chart {
        id: format!("percentiles-{}", title.replace(' ', "-")),
        title: title.to_owned(),
        x: Axis::shares(most),
        y: Axis::durations(values.iter().copied()),
        x_name: "share of requests",
        y_name: "at most",
        layers,
        has_bands: false,
        is_wide: false,
        nothing,
    };
    let (charts, keys) = match runs {
        [run] => {
            let layers = measures
                .iter()
                .map(|measure| layer(measure, run, measure.look, measure.name));
            let names: Vec<&str> = measures.iter().map(|measure| measure.name).collect();
            let chart = chart(&names.join(" and "), layers.collect());
            (
                vec![chart],
                keys(measures.iter().map(|measure| (measure.look, measure.name))),
            )
        }
        _ => {
            let charts = measures.iter().map(|measure| {
                let layers = runs
                    .iter()
                    .map(|run| layer(measure, run, run.look, &run.name));
                chart(measure.name, layers.collect())
            });
            (charts.collect(), run_keys(runs))
        }
    };
    Figure {
        title: "",
        caption: "",
        keys,
        charts,
    }
}

fn layer(measure: &Measure<Curve>, run: &Run, look: Look, name: &str) -> Layer {
    let (samples, curve) = (measure.value)(run.report);
    // Beyond the rarest sample, the value is the maximum.
    let end = (samples as f64).max(10.0);
    let points = curve.iter().map(|quantile| {
        let rarity = if quantile.share < 1.0 {
            (1.0 - quantile.share).recip()
        } else {
            f64::INFINITY
        };
        let text = format!(
            "{name}: {} at most {}",
            axis::share(quantile.share),
            Unit::Nanos.exact(nanos(quantile))
        );
        Point {
            x: rarity.min(end),
            y: nanos(quantile),
            text: Some(text),
        }
    });
    let pieces = if curve.is_empty() {
        Vec::new()
    } else {
        vec![points.collect()]
    };
    Layer {
        look,
        name: name.to_owned(),
        shape: Shape::Line,
        is_stepped: false,
        pieces,
    }
}

fn nanos(quantile: &Quantile) -> f64 {
    quantile.value.as_nanos() as f64
}
