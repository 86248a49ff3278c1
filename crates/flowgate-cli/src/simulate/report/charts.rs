//! The charts of the page and of the picture. Each policy has the same look in all of them.

use flowgate_chart::{Axis, Chart, Layer, Look, Point, Unit, share};

use super::comparison::{Comparison, PolicyRun, Ranks, Slot, Spread};

/// Durations, or numbers of attempts, that are further apart than this ratio are shown on a log axis.
const WIDE: f64 = 30.0;
const OVER_TIME: &str = "time since the start";

/// The policies, each with its look.
pub(super) fn looks(comparison: &Comparison) -> impl Iterator<Item = (Look, &PolicyRun)> {
    let runs = comparison.policies.iter().enumerate();
    runs.map(|(index, run)| (Look::of(index), run))
}

/// Returns whether each policy got the same attempts at the same times, as without retries.
pub(super) fn is_offered_alike(comparison: &Comparison) -> bool {
    let attempts = |run: &PolicyRun| {
        let mut attempts: Vec<u64> = run.slots.iter().map(|slot| slot.attempts).collect();
        while attempts.pop_if(|last| *last == 0).is_some() {}
        attempts
    };
    let runs = comparison.policies.as_slice();
    runs.windows(2)
        .all(|pair| attempts(&pair[0]) == attempts(&pair[1]))
}

/// Returns whether serving takes time.
pub(super) fn has_times(comparison: &Comparison) -> bool {
    let runs = &comparison.policies;
    runs.iter().any(|run| run.latency.max_ns > 0)
}

/// The charts over time.
pub(super) fn over_time(comparison: &Comparison) -> Vec<Chart> {
    let attempts: fn(&Slot) -> u64 = |slot| slot.attempts;
    let is_alike = is_offered_alike(comparison);
    let mut charts = Vec::new();
    if !is_alike {
        charts.push(counts(comparison, "offered", attempts));
    }
    charts.push(admitted(comparison));
    charts.push(counts(comparison, "refused", |slot| slot.refused));
    if has_times(comparison) {
        charts.push(counts(comparison, "served in time", |slot| slot.in_time));
        charts.push(longest(comparison));
    }
    charts
}

/// What each policy admitted; over what was offered, if that was the same.
pub(super) fn admitted(comparison: &Comparison) -> Chart {
    let is_alike = is_offered_alike(comparison);
    let offered = comparison.policies.first().filter(|_| is_alike);
    let offered = offered.map(|run| {
        let rates = rates(comparison, run, |slot| slot.attempts);
        Layer::area("offered", Look::GRAY, [rates]).stepped()
    });
    let admitted = looks(comparison).map(|(look, run)| {
        let rates = rates(comparison, run, |slot| slot.admitted);
        Layer::line(run.policy.as_str(), look, [rates]).stepped()
    });
    let layers = offered.into_iter().chain(admitted).collect();
    timed(comparison, "admitted", Unit::Rate, layers)
}

/// What one policy admitted, over what was offered to it.
pub(super) fn admitted_by(comparison: &Comparison, index: usize) -> Option<Chart> {
    let (look, run) = looks(comparison).nth(index)?;
    let of = |count| rates(comparison, run, count);
    let layers = vec![
        Layer::area("offered", Look::GRAY, [of(|slot| slot.attempts)]).stepped(),
        Layer::area("", look.solid(), [of(|slot| slot.admitted)]).stepped(),
        Layer::line("admitted", look.solid(), [of(|slot| slot.admitted)]).stepped(),
    ];
    let highest = comparison.policies.iter().flat_map(|run| {
        rates(comparison, run, |slot| slot.attempts.max(slot.admitted)).into_iter()
    });
    let highest: Vec<f64> = highest.map(|point| point.y()).collect();
    let y = Axis::from_zero(Unit::Rate, highest);
    let chart = Chart::new(
        format!("policy-{index}"),
        run.policy.as_str(),
        time(comparison),
        y,
    );
    Some(chart.names(OVER_TIME, "per second").layers(layers))
}

fn counts(comparison: &Comparison, title: &str, count: fn(&Slot) -> u64) -> Chart {
    let layers = looks(comparison).map(|(look, run)| {
        let rates = rates(comparison, run, count);
        Layer::line(run.policy.as_str(), look, [rates]).stepped()
    });
    timed(comparison, title, Unit::Rate, layers.collect())
}

/// The longest latency of each slot.
fn longest(comparison: &Comparison) -> Chart {
    let layers = looks(comparison).map(|(look, run)| {
        let slots = run.slots.chunk_by(|one, other| {
            let is_served = |slot: &Slot| slot.in_time > 0;
            is_served(one) == is_served(other)
        });
        let mut start = 0;
        let pieces = slots.filter_map(|piece| {
            let points = stepped(comparison, start, piece, |slot| slot.longest_ns as f64);
            start += piece.len();
            (piece[0].in_time > 0).then_some(points)
        });
        Layer::line(run.policy.as_str(), look, pieces.collect::<Vec<_>>()).stepped()
    });
    timed(
        comparison,
        "longest latency",
        Unit::Nanos,
        layers.collect(),
    )
}

fn timed(comparison: &Comparison, title: &str, unit: Unit, layers: Vec<Layer>) -> Chart {
    let values: Vec<f64> = layers.iter().flat_map(Layer::values).collect();
    let (y, name) = match unit {
        Unit::Nanos => (Axis::durations(values.into_iter()), "in each slot"),
        unit => (Axis::from_zero(unit, values), "per second"),
    };
    Chart::new(title.replace(' ', "-"), title, time(comparison), y)
        .names(OVER_TIME, name)
        .layers(layers)
        .with_bands()
        .empty_text("none")
}

/// From the start to the last slot of any policy.
fn time(comparison: &Comparison) -> Axis {
    let slots = comparison.policies.iter().map(|run| run.slots.len());
    let end = slots.max().unwrap_or(0) as f64 * comparison.slot_seconds();
    Axis::time(end.max(comparison.duration_ns as f64 / 1e9))
}

fn rates(comparison: &Comparison, run: &PolicyRun, count: fn(&Slot) -> u64) -> Vec<Point> {
    let seconds = comparison.slot_seconds();
    stepped(comparison, 0, &run.slots, |slot| {
        count(slot) as f64 / seconds
    })
}

/// A point at the start of each slot, and one at the end of the last. `first` is the number of the first slot.
fn stepped(
    comparison: &Comparison,
    first: usize,
    slots: &[Slot],
    value: impl Fn(&Slot) -> f64,
) -> Vec<Point> {
    let at = |index: usize| (first + index) as f64 * comparison.slot_seconds();
    let points = slots.iter().enumerate();
    let points = points.map(|(index, slot)| Point::new(at(index), value(slot)));
    let last = slots.last();
    points
        .chain(last.map(|last| Point::new(at(slots.len()), value(last))))
        .collect()
}

/// The percentiles of the latency, or of the wait.
pub(super) fn percentiles(
    comparison: &Comparison,
    title: &str,
    of: fn(&PolicyRun) -> &Spread,
) -> Chart {
    let spreads = || comparison.policies.iter().map(of);
    let most = spreads().map(|spread| spread.samples).max().unwrap_or(0);
    let values: Vec<f64> = spreads()
        .flat_map(|spread| &spread.curve)
        .map(|quantile| quantile.ns as f64)
        .collect();
    let layers = looks(comparison).map(|(look, run)| {
        let spread = of(run);
        // Beyond the rarest sample, the value is the maximum.
        let end = (spread.samples as f64).max(10.0);
        let points = spread.curve.iter().map(|quantile| {
            let ns = quantile.ns as f64;
            let text = format!(
                "{}: {} at most {}",
                run.policy,
                share((quantile.share * 1e4).round() / 1e4),
                Unit::Nanos.exact(ns)
            );
            Point::new((1.0 - quantile.share).recip().min(end), ns).text(text)
        });
        let points: Vec<Point> = points.collect();
        let pieces = Some(points).filter(|points| !points.is_empty());
        Layer::line(run.policy.as_str(), look, pieces)
    });
    Chart::new(
        title.replace(' ', "-"),
        title,
        Axis::shares(most),
        Axis::durations(values.into_iter()),
    )
    .names("share of the operations", "at most")
    .layers(layers)
    .empty_text("none")
}

/// Attempts and admissions of each key, the key with the most attempts first.
pub(super) fn keys(comparison: &Comparison) -> Chart {
    let most = comparison.policies.iter().map(|run| run.keys.count).max();
    let each = |run: &PolicyRun, count: fn(&Ranks) -> u64| {
        let ranks = run.keys.ranks.iter();
        let mut points: Vec<Point> = ranks
            .map(|ranks| {
                let mean = count(ranks) as f64 / ranks.keys as f64;
                Point::new(ranks.first as f64, mean)
            })
            .collect();
        if let Some(last) = points.last() {
            points.push(Point::new(run.keys.count as f64 + 1.0, last.y()));
        }
        points
    };
    let offered = comparison.policies.first().map(|run| {
        let attempts = each(run, |ranks| ranks.attempts);
        Layer::area("offered", Look::GRAY, [attempts]).stepped()
    });
    let admitted = looks(comparison).map(|(look, run)| {
        let admitted = each(run, |ranks| ranks.admitted);
        Layer::line(run.policy.as_str(), look, [admitted]).stepped()
    });
    let layers: Vec<Layer> = offered.into_iter().chain(admitted).collect();
    let values = || layers.iter().flat_map(Layer::values);
    let highest = values().fold(0.0, f64::max);
    let lowest = values().filter(|value| *value > 0.0);
    let lowest = lowest.fold(f64::INFINITY, f64::min);
    let y = match highest > lowest * WIDE {
        true => Axis::log(Unit::Count, lowest, highest),
        false => Axis::from_zero(Unit::Count, [highest]),
    };
    let x = Axis::log(Unit::Count, 1.0, most.unwrap_or(0) as f64 + 1.0);
    Chart::new("keys", "attempts of each key", x, y)
        .names("rank of the key by its attempts", "attempts per key")
        .layers(layers)
        .with_bands()
}
