//! What was found out of a rate limiter, as a page for a browser.

use std::fmt;

use flowgate_chart::{
    Axis, Chart, Escaped, Figure, Key, Layer, Look, Point, Unit, keys, significant,
};
use flowgate_verify::{Findings, Kind, Steady, Verdict};

use super::document;
use crate::target::Target;

/// Points of the curve of what is allowed.
const PARTS: u32 = 96;
/// The most dots of a chart; of more, some are omitted.
const DOTS: usize = 200;
/// Spans shorter than this many seconds are drawn like it: what happens simultaneously has no place on a log axis.
const SHORTEST: f64 = 1e-6;
const NANOS: f64 = 1e9;

/// One page of HTML about the rate limiter at `target`.
///
/// The page is a single file that loads nothing and runs no script. It has, from the top: what the limiter looks like and
/// whether that is as claimed, all that the text report says, and charts: the *envelope*, which is the most that was
/// admitted in any span of so long, against what is allowed; and what became of even streams.
///
/// Its size is bounded: at most 150 KB, however much was asked.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Target, html};
/// use flowgate_verify::{Investigation, Simulated};
///
/// // One that lets everything through, in process.
/// let mut limiter = Simulated::new(|_| true.into());
/// let Ok(findings) = Investigation::new().run(&mut limiter, &mut |_| {});
/// let page = html::limiter_page(&Target::parse("http://localhost:8080/")?, &findings);
/// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("http://localhost:8080/"));
/// assert!(page.len() < 150_000);
/// # Ok::<(), flowgate_load::TargetError>(())
/// ```
pub fn limiter_page(target: &Target, findings: &Findings) -> String {
    let target = target.to_string();
    let title = format!("{target}: {}", findings.likeness.kind);
    let content = format!(
        "<header>\n<p class=\"product\">flowgate verify</p>\n<h1>{}</h1>\n</header>\n\
        <div class=\"verdicts\">\n{}</div>\n\
        <div class=\"figures\">\n{}{}</div>\n",
        Escaped(&target),
        Judged(findings),
        envelope(findings),
        steady(&findings.steady),
    );
    document(&title, "flowgate verify", &content)
}

/// What it looks like, whether that is as claimed, and the report.
struct Judged<'a>(&'a Findings);

impl fmt::Display for Judged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.0;
        let kind = findings.likeness.kind.to_string();
        let (class, word) = match findings.claim.as_ref().map(|claim| &claim.verdict) {
            Some(Verdict::Consistent) => ("good", "✓ CONSISTENT"),
            Some(Verdict::Differs(_)) => ("bad", "✗ DIFFERS"),
            Some(Verdict::Undecided(_)) => ("plain", "– UNDECIDED"),
            None if !findings.faults.is_empty() => ("bad", "✗ FAULTS"),
            None => ("plain", "–"),
        };
        writeln!(
            f,
            "<article class=\"{class}\">\n<p class=\"asked\"><strong class=\"word\">{word}</strong> \
             <span>looks like: {}</span></p>",
            Escaped(&kind)
        )?;
        if let Some(judged) = &findings.claim {
            writeln!(f, "<p>claimed: {}</p>", Escaped(&judged.claim.to_string()))?;
            match &judged.verdict {
                Verdict::Differs(why) => {
                    f.write_str("<ul>\n")?;
                    for why in why {
                        writeln!(f, "<li>{}</li>", Escaped(why))?;
                    }
                    f.write_str("</ul>\n")?;
                }
                Verdict::Undecided(why) => writeln!(f, "<p>{}</p>", Escaped(why))?,
                Verdict::Consistent => {}
            }
        }
        writeln!(
            f,
            "<pre class=\"scroll\">{}</pre>\n<p class=\"limits\">{} requests in {} s: {} admitted, {} failed</p>\n</article>",
            Escaped(&findings.to_string()),
            findings.requests,
            significant(findings.seconds, 3),
            findings.admitted,
            findings.failed,
        )
    }
}

/// The most that was admitted in any span, against what is allowed.
fn envelope(findings: &Findings) -> Figure {
    let points = thinned(&findings.envelope);
    let allowed = Allowed::of(findings);
    let nanos = |span: f64| span.max(SHORTEST) * NANOS;
    let spans = points.iter().map(|point| nanos(point.span));
    let longest = spans.clone().fold(0.0, f64::max);
    let x = match longest > 0.0 {
        true => Axis::log(Unit::Nanos, spans.fold(f64::INFINITY, f64::min), longest),
        false => Axis::log(Unit::Nanos, 1e6, 1e9),
    };
    let most = points.iter().map(|point| point.admitted as f64);
    let limit = allowed.map(|allowed| allowed.within(longest / NANOS));
    let y = Axis::log(Unit::Count, 1.0, most.chain(limit).fold(10.0, f64::max));
    let mut layers = Vec::new();
    if let Some(allowed) = allowed.filter(|_| !points.is_empty()) {
        let spans = x
            .sampled(PARTS)
            .filter(|span| *span < longest)
            .chain([longest]);
        let points = spans
            .map(|span| Point::new(span, allowed.within(span / NANOS)))
            .collect();
        layers.push(Layer::area("allowed", Look::GRAY, [points]));
    }
    let dots = points.iter().map(|point| {
        Point::new(nanos(point.span), point.admitted as f64).text(format!(
            "{} in {}",
            Unit::Count.exact(point.admitted as f64),
            Unit::Nanos.exact(point.span * NANOS)
        ))
    });
    layers.push(Layer::dots("admitted", Look::BLUE, [dots.collect()]));
    let allowed_key = match allowed {
        Some(_) => Key::area(Look::GRAY, "allowed").to_string(),
        None => String::new(),
    };
    let chart = Chart::new("envelope", "The most admitted in any span", x, y)
        .names("length of the span", "admitted")
        .layers(layers)
        .empty_text("nothing was admitted, or too little");
    Figure::new(
        "Envelope: the most admitted in any span",
        "Each dot is the most that was surely admitted in a span of that length. Shaded is burst + rate · w, \
            by the claim or, without one, by what it looks like. A fixed window admits up to twice its limit across two.",
    )
    .keys(format!(
            "{} {allowed_key}",
            keys([(Look::BLUE, "admitted")].into_iter())
        ))
    .charts([chart])
}

/// What became of even streams.
fn steady(streams: &[Steady]) -> Figure {
    let mut streams: Vec<_> = streams.iter().take(DOTS).collect();
    streams.sort_by(|one, other| one.offered.total_cmp(&other.offered));
    let x = Axis::from_zero(Unit::Rate, streams.iter().map(|stream| stream.offered));
    let y = Axis::from_zero(Unit::Rate, streams.iter().map(|stream| stream.offered));
    let dots = streams.iter().map(|stream| {
        Point::new(stream.offered, stream.admitted).text(format!(
            "{} of {} admitted",
            Unit::Rate.exact(stream.admitted),
            Unit::Rate.exact(stream.offered)
        ))
    });
    let highest = streams.last().map_or(0.0, |stream| stream.offered);
    let layers = vec![
        Layer::line(
            "offered",
            Look::GRAY,
            [vec![Point::new(0.0, 0.0), Point::new(highest, highest)]],
        ),
        Layer::dots("admitted", Look::BLUE, [dots.collect()]),
    ];
    let mut chart = Chart::new("steady", "What was admitted of what was offered", x, y)
        .names("offered per second", "admitted per second")
        .empty_text("no even streams were sent");
    if !streams.is_empty() {
        chart = chart.layers(layers);
    }
    Figure::new(
        "Even streams: what was admitted of what was offered",
        "Each dot is a stream of requests at constant intervals. Up to the rate all are admitted; beyond it a good \
            limiter goes on admitting as many, and the dots go on level.",
    )
    .keys(keys([(Look::BLUE, "admitted"), (Look::GRAY, "offered")].into_iter()))
    .charts([chart])
}

/// A burst, and a number per second.
#[derive(Clone, Copy)]
struct Allowed {
    burst: f64,
    per_second: f64,
}

impl Allowed {
    fn of(findings: &Findings) -> Option<Allowed> {
        if let Some(judged) = &findings.claim {
            let quota = judged.claim.quota;
            return Some(Allowed {
                burst: quota.max_burst() as f64,
                per_second: quota.count() as f64 / quota.period().as_secs_f64(),
            });
        }
        let likeness = &findings.likeness;
        match likeness.kind {
            Kind::Unlimited | Kind::Unknown => None,
            _ => Some(Allowed {
                burst: likeness.burst?.value,
                per_second: likeness.rate?.value,
            }),
        }
    }

    fn within(self, seconds: f64) -> f64 {
        self.burst + self.per_second * seconds
    }
}

/// No more than can be told apart, the last among them.
fn thinned<T>(points: &[T]) -> Vec<&T> {
    let step = points.len().div_ceil(DOTS).max(1);
    let last = points
        .last()
        .filter(|_| !(points.len() - 1).is_multiple_of(step));
    points.iter().step_by(step).chain(last).collect()
}
