//! `--watch`: limits, rates and refusals once per second.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use console::measure_text_width;
use flowgate_server::{DecideView, DecideViewer, RuleCounts, RuleView};
use tokio::time::sleep;

use super::log::Log;
use crate::exit::print;
use crate::figure::{rate, span};
use crate::watch::Canvas;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most columns of a limit's name and of its quota.
const WIDEST: usize = 32;

/// Shows a server until its task is dropped: on a terminal a view, elsewhere a line per second.
pub(super) async fn show(viewer: DecideViewer, doors: String, log: Log) {
    let begin = Instant::now();
    let mut drawn = match &log {
        Log::View(last) => Canvas::new().map(|canvas| (canvas, last)),
        _ => None,
    };
    let mut before = viewer.view();
    let mut looked = begin;
    loop {
        sleep(INTERVAL).await;
        let (now, view) = (Instant::now(), viewer.view());
        let sight = Sight {
            time: now - begin,
            passed: now - looked,
            before: &before,
            view: &view,
        };
        match &mut drawn {
            Some((canvas, last)) => {
                let mut lines = sight.lines(&doors);
                lines.push(last.lock().unwrap_or_else(PoisonError::into_inner).clone());
                canvas.show(lines);
            }
            None if print(&format!("{}\n", sight.line())).is_err() => return,
            None => {}
        }
        (before, looked) = (view, now);
    }
}

/// The numbers of one look.
struct Sight<'a> {
    /// Since the server began.
    time: Duration,
    /// Since `before`.
    passed: Duration,
    before: &'a DecideView,
    view: &'a DecideView,
}

impl Sight<'_> {
    fn lines(&self, doors: &str) -> Vec<String> {
        let mut rules: Vec<_> = self.view.rules.iter().collect();
        // The busiest are on top, where the terminal is too low for all.
        rules.sort_by_key(|rule| std::cmp::Reverse(all(&rule.counts)));
        let mut rows = vec![
            [
                "limit",
                "quota",
                "admitted",
                "refused",
                "refused, all",
                "beyond",
            ]
            .map(str::to_owned),
        ];
        rows.extend(rules.into_iter().map(|rule| self.row(rule)));
        if all(&self.view.throttle) > 0 {
            let counts = (&self.before.throttle, &self.view.throttle);
            let [admitted, refused, refusals] = self.numbers(counts.0, counts.1, false);
            let quota = "of each request".to_owned();
            let beyond = "0".to_owned();
            rows.push([
                "CL.THROTTLE".to_owned(),
                quota,
                admitted,
                refused,
                refusals,
                beyond,
            ]);
        }
        let mut lines = vec![format!("{doors}   {}", self.state()), String::new()];
        lines.extend(aligned(&rows));
        lines
    }

    fn row(&self, rule: &RuleView) -> [String; 6] {
        let before = self.before.rules.iter().find(|before| before.id == rule.id);
        // A rule that was added by a reload begins with 0.
        let before = before.map_or_else(RuleCounts::default, |before| before.counts);
        let [admitted, refused, refusals] = self.numbers(&before, &rule.counts, rule.is_shadow);
        let beyond = rule
            .beyond
            .map_or("no bound".to_owned(), |tokens| tokens.to_string());
        [
            cut(&rule.id),
            cut(&rule.quota),
            admitted,
            refused,
            refusals,
            beyond,
        ]
    }

    /// Returns admissions and refusals per second, and all refusals. Those of a shadow rule are in parentheses.
    fn numbers(&self, before: &RuleCounts, now: &RuleCounts, is_shadow: bool) -> [String; 3] {
        let per_second = |of: fn(&RuleCounts) -> u64| {
            let count = of(now).saturating_sub(of(before));
            rate(count as f64 / self.passed.as_secs_f64().max(1e-3))
        };
        let admitted = per_second(|counts| counts.admitted + counts.refused_in_shadow);
        match is_shadow {
            false => [
                admitted,
                per_second(|counts| counts.refused),
                now.refused.to_string(),
            ],
            true => [
                admitted,
                format!("({})", per_second(|counts| counts.refused_in_shadow)),
                format!("({})", now.refused_in_shadow),
            ],
        }
    }

    fn state(&self) -> String {
        let store = match self.view.is_connected {
            None => String::new(),
            Some(true) => ", store connected".to_owned(),
            Some(false) => ", store AWAY".to_owned(),
        };
        let connections = self.view.connections;
        format!("{}, {connections} connections{store}", span(self.time))
    }

    /// One line for all limits.
    fn line(&self) -> String {
        let sum = |view: &DecideView, of: fn(&RuleCounts) -> u64| -> u64 {
            let rules = view.rules.iter().map(|rule| of(&rule.counts));
            rules.sum::<u64>() + of(&view.throttle)
        };
        let per_second = |of| {
            let count = sum(self.view, of).saturating_sub(sum(self.before, of));
            rate(count as f64 / self.passed.as_secs_f64().max(1e-3))
        };
        let admitted = per_second(|counts| counts.admitted + counts.refused_in_shadow);
        let refused = per_second(|counts| counts.refused);
        format!("{}: admitted {admitted}, refused {refused}", self.state())
    }
}

fn all(counts: &RuleCounts) -> u64 {
    counts.admitted
        + counts.refused
        + counts.refused_in_shadow
        + counts.not_taken
        + counts.undecided
}

fn cut(text: &str) -> String {
    console::truncate_str(text, WIDEST, "…").into_owned()
}

/// Columns as wide as their widest cell. Numbers end together.
fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| measure_text_width(&row[column]));
        cells.max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(place, (cell, width))| {
                let room = " ".repeat(width - measure_text_width(cell));
                match place {
                    0 | 1 => format!("{cell}{room}"),
                    _ => format!("{room}{cell}"),
                }
            });
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime};

    use super::*;

    const LIMITS: &str = "
domain: api
descriptors:
  - { key: a-key-that-is-much-longer-than-a-column, quota: 9/day burst 3 }
  - { key: new, quota: 2/day, shadow_mode: true }
  - { key: user, quota: 5/min }
";

    /// Only a server creates a view; this is one of nothing. Rules are sorted by their names.
    fn nothing() -> DecideView {
        let config = Config::parse("test.yaml", LIMITS).expect("a configuration");
        let limits = DecideLimits::new(&config, &DecisionTime::system()).expect("limits");
        DecideServer::new(limits).viewer().view()
    }

    /// Two seconds between the looks.
    fn sight<'a>(before: &'a DecideView, view: &'a DecideView) -> Sight<'a> {
        Sight {
            time: Duration::from_secs(61),
            passed: Duration::from_secs(2),
            before,
            view,
        }
    }

    #[test]
    fn the_busiest_limit_is_on_top_with_its_numbers_of_the_last_look() {
        let mut before = nothing();
        before.rules[2].counts.admitted = 3;
        before.rules[2].counts.refused = 4;
        let mut view = before.clone();
        view.connections = 7;
        view.rules[1].counts.admitted = 2;
        view.rules[1].counts.refused_in_shadow = 6;
        view.rules[2].counts.admitted = 3 + 500;
        view.rules[2].counts.refused = 4 + 20;
        view.rules[2].beyond = Some(5);
        view.rules[0].beyond = None;
        let lines = sight(&before, &view).lines("RESP on 127.0.0.1:6380");
        let expected = [
            "RESP on 127.0.0.1:6380   1m 1s, 7 connections",
            "",
            "limit                             quota          admitted  refused  refused, all    beyond",
            "api.user                          5/min             250/s     10/s            24         5",
            "api.new                           2/day               4/s    (3/s)           (6)         0",
            "api.a-key-that-is-much-longer-t…  9/day burst 3       0/s      0/s             0  no bound",
        ];
        assert_eq!(lines, expected);
        let line = sight(&before, &view).line();
        assert_eq!(line, "1m 1s, 7 connections: admitted 254/s, refused 10/s");
    }

    #[test]
    fn a_row_is_there_for_what_has_one() {
        let (before, mut view) = (nothing(), nothing());
        let has = |view: &DecideView, what: &str| {
            let lines = sight(&before, view).lines("");
            lines.iter().any(|line| line.contains(what))
        };
        assert!(!has(&view, "CL.THROTTLE") && !has(&view, "store"));
        view.throttle.refused = 2;
        assert!(has(
            &view,
            "CL.THROTTLE                       of each request       0/s      1/s             2       0"
        ));
        for (is_connected, what) in [(true, ", store connected"), (false, ", store AWAY")] {
            view.is_connected = Some(is_connected);
            assert!(has(&view, what));
        }
    }

    #[test]
    fn a_rule_that_a_reload_has_added_begins_with_0() {
        let mut before = nothing();
        before.rules.remove(2);
        let mut view = nothing();
        view.rules[2].counts.admitted = 8;
        let lines = sight(&before, &view).lines("");
        assert!(
            lines[3].starts_with("api.user ") && lines[3].contains(" 4/s "),
            "{lines:?}"
        );
    }
}
