//! Distributions, with rare durations stretched.

use flowgate_chart::{Axis, Chart, Figure, Layer, Look, Point, Unit, keys, share};

use super::{Measure, run_keys};
use crate::report::html::run::Run;
use crate::report::{PacingMode, Report};
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
        PacingMode::Unpaced => (0, &[]),
        PacingMode::Hold | PacingMode::Under => (report.lag.samples, &report.curves.lag),
    }
}

pub(super) fn durations(runs: &[Run]) -> Figure {
    let (charts, keys) = charts(runs, &DURATIONS, "no answers");
    Figure::new(
        "Latency percentiles",
        "How long the fastest share of the requests took at most. Response is from the scheduled time; service \
         from the first byte sent. Where they part, requests waited to be sent.",
    )
    .keys(keys)
    .charts(charts)
}

pub(super) fn lag(runs: &[Run]) -> Figure {
    let (charts, keys) = charts(runs, &LAG, "nothing was scheduled");
    Figure::new(
        "Lag percentiles",
        "How late requests were sent: first byte written − scheduled time.",
    )
    .keys(keys)
    .charts(charts)
}

/// The charts, and their keys.
fn charts(
    runs: &[Run],
    measures: &[Measure<Curve>],
    nothing: &'static str,
) -> (Vec<Chart>, String) {
    let all = || {
        runs.iter()
            .flat_map(|run| measures.iter().map(|measure| (measure.value)(run.report)))
    };
    let most = all().map(|(samples, _)| samples).max().unwrap_or(0);
    let values: Vec<f64> = all().flat_map(|(_, curve)| curve).map(nanos).collect();
    let chart = |title: &str, layers: Vec<Layer>| {
        let id = format!("percentiles-{}", title.replace(' ', "-"));
        let y = Axis::durations(values.iter().copied());
        Chart::new(id, title, Axis::shares(most), y)
            .names("share of requests", "at most")
            .layers(layers)
            .empty_text(nothing)
    };
    match runs {
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
            share(quantile.share),
            Unit::Nanos.exact(nanos(quantile))
        );
        Point::new(rarity.min(end), nanos(quantile)).text(text)
    });
    let pieces = if curve.is_empty() {
        Vec::new()
    } else {
        vec![points.collect()]
    };
    Layer::line(name, look, pieces)
}

fn nanos(quantile: &Quantile) -> f64 {
    quantile.value.as_nanos() as f64
}
