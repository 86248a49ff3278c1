//! A comparison as a page for a browser.

use std::fmt;

use flowgate_chart::{Escaped, Figure, Key, Look, grouped, keys, page};

use super::charts;
use super::comparison::{Comparison, PolicyRun};
use super::rows::{percent, rows, seconds};
use super::text::has_refused_keys;

impl Comparison {
    /// Returns one page of HTML that loads nothing and runs no script.
    pub(crate) fn to_html(&self) -> String {
        let title = match self.title.is_empty() {
            true => "simulation",
            false => &self.title,
        };
        page(
            title,
            "flowgate simulate",
            env!("CARGO_PKG_VERSION"),
            &Content {
                title,
                comparison: self,
            },
        )
    }
}

struct Content<'a> {
    title: &'a str,
    comparison: &'a Comparison,
}

impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.comparison;
        writeln!(
            f,
            "<header>\n<p class=\"product\">flowgate simulate</p>\n<h1>{}</h1>\n</header>",
            Escaped(self.title)
        )?;
        f.write_str("<div class=\"tables several\">\n")?;
        table(comparison, f)?;
        f.write_str("</div>\n<div class=\"figures\">\n")?;
        for figure in figures(comparison) {
            figure.fmt(f)?;
        }
        most_refused(comparison, f)?;
        if !comparison.scenario.is_empty() {
            writeln!(
                f,
                "<section class=\"full\">\n<h2>Scenario</h2>\n<pre class=\"scroll\">{}</pre>\n</section>",
                Escaped(&comparison.scenario)
            )?;
        }
        f.write_str("</div>\n")
    }
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
            charts::percentiles(
                comparison,
                "latency",
                "share of the operations served",
                |run| &run.latency,
            ),
        ));
    }
    if runs.iter().any(|run| run.wait.samples > 0) {
        figures.push(figure(
            "Wait for the limiter",
            "Of the attempts that waited for the limiter and were admitted.",
            charts::percentiles(
                comparison,
                "wait",
                "share of the attempts that waited",
                |run| &run.wait,
            ),
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

/// Writes the numbers, with a column per policy.
fn table(comparison: &Comparison, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "<section>\n<h2>{} of traffic, seed {}</h2>\n<div class=\"scroll\"><table>",
        Escaped(&seconds(comparison.duration_ns)),
        comparison.seed
    )?;
    columns(charts::looks(comparison), f)?;
    for row in rows(comparison) {
        write!(f, "<tr><th scope=\"row\">{}</th>", Escaped(&row.name))?;
        for cell in &row.cells {
            write!(f, "<td>{}</td>", Escaped(cell.as_deref().unwrap_or("–")))?;
        }
        f.write_str("</tr>\n")?;
    }
    f.write_str("</tbody></table></div>\n</section>\n")
}

/// Writes the head of a table, and the start of its body.
fn columns<'a>(
    runs: impl Iterator<Item = (Look, &'a PolicyRun)>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("<thead><tr><td></td>")?;
    for (look, run) in runs {
        let key = Key::line(look, &run.policy);
        write!(f, "<th scope=\"col\" class=\"run\">{key}</th>")?;
    }
    f.write_str("</tr></thead>\n<tbody>\n")
}

/// Writes the keys that were refused most, if there are several keys.
fn most_refused(comparison: &Comparison, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let refused = || charts::looks(comparison).filter(|(_, run)| has_refused_keys(run));
    let ranks = refused().map(|(_, run)| run.keys.most_refused.len()).max();
    let Some(ranks) = ranks else {
        return Ok(());
    };
    f.write_str(
        "<section class=\"full\">\n<h2>Keys that were refused most</h2>\n<div class=\"scroll\"><table>\n",
    )?;
    columns(refused(), f)?;
    for rank in 0..ranks {
        write!(f, "<tr><th scope=\"row\">{}</th>", rank + 1)?;
        for (_, run) in refused() {
            match run.keys.most_refused.get(rank) {
                Some(key) => write!(
                    f,
                    "<td>{}: {} of {}, {}</td>",
                    Escaped(&key.key),
                    grouped(key.refused),
                    grouped(key.attempts),
                    percent(key.refused_share())
                )?,
                None => f.write_str("<td>–</td>")?,
            }
        }
        f.write_str("</tr>\n")?;
    }
    f.write_str("</tbody></table></div>\n</section>\n")
}
