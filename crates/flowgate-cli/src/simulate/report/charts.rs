//! The charts of the page, and the picture. Each policy has the same look in all of them.

use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Unit, share};

use super::comparison::{Comparison, PolicyRun, Ranks, Slot, Spread};

/// Durations, or numbers of attempts, that are further apart than this ratio are shown on a log axis.
const WIDE: f64 = 30.0;
/// Slots that a chart of half the width draws as one.
const JOINED: usize = 2;
const OVER_TIME: &str = "time since the start";

/// The policies, each with its look. Lines are solid: dashes would hide the steps.
pub(super) fn looks(comparison: &Comparison) -> impl Iterator<Item = (Look, &PolicyRun)> {
    let runs = comparison.policies.iter().enumerate();
    runs.map(|(index, run)| (Look::of(index).solid(), run))
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

/// What each policy admitted; over what was offered, if that was the same.
pub(super) fn admitted(comparison: &Comparison) -> Chart {
    let is_alike = is_offered_alike(comparison);
    let offered = comparison.policies.first().filter(|_| is_alike);
    let offered = offered.map(|run| {
        let rates = rates(comparison, run, 1, |slot| slot.attempts);
        Layer::area("offered", Look::GRAY, [rates]).stepped()
    });
    let admitted = looks(comparison).map(|(look, run)| {
        let rates = rates(comparison, run, 1, |slot| slot.admitted);
        Layer::line(run.policy.as_str(), look, [rates]).stepped()
    });
    let layers = offered.into_iter().chain(admitted).collect();
    timed(comparison, "admitted", Unit::Rate, layers).wide()
}

/// What each policy admitted of what was offered to it, with the same axes.
pub(super) fn picture(comparison: &Comparison) -> Picture {
    let policies = 0..comparison.policies.len();
    Picture::new(comparison.title.as_str())
        .columns(2)
        .charts(policies.filter_map(|index| admitted_by(comparison, index)))
}

/// What one policy admitted, over what was offered to it.
fn admitted_by(comparison: &Comparison, index: usize) -> Option<Chart> {
    let (look, run) = looks(comparison).nth(index)?;
    let of = |count| rates(comparison, run, 1, count);
    let layers = vec![
        Layer::area("offered", Look::GRAY, [of(|slot| slot.attempts)]).stepped(),
        Layer::area("", look, [of(|slot| slot.admitted)]).stepped(),
        Layer::line("", look, [of(|slot| slot.admitted)]).stepped(),
    ];
    let highest = comparison.policies.iter().flat_map(|run| {
        rates(comparison, run, 1, |slot| slot.attempts.max(slot.admitted)).into_iter()
    });
    let highest: Vec<f64> = highest.map(|point| point.y()).collect();
    let y = Axis::from_zero(Unit::Rate, highest);
    let chart = Chart::new(
        format!("policy-{index}"),
        run.policy.as_str(),
        time(comparison),
        y,
    );
    let chart = chart.names(OVER_TIME, "admitted per second");
    Some(chart.height(240).layers(layers))
}

/// A line per policy: its number per second.
pub(super) fn counts(comparison: &Comparison, title: &str, count: fn(&Slot) -> u64) -> Chart {
    let layers = looks(comparison).map(|(look, run)| {
        let rates = rates(comparison, run, JOINED, count);
        Layer::line(run.policy.as_str(), look, [rates]).stepped()
    });
    timed(comparison, title, Unit::Rate, layers.collect())
}

/// The longest latency of each slot.
pub(super) fn longest(comparison: &Comparison) -> Chart {
    let layers = looks(comparison).map(|(look, run)| {
        let at = |index: usize| index as f64 * comparison.slot_seconds();
        let is_served = |slot: &Slot| slot.in_time > 0;
        let mut start = 0;
        let mut pieces = Vec::new();
        for slots in run
            .slots
            .chunk_by(|one, other| is_served(one) == is_served(other))
        {
            let longest = |slot: &Slot| slot.longest_ns as f64;
            let first = start;
            start += slots.len();
            if is_served(&slots[0]) {
                let points = slots.iter().enumerate();
                let points =
                    points.map(|(index, slot)| Point::new(at(first + index), longest(slot)));
                let last = Point::new(at(start), longest(&slots[slots.len() - 1]));
                pieces.push(points.chain([last]).collect());
            }
        }
        Layer::line(run.policy.as_str(), look, pieces).stepped()
    });
    timed(comparison, "longest latency", Unit::Nanos, layers.collect())
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

/// The end of the last slot of any policy, in seconds.
fn end(comparison: &Comparison) -> f64 {
    let slots = comparison.policies.iter().map(|run| run.slots.len());
    let end = slots.max().unwrap_or(0) as f64 * comparison.slot_seconds();
    end.max(comparison.duration_ns as f64 / 1e9)
}

fn time(comparison: &Comparison) -> Axis {
    Axis::time(end(comparison))
}

/// Rates of `joined` slots each to the end of the axis; zero after the last slot.
fn rates(
    comparison: &Comparison,
    run: &PolicyRun,
    joined: usize,
    count: fn(&Slot) -> u64,
) -> Vec<Point> {
    let seconds = comparison.slot_seconds();
    let rates = run.slots.chunks(joined).enumerate().map(|(index, slots)| {
        let sum: u64 = slots.iter().map(count).sum();
        let start = (index * joined) as f64 * seconds;
        Point::new(start, sum as f64 / (slots.len() as f64 * seconds))
    });
    let mut rates: Vec<Point> = rates.collect();
    let after = run.slots.len() as f64 * seconds;
    if after < end(comparison) {
        rates.push(Point::new(after, 0.0));
    }
    let last = rates.last().map_or(0.0, Point::y);
    rates.push(Point::new(end(comparison), last));
    rates
}

/// The percentiles of the latency.
pub(super) fn latencies(comparison: &Comparison) -> Chart {
    percentiles(
        comparison,
        "latency",
        "share of the operations served",
        |run| &run.latency,
    )
}

/// The percentiles of the wait for the limiter.
pub(super) fn waits(comparison: &Comparison) -> Chart {
    percentiles(
        comparison,
        "wait",
        "share of the attempts that waited",
        |run| &run.wait,
    )
}

fn percentiles(
    comparison: &Comparison,
    title: &str,
    x_name: &str,
    of: fn(&PolicyRun) -> &Spread,
) -> Chart {
    let spreads = || comparison.policies.iter().map(of);
    let most = spreads().map(|spread| spread.samples).max().unwrap_or(0);
    // The fastest would stretch a log axis, and matter least.
    let values: Vec<f64> = spreads()
        .flat_map(|spread| &spread.curve)
        .filter(|quantile| quantile.share >= 0.5)
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
    .names(x_name, "at most")
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
