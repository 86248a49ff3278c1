//! The rows of the table: what is compared, and how it is written.

use std::time::Duration;

use flowgate_chart::{Unit, duration, grouped, significant};

use super::comparison::{Comparison, PolicyRun, Source, Stopped, Window, refused_share};

/// A row of the table: its name, and a cell per policy; `None` if the policy has no such value.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) cells: Vec<Option<String>>,
}

/// Rows without those that no policy has a value for.
pub(super) fn rows(comparison: &Comparison) -> Vec<Row> {
    let runs = comparison.policies.as_slice();
    let has_retries = |run: &PolicyRun| run.counts.attempts != run.counts.operations;
    let has_times = runs.iter().any(|run| run.latency.max_ns > 0);
    let row = |name: &str, cell: &dyn Fn(&PolicyRun) -> Option<String>| Row {
        name: name.to_owned(),
        cells: runs.iter().map(cell).collect(),
    };
    // Counts that are zero for all policies are not shown.
    let some = |name, count: fn(&PolicyRun) -> u64| {
        let is_shown = runs.iter().any(|run| count(run) > 0);
        row(name, &|run| is_shown.then(|| grouped(count(run))))
    };
    let wait = |name, value: fn(&PolicyRun) -> u64| {
        row(name, &|run| {
            (run.wait.samples > 0).then(|| time(value(run)))
        })
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
        row("goodput", &|run| Some(rate(run.goodput_per_second))),
        some("late", |run| run.counts.late),
        some("failed", |run| run.counts.failed),
        some("queue full", |run| run.counts.queue_full),
        some("expired in queue", |run| run.counts.expired),
        some("timed out", |run| run.counts.timed_out),
        some("wasted", |run| run.counts.wasted),
        some("server down", |run| run.counts.down),
        some("unfinished", |run| run.counts.unfinished),
        latency("latency p50", |run| run.latency.p50_ns),
        latency("latency p99", |run| run.latency.p99_ns),
        latency("latency max", |run| run.latency.max_ns),
        row("fairness by key", &|run| {
            Some(format!("{:.3}", run.fairness?))
        }),
        row("ended early", &|run| Some(why(run.stopped?).to_owned())),
    ];
    let windows = runs.first().map_or(&[][..], |run| &run.windows);
    for (index, window) in windows.iter().enumerate() {
        let length = seconds(window.window_ns);
        let of = |cell: fn(&Window) -> Option<String>| {
            move |run: &PolicyRun| cell(run.windows.get(index)?)
        };
        rows.push(row(
            &format!("most in any {length}"),
            &of(|window| Some(most(window))),
        ));
        rows.push(row(
            "  guarantee",
            &of(|window| Some(grouped(window.guarantee?))),
        ));
    }
    let sources = runs.first().map_or(&[][..], |run| &run.sources);
    for (index, source) in sources.iter().enumerate().filter(|_| sources.len() > 1) {
        let of = |cell: fn(&Source) -> Option<String>| {
            move |run: &PolicyRun| cell(run.sources.get(index)?)
        };
        let name = |of: &str| format!("{}: {of}", source.name);
        rows.push(row(
            &name("attempts"),
            &of(|source| Some(grouped(source.counts.attempts))),
        ));
        rows.push(row(
            &name("refused share"),
            &of(|source| Some(percent(refused_share(&source.counts)?))),
        ));
        rows.push(row(
            &name("in time"),
            &of(|source| Some(grouped(source.counts.in_time))),
        ));
        if has_times {
            rows.push(row(
                &name("latency p99"),
                &of(|source| (source.latency.samples > 0).then(|| time(source.latency.p99_ns))),
            ));
        }
    }
    rows.retain(|row| row.cells.iter().any(Option::is_some));
    rows
}

/// The most that was admitted in a window.
fn most(window: &Window) -> String {
    let at_least = if window.is_exact { "" } else { "≥ " };
    let of_key = if window.is_per_key { " of a key" } else { "" };
    format!("{at_least}{}{of_key}", grouped(window.tokens))
}

fn why(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Events => "too many events",
        Stopped::Pending => "too many pending",
        Stopped::Interrupted => "interrupted",
        Stopped::Other => "yes",
    }
}

pub(super) fn time(ns: u64) -> String {
    match ns {
        0 => "0 s".to_owned(),
        ns => duration(Duration::from_nanos(ns)),
    }
}

/// Formats a rate per second, below each other with the same decimals: `100.7/s`.
fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0/s".to_owned(),
        rate if rate < 1.0 => format!("{}/s", significant(rate, 2)),
        rate if rate < 10_000.0 => format!("{rate:.1}/s"),
        rate => format!("{}/s", grouped(rate.round() as u64)),
    }
}

/// Formats a share, below each other with the same decimals: `32.8 %`.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 1.0 => format!("{} %", significant(percent, 2)),
        percent => format!("{percent:.1} %"),
    }
}

/// Formats a length of time without needless digits: `30 s`, `1.5 s`.
pub(super) fn seconds(ns: u64) -> String {
    match ns % 1_000_000_000 {
        0 => format!("{} s", grouped(ns / 1_000_000_000)),
        _ => Unit::Nanos.tick(ns as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(
            [0.0, 0.000_123, 0.9, 0.674].map(percent),
            ["0 %", "0.012 %", "90.0 %", "67.4 %"]
        );
        assert_eq!(
            [0.0, 0.052, 101.0, 1e6].map(rate),
            ["0/s", "0.052/s", "101.0/s", "1\u{202f}000\u{202f}000/s"]
        );
        assert_eq!(
            [0, 1_500_000_000, 30_000_000_000].map(seconds),
            ["0 s", "1.5 s", "30 s"]
        );
    }
}
