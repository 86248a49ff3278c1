//! A comparison as a page for a browser.

use std::fmt;

use flowgate_chart::{Escaped, Figure, Key, Look, grouped, keys, page};

use super::charts;
use super::comparison::Comparison;
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
    let over_time = match charts::is_offered_alike(comparison) {
        true => &with_offered,
        false => &policies,
    };
    let mut figures = vec![
        Figure::new(
            "Over time",
            "Requests per second of each slot. Offered: attempts, retries included. Served in time: before the deadline of the client.",
        )
        .keys(over_time)
        .charts(charts::over_time(comparison)),
    ];
    if charts::has_times(comparison) {
        let latency = charts::percentiles(comparison, "latency", |run| &run.latency);
        figures.push(
            Figure::new(
                "Latency percentiles",
                "From the start of an operation to its answer, with waits and retries, of the operations that were served.",
            )
            .keys(&policies)
            .charts([latency]),
        );
    }
    if runs.iter().any(|run| run.wait.samples > 0) {
        let wait = charts::percentiles(comparison, "wait", |run| &run.wait);
        figures.push(
            Figure::new(
                "Wait for the limiter",
                "Of the attempts that waited for the limiter and were admitted.",
            )
            .keys(&policies)
            .charts([wait]),
        );
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
        "<section>\n<h2>{} of traffic, seed {}</h2>",
        Escaped(&seconds(comparison.duration_ns)),
        comparison.seed
    )?;
    f.write_str("<div class=\"scroll\"><table>\n<thead><tr><td></td>")?;
    for (look, run) in charts::looks(comparison) {
        let key = Key::line(look, &run.policy);
        write!(f, "<th scope=\"col\" class=\"run\">{key}</th>")?;
    }
    f.write_str("</tr></thead>\n<tbody>\n")?;
    for row in rows(comparison) {
        write!(f, "<tr><th scope=\"row\">{}</th>", Escaped(row.name))?;
        for cell in &row.cells {
            write!(f, "<td>{}</td>", Escaped(cell.as_deref().unwrap_or("–")))?;
        }
        f.write_str("</tr>\n")?;
    }
    f.write_str("</tbody></table></div>\n</section>\n")
}

/// Writes the keys that were refused most, if there are several keys.
fn most_refused(comparison: &Comparison, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let refused = || charts::looks(comparison).filter(|(_, run)| has_refused_keys(run));
    if refused().next().is_none() {
        return Ok(());
    }
    f.write_str(
        "<section class=\"half\">\n<h2>Keys that were refused most</h2>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">policy</th><th scope=\"col\">key</th><th scope=\"col\">attempts</th>\
         <th scope=\"col\">refused</th><th scope=\"col\">share</th></tr></thead>\n",
    )?;
    for (look, run) in refused() {
        f.write_str("<tbody>\n")?;
        for (index, key) in run.keys.most_refused.iter().enumerate() {
            f.write_str("<tr>")?;
            if index == 0 {
                let rows = run.keys.most_refused.len();
                let name = Key::line(look, &run.policy);
                write!(f, "<th scope=\"rowgroup\" rowspan=\"{rows}\">{name}</th>")?;
            }
            writeln!(
                f,
                "<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                Escaped(&key.key),
                grouped(key.attempts),
                grouped(key.refused()),
                percent(key.refused_share())
            )?;
        }
        f.write_str("</tbody>\n")?;
    }
    f.write_str("</table></div>\n</section>\n")
}
