//! Reports as a page for a browser.

use std::fmt::Write;

use flowgate_chart::{Escaped, Figure, Key, Look, grouped, keys, page};

use super::charts;
use super::comparison::{Comparison, PolicyRun};
use super::rows::{percent, rows, seconds};
use super::text::has_refused_keys;

/// The page of a comparison.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let mut figures: String = figures(comparison).iter().map(Figure::to_string).collect();
    most_refused(comparison, &mut figures);
    let table = table(comparison);
    with_scenario(&comparison.title, &table, &figures, &comparison.scenario)
}

/// A page with tables, figures, and the scenario that they are about.
pub(super) fn with_scenario(title: &str, tables: &str, figures: &str, scenario: &str) -> String {
    let title = if title.is_empty() {
        "simulation"
    } else {
        title
    };
    let mut content = format!(
        "<header>\n<p class=\"product\">flowgate simulate</p>\n<h1>{}</h1>\n</header>\n\
         <div class=\"tables several\">\n{tables}</div>\n<div class=\"figures\">\n{figures}",
        Escaped(title)
    );
    if !scenario.is_empty() {
        let scenario = Escaped(scenario);
        // Writing to a string cannot fail.
        let _ = writeln!(
            content,
            "<section class=\"full\">\n<h2>Scenario</h2>\n<pre class=\"scroll\">{scenario}</pre>\n</section>"
        );
    }
    content.push_str("</div>\n");
    page(
        title,
        "flowgate simulate",
        env!("CARGO_PKG_VERSION"),
        &content,
    )
}

fn figures(comparison: &Comparison) -> Vec<Figure> {
    let runs = comparison.policies.as_slice();
    if runs.is_empty() {
        return Vec::new();
    }
    let policies = keys(charts::looks(comparison).map(|(look, run)| (look, run.policy.as_str())));
    let with_offered = format!("{policies} {}", Key::area(Look::GRAY, "offered"));
    let is_alike = charts::is_offered_alike(comparison);
    let figure =
        |title, caption, chart| Figure::new(title, caption).keys(&policies).charts([chart]);
    let mut figures = vec![
        Figure::new(
            "Admitted over time",
            "Requests per second of each slot. Offered: attempts, retries included.",
        )
        .keys(if is_alike { &with_offered } else { &policies })
        .charts([charts::admitted(comparison)]),
    ];
    if !is_alike {
        figures.push(figure(
            "Offered over time",
            "Attempts, retries included. They differ where clients retry, or wait for an answer before they ask again.",
            charts::counts(comparison, "offered", |slot| slot.attempts),
        ));
    }
    figures.push(figure(
        "Refused over time",
        "Attempts that the policy refused, after a wait or without one.",
        charts::counts(comparison, "refused", |slot| slot.refused),
    ));
    if charts::has_times(comparison) {
        figures.push(figure(
            "Goodput over time",
            "Operations that were served within the deadline of their client.",
            charts::counts(comparison, "goodput", |slot| slot.in_time),
        ));
        figures.push(figure(
            "Longest latency over time",
            "Of the operations that were served in time in each slot.",
            charts::longest(comparison),
        ));
        figures.push(figure(
            "Latency percentiles",
            "From the start of an operation to its answer, with waits and retries.",
            charts::latencies(comparison),
        ));
    }
    if runs.iter().any(|run| run.wait.samples > 0) {
        figures.push(figure(
            "Wait for the limiter",
            "Of the attempts that waited for the limiter and were admitted.",
            charts::waits(comparison),
        ));
    }
    if runs.iter().any(|run| run.keys.count > 1) {
        figures.push(
            Figure::new(
                "Keys",
                "What was admitted of each key, the key with the most attempts first. Keys of lower ranks are shown by the mean of a group.",
            )
            .keys(&with_offered)
            .charts([charts::keys(comparison)]),
        );
    }
    figures
}

/// The numbers, with a column per policy.
fn table(comparison: &Comparison) -> String {
    let mut table = format!(
        "<section>\n<h2>{} of traffic, seed {}</h2>\n<div class=\"scroll\"><table>\n",
        Escaped(&seconds(comparison.duration_ns)),
        comparison.seed
    );
    columns(charts::looks(comparison), &mut table);
    for row in rows(comparison) {
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>", Escaped(&row.name));
        for cell in &row.cells {
            let _ = write!(
                table,
                "<td>{}</td>",
                Escaped(cell.as_deref().unwrap_or("–"))
            );
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody></table></div>\n</section>\n");
    table
}

/// Writes the head of a table, and the start of its body.
fn columns<'a>(runs: impl Iterator<Item = (Look, &'a PolicyRun)>, table: &mut String) {
    table.push_str("<thead><tr><td></td>");
    for (look, run) in runs {
        let key = Key::line(look, &run.policy);
        let _ = write!(table, "<th scope=\"col\" class=\"run\">{key}</th>");
    }
    table.push_str("</tr></thead>\n<tbody>\n");
}

/// Writes the keys that were refused most, if there are several keys.
fn most_refused(comparison: &Comparison, page: &mut String) {
    let refused = || charts::looks(comparison).filter(|(_, run)| has_refused_keys(run));
    let ranks = refused().map(|(_, run)| run.keys.most_refused.len()).max();
    let Some(ranks) = ranks else {
        return;
    };
    page.push_str(
        "<section class=\"full\">\n<h2>Keys that were refused most</h2>\n<div class=\"scroll\"><table>\n",
    );
    columns(refused(), page);
    for rank in 0..ranks {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", rank + 1);
        for (_, run) in refused() {
            let _ = match run.keys.most_refused.get(rank) {
                Some(key) => write!(
                    page,
                    "<td>{}: {} of {}, {}</td>",
                    Escaped(&key.key),
                    grouped(key.refused),
                    grouped(key.attempts),
                    percent(key.refused_share())
                ),
                None => write!(page, "<td>–</td>"),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n</section>\n");
}
