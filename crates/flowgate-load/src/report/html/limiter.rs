//! Findings about a rate limiter as a page for a browser.

use std::fmt;

use flowgate_chart::{
    Axis, Chart, Escaped, Figure, Key, Layer, Look, Point, Unit, keys, significant,
};
use flowgate_verify::{DetectedKind, ExpectedVerdict, Findings, SeenSlot, Steady};

use super::document;
use crate::target::Target;

/// Number of points of the curve of the allowed number.
const PARTS: u32 = 96;
/// Maximum number of dots of a chart; of more, some are omitted.
const DOTS: usize = 200;
/// Shorter intervals, in seconds, are drawn at this length, because zero has no position on a log axis.
const SHORTEST: f64 = 1e-6;
const NANOS: f64 = 1e9;

/// Returns one page of HTML about the rate limiter at `target`.
///
/// The page is a single file that loads nothing and runs no script. It contains, from the top:
///
/// - the detected algorithm, and whether it matches the expected limit
/// - the report as a table
/// - what was admitted and refused over time, with the detected rate
/// - the *envelope*: the most requests admitted in any interval, by its length, with the allowed number
/// - the admitted rate of steady streams
///
/// Its size is at most 150 KB.
///
/// # Examples
///
/// ```
/// use flowgate_load::{Target, html};
/// use flowgate_verify::{Investigation, Simulated};
///
/// // A limiter in the same process that admits every request.
/// let mut limiter = Simulated::new(|_| true.into());
/// let Ok(findings) = Investigation::new().run(&mut limiter, &mut |_| {});
/// let page = html::limiter_page(&Target::parse("http://localhost:8080/")?, &findings);
/// assert!(page.starts_with("<!DOCTYPE html>") && page.contains("http://localhost:8080/"));
/// assert!(page.len() < 150_000);
/// # Ok::<(), flowgate_load::TargetError>(())
/// ```
pub fn limiter_page(target: &Target, findings: &Findings) -> String {
    let target = target.to_string();
    let title = format!("{target}: {}", findings.detected.kind);
    let content = format!(
        "<header>\n<p class=\"product\">flowgate verify</p>\n<h1>{}</h1>\n</header>\n\
        <div class=\"verdicts\">\n{}</div>\n\
        <div class=\"figures\">\n{}{}{}</div>\n",
        Escaped(&target),
        Judged(findings),
        over_time(findings),
        envelope(findings),
        steady(&findings.steady),
    );
    document(&title, "flowgate verify", &content)
}

/// The detected algorithm, the verdict, and the report.
struct Judged<'a>(&'a Findings);

impl fmt::Display for Judged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.0;
        let kind = findings.detected.kind.to_string();
        let (class, word) = match findings.expected.as_ref().map(|expected| &expected.verdict) {
            Some(ExpectedVerdict::Consistent) => ("good", "✓ CONSISTENT"),
            Some(ExpectedVerdict::Differs(_)) => ("bad", "✗ DIFFERS"),
            Some(ExpectedVerdict::Undecided(_)) => ("plain", "– UNDECIDED"),
            None if !findings.defects.is_empty() => ("bad", "✗ DEFECTS"),
            None => ("plain", "–"),
        };
        writeln!(
            f,
            "<article class=\"{class}\">\n<p class=\"asked\"><strong class=\"word\">{word}</strong> \
             <span>algorithm: {}</span></p>",
            Escaped(&kind)
        )?;
        if let Some(judged) = &findings.expected {
            writeln!(
                f,
                "<p>expected limit: {}</p>",
                Escaped(&judged.limit.to_string())
            )?;
            match &judged.verdict {
                ExpectedVerdict::Differs(why) => {
                    f.write_str("<ul>\n")?;
                    for why in why {
                        writeln!(f, "<li>{}</li>", Escaped(why))?;
                    }
                    f.write_str("</ul>\n")?;
                }
                ExpectedVerdict::Undecided(why) => writeln!(f, "<p>{}</p>", Escaped(why))?,
                ExpectedVerdict::Consistent => {}
            }
        }
        f.write_str("<div class=\"scroll\"><table class=\"lines\"><tbody>\n")?;
        for (label, text) in findings.lines() {
            writeln!(
                f,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                Escaped(label),
                Escaped(&text)
            )?;
        }
        writeln!(
            f,
            "</tbody></table></div>\n<p class=\"limits\">{} requests in {} s: {} admitted, {} failed</p>\n</article>",
            findings.requests,
            significant(findings.seconds, 3),
            findings.admitted,
            findings.failed,
        )
    }
}

/// What was admitted and offered over time, with the detected rate.
fn over_time(findings: &Findings) -> Figure {
    let slots = &findings.slots;
    let end = slots.last().map_or(1.0, |slot| slot.at + slot.seconds);
    let rates = |count: fn(&SeenSlot) -> u64| -> Vec<Point> {
        let points = slots.iter().map(|slot| {
            let text = format!(
                "{} admitted, {} refused from {} s on",
                slot.admitted,
                slot.refused,
                significant(slot.at, 3)
            );
            Point::new(slot.at, count(slot) as f64 / slot.seconds).text(text)
        });
        points.collect()
    };
    let offered = rates(|slot| slot.admitted + slot.refused);
    let x = Axis::time(end);
    let y = Axis::from_zero(Unit::Rate, offered.iter().map(Point::y));
    let mut layers = vec![
        Layer::area("refused", Look::GRAY, [offered]).stepped(),
        Layer::line("admitted", Look::BLUE, [rates(|slot| slot.admitted)]).stepped(),
    ];
    let mut lines = vec![(Look::BLUE, "admitted")];
    if let Some(detected) = Allowed::of_detected(findings) {
        let level = [0.0, end].map(|at| Point::new(at, detected.per_second));
        layers.push(Layer::line("detected rate", Look::GREEN, [level.to_vec()]));
        lines.push((Look::GREEN, "detected rate"));
    }
    let mut chart = Chart::new("course", "Admitted and refused over time", x, y)
        .names("time since the start", "per second")
        .empty_text("no requests were sent");
    if !slots.is_empty() {
        chart = chart.layers(layers);
    }
    Figure::new(
        "Over time: admitted and refused",
        "Requests per second, in slots of equal length. The gray area above the line was refused. Bursts are above the \
            detected rate.",
    )
    .keys(format!(
        "{} {}",
        keys(lines.into_iter()),
        Key::area(Look::GRAY, "refused")
    ))
    .charts([chart])
}

/// The most requests admitted in any interval, with the allowed number.
fn envelope(findings: &Findings) -> Figure {
    let points = thinned(&findings.envelope);
    let allowed = Allowed::of(findings);
    let nanos = |length: f64| length.max(SHORTEST) * NANOS;
    let lengths = points.iter().map(|point| nanos(point.interval));
    let longest = lengths.clone().fold(0.0, f64::max);
    let x = match longest > 0.0 {
        true => Axis::log(Unit::Nanos, lengths.fold(f64::INFINITY, f64::min), longest),
        false => Axis::log(Unit::Nanos, 1e6, 1e9),
    };
    let most = points.iter().map(|point| point.admitted as f64);
    let limit = allowed.map(|allowed| allowed.within(longest / NANOS));
    let y = Axis::log(Unit::Count, 1.0, most.chain(limit).fold(10.0, f64::max));
    let mut layers = Vec::new();
    if let Some(allowed) = allowed.filter(|_| !points.is_empty()) {
        let lengths = x
            .sampled(PARTS)
            .filter(|length| *length < longest)
            .chain([longest]);
        let points = lengths
            .map(|length| Point::new(length, allowed.within(length / NANOS)))
            .collect();
        layers.push(Layer::area("allowed", Look::GRAY, [points]));
    }
    let dots = points.iter().map(|point| {
        Point::new(nanos(point.interval), point.admitted as f64).text(format!(
            "{} in {}",
            Unit::Count.exact(point.admitted as f64),
            Unit::Nanos.exact(point.interval * NANOS)
        ))
    });
    layers.push(Layer::dots("admitted", Look::BLUE, [dots.collect()]));
    let allowed_key = match allowed {
        Some(_) => Key::area(Look::GRAY, "allowed").to_string(),
        None => String::new(),
    };
    let chart = Chart::new("envelope", "The most admitted in any interval", x, y)
        .names("length of the interval", "admitted")
        .layers(layers)
        .empty_text("too few requests were admitted");
    Figure::new(
        "Envelope: the most admitted in any interval",
        "Each dot is the most requests that were certainly admitted in an interval of that length. The shaded area is \
            burst + rate × length: of the expected limit or, without one, of the detected limit. A fixed window can admit \
            twice its limit across a boundary.",
    )
    .keys(format!(
            "{} {allowed_key}",
            keys([(Look::BLUE, "admitted")].into_iter())
        ))
    .charts([chart])
}

/// The admitted rate of steady streams.
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
    let mut chart = Chart::new("steady", "Admitted rate by offered rate", x, y)
        .names("offered per second", "admitted per second")
        .empty_text("no steady streams were sent");
    if !streams.is_empty() {
        chart = chart.layers(layers);
    }
    Figure::new(
        "Steady streams: admitted rate by offered rate",
        "Each dot is a stream of requests at constant intervals. Up to the limit, all are admitted. Beyond it, \
            the admitted rate of a correct limiter stays level.",
    )
    .keys(keys([(Look::BLUE, "admitted"), (Look::GRAY, "offered")].into_iter()))
    .charts([chart])
}

/// A burst, and a rate per second.
#[derive(Clone, Copy)]
struct Allowed {
    burst: f64,
    per_second: f64,
}

impl Allowed {
    fn of(findings: &Findings) -> Option<Allowed> {
        if let Some(judged) = &findings.expected {
            let quota = judged.limit.quota;
            return Some(Allowed {
                burst: quota.max_burst() as f64,
                per_second: quota.count() as f64 / quota.period().as_secs_f64(),
            });
        }
        Self::of_detected(findings)
    }

    fn of_detected(findings: &Findings) -> Option<Allowed> {
        let detected = &findings.detected;
        match detected.kind {
            DetectedKind::Unlimited | DetectedKind::Unknown | DetectedKind::Delays => None,
            _ => Some(Allowed {
                burst: detected.burst?.value,
                per_second: detected.rate?.value,
            }),
        }
    }

    fn within(self, seconds: f64) -> f64 {
        self.burst + self.per_second * seconds
    }
}

/// Returns at most [`DOTS`] points, including the last one.
fn thinned<T>(points: &[T]) -> Vec<&T> {
    let step = points.len().div_ceil(DOTS).max(1);
    let last = points
        .last()
        .filter(|_| !(points.len() - 1).is_multiple_of(step));
    points.iter().step_by(step).chain(last).collect()
}
