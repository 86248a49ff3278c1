//! The number in a limiter that keeps a wish, and the numbers that were tried.

use std::fmt::Write;
use std::time::Duration;

use flowgate_chart::{
    Axis, Chart, Escaped, Figure, Key, Layer, Look, Picture, Point, Unit, duration, grouped,
};
use flowgate_sim::{Suggestion, Wish};
use serde::Serialize;

use super::comparison::{Description, nanos};
use super::rows::seconds;
use super::text::printable;
use super::{Report, TextStyle, html, json};

/// What came of runs with several numbers.
#[derive(Debug, Serialize)]
pub(crate) struct SuggestionReport {
    title: String,
    scenario: String,
    seed: u64,
    /// How long requests arrived.
    duration_ns: u64,
    /// The limiter, with an `N` in place of the number.
    limiter: String,
    #[serde(serialize_with = "as_text")]
    wish: Wish,
    /// The number that keeps the wish, if there is one.
    n: Option<u64>,
    /// Whether no number beyond one that fails keeps the wish.
    is_monotone: bool,
    /// Whether the numbers next to it were tried.
    is_settled: bool,
    tried: Vec<Tried>,
}

#[derive(Debug, Serialize)]
struct Tried {
    n: u64,
    /// A share, seconds, or a number per second.
    measured: f64,
    is_kept: bool,
}

fn as_text<S: serde::Serializer>(wish: &Wish, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(wish)
}

impl SuggestionReport {
    pub(crate) fn new(
        description: Description,
        duration: Duration,
        limiter: String,
        wish: Wish,
        found: &Suggestion,
    ) -> SuggestionReport {
        let tried = found.tried.iter().map(|tried| Tried {
            n: tried.value,
            measured: tried.measured,
            is_kept: tried.is_kept,
        });
        SuggestionReport {
            title: description.title,
            scenario: description.scenario,
            seed: description.seed,
            duration_ns: nanos(duration),
            limiter,
            wish,
            n: found.value,
            is_monotone: found.is_monotone,
            is_settled: found.is_settled,
            tried: tried.collect(),
        }
    }

    /// What the wish is about: `refused`, `p99`.
    fn subject(&self) -> String {
        let wish = self.wish.to_string();
        wish.split(' ').next().unwrap_or_default().to_owned()
    }

    /// What was found, in lines.
    fn findings(&self) -> Vec<String> {
        let which = match self.wish {
            Wish::LatencyAtMost { .. } => "largest",
            _ => "smallest",
        };
        let tried = |pick: fn(&[Tried]) -> Option<&Tried>| pick(&self.tried).map_or(0, |one| one.n);
        let (first, last) = (tried(<[_]>::first), tried(<[_]>::last));
        let mut findings = vec![match self.n {
            Some(n) => format!("N = {n}, the {which} that keeps it"),
            None => format!("no N from {first} to {last} keeps it"),
        }];
        if !self.is_monotone {
            findings.push(
                "smaller and larger N keep it and fail in turns; look at the list".to_owned(),
            );
        }
        if !self.is_settled && self.n.is_some() {
            findings.push("the search was cut short: an N nearby may be better".to_owned());
        }
        findings
    }

    fn measured(&self, value: f64) -> String {
        match self.wish {
            Wish::LatencyAtMost { .. } => duration(Duration::from_secs_f64(value)),
            Wish::GoodputAtLeast(_) => format!("{value:.1}/s"),
            _ => format!("{:.2} %", value * 100.0),
        }
    }

    /// What each number gave, and the line that the wish draws.
    fn curve(&self) -> Chart {
        let (scale, wished, name) = match self.wish {
            Wish::LatencyAtMost { limit, .. } => (1e9, limit.as_secs_f64(), "latency"),
            Wish::GoodputAtLeast(rate) => (1.0, rate, "per second"),
            Wish::RefusedAtMost(share) | Wish::InTimeAtLeast(share) => (100.0, share.get(), "in %"),
            _ => (1.0, f64::NAN, ""),
        };
        let points = self.tried.iter().map(|tried| {
            let kept = if tried.is_kept { "kept" } else { "not kept" };
            let measured = self.measured(tried.measured);
            Point::new(tried.n as f64, tried.measured * scale)
                .text(format!("N = {}: {measured}, {kept}", grouped(tried.n)))
        });
        let points: Vec<Point> = points.collect();
        let ends = [points.first(), points.last()].into_iter().flatten();
        let wished: Vec<Point> = ends
            .map(|end| Point::new(end.x(), wished * scale))
            .collect();
        let (lowest, highest) = match &wished[..] {
            [first, last] => (first.x(), last.x()),
            _ => (1.0, 10.0),
        };
        let measured = points.iter().chain(&wished).map(Point::y);
        let y = match self.wish {
            Wish::LatencyAtMost { .. } => Axis::durations(measured),
            Wish::GoodputAtLeast(_) => Axis::from_zero(Unit::Rate, measured),
            _ => Axis::from_zero(Unit::Count, measured),
        };
        let x = Axis::log(Unit::Count, lowest, highest);
        Chart::new("tried", self.subject(), x, y)
            .names("N", format!("{}, {name}", self.subject()))
            .layer(Layer::line("wish", Look::GRAY, [wished]))
            .layer(Layer::dots("tried", Look::BLUE, [points]))
            .wide()
    }

    fn heading(&self) -> String {
        format!("{}: {}", self.limiter, self.wish)
    }
}

impl Report for SuggestionReport {
    fn to_text(&self, style: TextStyle) -> String {
        let mut text = format!(
            "{}\n{} of traffic, seed {}\n\n{}\n",
            style.bold(&printable(&self.title)),
            seconds(self.duration_ns),
            self.seed,
            printable(&self.heading()),
        );
        for finding in self.findings() {
            text = text + &finding + "\n";
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{:>9}   {:>12}", "N", self.subject());
        for tried in &self.tried {
            let kept = if tried.is_kept { "   kept" } else { "" };
            let measured = self.measured(tried.measured);
            let _ = writeln!(text, "{:>9}   {measured:>12}{kept}", tried.n);
        }
        text
    }

    fn to_html(&self) -> String {
        let mut table = format!(
            "<section>\n<h2>{}</h2>\n<p>{}</p>\n<div class=\"scroll\"><table>\n\
             <thead><tr><th scope=\"col\">N</th><th scope=\"col\">{}</th><td></td></tr></thead>\n<tbody>\n",
            Escaped(&self.heading()),
            self.findings().join("<br/>\n"),
            Escaped(&self.subject()),
        );
        for tried in &self.tried {
            let kept = if tried.is_kept { "kept" } else { "" };
            let (n, measured) = (grouped(tried.n), self.measured(tried.measured));
            let _ = writeln!(
                table,
                "<tr><th scope=\"row\">{n}</th><td>{measured}</td><td>{kept}</td></tr>"
            );
        }
        table.push_str("</tbody></table></div>\n</section>\n");
        let legend = [
            Key::line(Look::BLUE, "tried"),
            Key::line(Look::GRAY, "wish"),
        ];
        let figure = Figure::new(
            "Numbers that were tried",
            format!(
                "{} of traffic, seed {}. Each dot is a run of the same traffic.",
                seconds(self.duration_ns),
                self.seed
            ),
        )
        .keys(legend.map(|key| key.to_string()).join(" "))
        .charts([self.curve()]);
        html::with_scenario(&self.title, &table, &figure.to_string(), &self.scenario)
    }

    fn picture(&self) -> Picture {
        Picture::new(self.heading()).chart(self.curve())
    }

    fn to_json(&self) -> String {
        json::written(self)
    }

    fn to_csv(&self) -> String {
        let mut csv = String::from("n,measured,is_kept\r\n");
        for tried in &self.tried {
            let _ = write!(csv, "{},{},{}\r\n", tried.n, tried.measured, tried.is_kept);
        }
        csv
    }
}
