//! The top of a page: what each run was asked to do, its verdict, and its numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use flowgate_chart::{Escaped, Key, bytes, duration, grouped, significant};

use crate::counts::ErrorCause;
use crate::report::html::run::Run;
use crate::report::{PacingMode, Provenance, Report, text};
use crate::spread::{Quantile, Spread};
use crate::verdict::Verdict;

/// The top of a page.
pub(super) struct Summary<'a>(pub(super) &'a [Run<'a>]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0;
        let title = match runs {
            [] => "No runs".to_owned(),
            [run] => run.name.clone(),
            _ => format!("{} runs", runs.len()),
        };
        writeln!(
            f,
            "<header>\n<p class=\"product\">flowgate load</p>\n<h1>{}</h1>\n</header>",
            Escaped(&title)
        )?;
        if runs.is_empty() {
            return Ok(());
        }
        f.write_str("<div class=\"verdicts\">\n")?;
        for run in runs {
            verdict(run, runs.len() > 1, f)?;
        }
        let class = if runs.len() > 1 {
            "tables several"
        } else {
            "tables"
        };
        writeln!(f, "</div>\n<div class=\"{class}\">")?;
        table("Sending", &sending(runs), runs, f)?;
        table("Evenness", &evenness(runs), runs, f)?;
        table("Answers", &answers(runs), runs, f)?;
        durations(runs, f)?;
        f.write_str("</div>\n")
    }
}

fn verdict(run: &Run, is_named: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let report = run.report;
    let verdict = report.verdict();
    let (class, sign) = match verdict {
        Verdict::RateHeld | Verdict::RateLimitKept => ("good", "✓"),
        Verdict::RateNotHeld(_) | Verdict::RateLimitNotKept(_) | Verdict::TooManyErrors(_) => {
            ("bad", "✗")
        }
        Verdict::Unpaced => ("plain", "–"),
    };
    writeln!(f, "<article class=\"{class}\">")?;
    if is_named {
        writeln!(f, "<h2>{}</h2>", Key::line(run.look, &run.name))?;
    }
    let verb = match report.asked.mode {
        PacingMode::Hold => "hold ",
        PacingMode::Under | PacingMode::Unpaced => "",
    };
    writeln!(
        f,
        "<p class=\"asked\"><strong class=\"word\">{sign} {verdict}</strong> <span>asked: {verb}{}</span></p>",
        Escaped(&report.asked.text),
    )?;
    if !verdict.causes().is_empty() {
        f.write_str("<ul>\n")?;
        for cause in verdict.causes() {
            writeln!(f, "<li>{}</li>", Escaped(&cause.to_string()))?;
        }
        if let (Verdict::TooManyErrors(_), Some(load)) = (&verdict, text::load_was(report)) {
            writeln!(f, "<li>{load}</li>")?;
        }
        f.write_str("</ul>\n")?;
    }
    if is_named || run.name != report.target || report.own_origin {
        let own = if report.own_origin {
            " (built-in test server)"
        } else {
            ""
        };
        writeln!(
            f,
            "<p class=\"target\">{}{own}</p>",
            Escaped(&report.target)
        )?;
    }
    writeln!(f, "<p class=\"limits\">{}</p>", Escaped(&limits(report)))?;
    let Provenance {
        command,
        version,
        machine,
        ..
    } = &report.provenance;
    if let Some(command) = command {
        writeln!(
            f,
            "<p class=\"limits\"><code>{}</code></p>",
            Escaped(command)
        )?;
    }
    let version = version
        .as_ref()
        .map(|version| format!("flowgate {version}"));
    let origin = [report.provenance.date(), version, machine.clone()];
    let origin: Vec<String> = origin.into_iter().flatten().collect();
    if !origin.is_empty() {
        writeln!(
            f,
            "<p class=\"limits\">{}</p>",
            Escaped(&origin.join(" · "))
        )?;
    }
    writeln!(f, "</article>")
}

/// Returns the thresholds of the verdict.
fn limits(report: &Report) -> String {
    let allowed = text::share(report.asked.max_error_share);
    format!(
        "{} At most {allowed} of the requests may fail.",
        of_the_load(report)
    )
}

fn of_the_load(report: &Report) -> String {
    let thresholds = report.thresholds();
    match report.asked.mode {
        PacingMode::Hold => {
            let lag = text::brief(thresholds.lag_p99);
            let rate = match report.asked.is_constant {
                true => format!(", rate within {}", text::share(thresholds.rate_error)),
                false => String::new(),
            };
            format!(
                "Rate held means: every scheduled request was sent{rate}, lag p99 at most {lag}."
            )
        }
        PacingMode::Under => match (report.asked.guarantee, report.asked.window) {
            (Some(guarantee), _) => format!(
                "Rate limit kept means: at most {} + {}/s × w sends in any interval w, both ends included.",
                guarantee.burst,
                significant(guarantee.per_second, 7),
            ),
            (None, Some(window)) => format!(
                "Rate limit kept means: at most {} sends in any interval shorter than {}.",
                window.sends,
                text::brief(window.span),
            ),
            (None, None) => {
                "Rate limit kept means: no send before the limiter allowed it.".to_owned()
            }
        },
        PacingMode::Unpaced => {
            "No rate was given: each connection sent its next request when it had received a response."
                .to_owned()
        }
    }
}

/// A row of a table: its name, and a cell per run; `None` if the run has no such value.
struct Row {
    name: String,
    cells: Vec<Option<String>>,
}

fn row(runs: &[Run], name: impl Into<String>, cell: impl Fn(&Report) -> Option<String>) -> Row {
    Row {
        name: name.into(),
        cells: runs.iter().map(|run| cell(run.report)).collect(),
    }
}

fn sending(runs: &[Run]) -> Vec<Row> {
    let row = |name: &str, cell: &dyn Fn(&Report) -> Option<String>| row(runs, name, cell);
    vec![
        row("target rate", &|report| {
            Some(format!("{}/s", significant(report.asked.per_second?, 7)))
        }),
        row("achieved rate", &|report| {
            Some(format!("{}/s", significant(report.achieved()?, 7)))
        }),
        row("rate error", &|report| {
            Some(text::percent(
                report.rate_error().filter(|error| error.is_finite())?,
            ))
        }),
        row("sent", &|report| {
            Some(match report.counts.scheduled {
                Some(scheduled) => {
                    format!("{} of {}", grouped(report.counts.sent), grouped(scheduled))
                }
                None => grouped(report.counts.sent),
            })
        }),
        row("first to last send", &|report| {
            (report.counts.sent > 1).then(|| duration(report.span))
        }),
        row("skipped, late", &|report| some(report.counts.skipped)),
        row("could not be sent", &|report| some(report.counts.unsent)),
        row("connections busy", &|report| {
            let connections = report.connections;
            Some(format!(
                "up to {} of {}",
                grouped(connections.most_busy),
                grouped(connections.allowed)
            ))
        }),
        row("waited for a connection", &|report| {
            let longest = duration(report.connections.longest_wait);
            Some(format!("{}, up to {longest}", some(report.counts.queued)?))
        }),
        row("did not open", &|report| {
            let why = report
                .connections
                .why_missing
                .map(|why| format!(" ({why})"));
            Some(some(report.connections.missing)? + &why.unwrap_or_default())
        }),
    ]
}

fn evenness(runs: &[Run]) -> Vec<Row> {
    let row = |name: &str, cell: &dyn Fn(&Report) -> Option<String>| row(runs, name, cell);
    let gap_error = |value: fn(&Spread) -> Duration| {
        move |report: &Report| {
            let spread = report.pacing.gap_error;
            (spread.samples > 0).then(|| duration(value(&spread)))
        }
    };
    let busiest = |window: Duration| {
        move |report: &Report| {
            let busiest = report
                .pacing
                .busiest
                .iter()
                .find(|busiest| busiest.window == window)?;
            Some(grouped(busiest.sent))
        }
    };
    vec![
        row("gap error p50", &gap_error(|spread| spread.p50)),
        row("gap error p99", &gap_error(|spread| spread.p99)),
        row("gap error max", &gap_error(|spread| spread.max)),
        row("smallest gap", &|report| {
            Some(duration(report.pacing.smallest_gap?))
        }),
        row("most in any 100 ms", &busiest(Duration::from_millis(100))),
        row("most in any 1 s", &busiest(Duration::from_secs(1))),
    ]
}

fn answers(runs: &[Run]) -> Vec<Row> {
    let row = |name: &str, cell: &dyn Fn(&Report) -> Option<String>| row(runs, name, cell);
    let mut rows = vec![
        row("admitted (1xx to 3xx)", &|report| {
            Some(grouped(report.counts.statuses.admitted()))
        }),
        row("limited (429, 503)", &|report| {
            Some(grouped(report.counts.statuses.limited))
        }),
        row("errors", &|report| {
            let errors = grouped(report.counts.errors());
            Some(
                match report.counts.error_share().filter(|share| *share > 0.0) {
                    Some(share) => format!("{errors} ({})", text::share(share)),
                    None => errors,
                },
            )
        }),
    ];
    // In the order of a report, whichever run they occurred in.
    rows.extend(ErrorCause::all().map(|cause| {
        row(&format!("… {cause}"), &|report| {
            let causes = report.counts.errors_by_cause();
            let found = causes.into_iter().find(|(found, _)| *found == cause);
            found.map(|(_, count)| grouped(count))
        })
    }));
    rows.push(row("bodies", &|report| {
        Some(bytes(report.counts.body_bytes))
    }));
    let codings: BTreeSet<_> = (runs.iter())
        .flat_map(|run| run.report.counts.encoded_bytes.keys().copied())
        .collect();
    rows.extend(codings.into_iter().map(|coding| {
        row(&format!("… as {coding}"), &|report| {
            report.counts.encoded_bytes.get(&coding).copied().map(bytes)
        })
    }));
    rows.push(row("… decoded", &|report| {
        let decoded = report.counts.decoded?;
        Some(format!(
            "{} to {}",
            bytes(decoded.wire_bytes),
            bytes(decoded.bytes)
        ))
    }));
    rows.push(row("… not decodable", &|report| {
        some(report.counts.decoded?.broken)
    }));
    rows
}

/// Returns a number that is only shown if it is not zero.
fn some(count: u64) -> Option<String> {
    (count > 0).then(|| grouped(count))
}

/// Writes a table without the rows that no run has a value for.
fn table(title: &str, rows: &[Row], runs: &[Run], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rows: Vec<&Row> = rows
        .iter()
        .filter(|row| row.cells.iter().any(Option::is_some))
        .collect();
    writeln!(
        f,
        "<section>\n<h2>{title}</h2>\n<div class=\"scroll\"><table>"
    )?;
    if runs.len() > 1 {
        f.write_str("<thead><tr><td></td>")?;
        for run in runs {
            write!(
                f,
                "<th scope=\"col\" class=\"run\">{}</th>",
                Key::line(run.look, &run.name)
            )?;
        }
        writeln!(f, "</tr></thead>")?;
    }
    f.write_str("<tbody>\n")?;
    if rows.is_empty() {
        f.write_str("<tr><th scope=\"row\">nothing</th></tr>\n")?;
    }
    for row in rows {
        write!(f, "<tr><th scope=\"row\">{}</th>", Escaped(&row.name))?;
        for cell in &row.cells {
            write!(f, "<td>{}</td>", Escaped(cell.as_deref().unwrap_or("–")))?;
        }
        writeln!(f, "</tr>")?;
    }
    f.write_str("</tbody></table></div>\n</section>\n")
}

/// Without a rate nothing is scheduled, so there is no lag.
fn lag(report: &Report) -> Spread {
    match report.asked.mode {
        PacingMode::Unpaced => Spread::default(),
        PacingMode::Hold | PacingMode::Under => report.lag,
    }
}

/// A distribution with its name, and its percentiles that were asked for.
type NamedSpread = (&'static str, fn(&Report) -> (Spread, &[Quantile]));

/// Returns the names of the percentiles that any run has, each after those before it in its run.
fn columns(runs: &[Run]) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for run in runs {
        let mut place = 0;
        for (name, _) in run.report.columns(&run.report.response, &[]) {
            match columns.iter().position(|column| *column == name) {
                Some(found) => place = found + 1,
                None => {
                    columns.insert(place, name);
                    place += 1;
                }
            }
        }
    }
    columns
}

/// Writes the distributions, with comparable values below each other.
fn durations(runs: &[Run], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let spreads: [NamedSpread; 3] = [
        ("response", |report| {
            (report.response, &report.percentiles.response)
        }),
        ("service", |report| {
            (report.service, &report.percentiles.service)
        }),
        ("lag", |report| (lag(report), &report.percentiles.lag)),
    ];
    f.write_str("<section class=\"full\">\n<h2>Durations</h2>\n<div class=\"scroll\"><table>\n<thead><tr><td></td>")?;
    if runs.len() > 1 {
        f.write_str("<td></td>")?;
    }
    let columns = columns(runs);
    for name in ["mean"]
        .into_iter()
        .chain(columns.iter().map(String::as_str))
    {
        write!(f, "<th scope=\"col\">{name}</th>")?;
    }
    f.write_str("</tr></thead>\n")?;
    for (name, spread) in spreads {
        f.write_str("<tbody>\n")?;
        for (index, run) in runs.iter().enumerate() {
            f.write_str("<tr>")?;
            if index == 0 {
                write!(
                    f,
                    "<th scope=\"rowgroup\" rowspan=\"{}\">{name}</th>",
                    runs.len()
                )?;
            }
            if runs.len() > 1 {
                write!(
                    f,
                    "<th scope=\"row\" class=\"run\">{}</th>",
                    Key::line(run.look, &run.name)
                )?;
            }
            let (spread, own) = spread(run.report);
            let mean = (spread.samples > 0).then_some(spread.mean);
            let values = run.report.columns(&spread, own);
            let quantiles = columns.iter().map(|column| {
                let found = values.iter().find(|(name, _)| name == column);
                found.and_then(|(_, value)| *value)
            });
            for value in [mean].into_iter().chain(quantiles) {
                let cell = value.map_or("–".to_owned(), duration);
                write!(f, "<td>{cell}</td>")?;
            }
            writeln!(f, "</tr>")?;
        }
        f.write_str("</tbody>\n")?;
    }
    f.write_str("</table></div>\n</section>\n")
}
