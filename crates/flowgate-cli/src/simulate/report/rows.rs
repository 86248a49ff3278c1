//! The rows of the table: what is compared, and how it is written.

use std::time::Duration;

use flowgate_chart::{Unit, duration, grouped, significant};

use super::comparison::{Comparison, PolicyRun};

/// A row of the table: its name, and a cell per policy; `None` if the policy has no such value.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) cells: Vec<Option<String>>,
}

/// Rows without those that no policy has a value for.
pub(super) fn rows(comparison: &Comparison) -> Vec<Row> {
    let runs = comparison.policies.as_slice();
    let has_retries = |run: &PolicyRun| run.counts.attempts != run.counts.operations;
    let has_times = runs.iter().any(|run| run.latency.max_ns > 0);
    let row = |name, cell: &dyn Fn(&PolicyRun) -> Option<String>| Row {
        name,
        cells: runs.iter().map(cell).collect(),
    };
    // Counts that are zero for all policies are not shown.
    let some = |name, count: fn(&PolicyRun) -> u64| {
        let is_shown = runs.iter().any(|run| count(run) > 0);
        row(name, &|run| is_shown.then(|| grouped(count(run))))
    };
    let wait = |name, value: fn(&PolicyRun) -> u64| {
        row(name, &|run| (run.wait.samples > 0).then(|| time(value(run))))
    };
    let latency = |name, value: fn(&PolicyRun) -> u64| {
        row(name, &|run| {
            (has_times && run.latency.samples > 0).then(|| time(value(run)))
        })
    };
    let mut rows = vec![
        row("operations", &|run| {
            let is_shown = runs.iter().any(has_retries);
            is_shown.then(|| grouped(run.counts.operations))
        }),
        row("attempts", &|run| Some(grouped(run.counts.attempts))),
        row("admitted", &|run| Some(grouped(run.counts.admitted))),
        row("refused", &|run| Some(grouped(run.counts.refused))),
        row("refused share", &|run| Some(percent(run.refused_share?))),
        some("waited", |run| run.counts.waited),
        wait("wait p50", |run| run.wait.p50_ns),
        wait("wait p99", |run| run.wait.p99_ns),
        row("goodput", &|run| {
            Some(Unit::Rate.exact(run.goodput_per_second))
        }),
        some("late", |run| run.counts.late),
        some("failed", |run| run.counts.failed),
        some("queue full", |run| run.counts.queue_full),
        some("expired in queue", |run| run.counts.expired),
        some("server down", |run| run.counts.down),
        some("unfinished", |run| run.counts.unfinished),
        latency("latency p50", |run| run.latency.p50_ns),
        latency("latency p99", |run| run.latency.p99_ns),
        latency("latency max", |run| run.latency.max_ns),
        row("fairness by key", &|run| {
            Some(format!("{:.3}", run.fairness?))
        }),
    ];
    rows.retain(|row| row.cells.iter().any(Option::is_some));
    rows
}

pub(super) fn time(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}

/// Formats a share with three digits: `32.8 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 3))
}

/// Formats a length of time without needless digits: `30 s`, `1.5 s`.
pub(super) fn seconds(ns: u64) -> String {
    match ns % 1_000_000_000 {
        0 => format!("{} s", grouped(ns / 1_000_000_000)),
        _ => time(ns),
    }
}
