//! A report in words, for people; other forms are for programs.

use std::fmt;
use std::time::Duration;

use crate::failure::Failure;
use crate::measurement::Spread;
use crate::report::Report;
use crate::timeline::Slot;
use crate::verdict::Verdict;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self;
        write!(f, "target     {}", report.target)?;
        if report.own_origin {
            f.write_str("  (own server, as no URL was given)")?;
        }
        writeln!(f)?;
        sending(report, f)?;
        writeln!(f)?;
        spreads(report, f)?;
        writeln!(f)?;
        answers(report, f)?;
        verdict(report, f)
    }
}

/// How much was sent, how fast.
fn sending(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let counts = &report.counts;
    // As it was asked for, and in the unit of what was achieved where that differs.
    let asked = report.schedule.to_string();
    write!(f, "rate       asked {asked}")?;
    if let Some(mean) = report.schedule.per_second() {
        let per_second = format!("{}/s", number(mean));
        if report.schedule.constant().is_none() {
            write!(f, "   first to last {per_second}")?;
        } else if asked != per_second {
            write!(f, " = {per_second}")?;
        }
    }
    if let (Some(achieved), Some(error)) = (report.achieved(), report.rate_error()) {
        let intervals = counts.sent - 1;
        let plural = if intervals == 1 { "" } else { "s" };
        let (achieved, error) = (number(achieved), percent(error));
        write!(
            f,
            "   achieved {achieved}/s over {intervals} interval{plural}   error {error}"
        )?;
    }
    write!(
        f,
        "\nsent       {} of {} in {}   up to {} of {} connections busy",
        counts.sent,
        counts.scheduled,
        duration(report.span),
        report.connections.most_busy,
        report.connections.allowed,
    )?;
    if counts.queued > 0 {
        let longest = duration(report.connections.longest_wait);
        write!(f, "   {} waited for one, up to {longest}", counts.queued)?;
    }
    if let Some(why) = report.connections.why_missing {
        write!(f, "   {} did not open: {why}", report.connections.missing)?;
    }
    writeln!(f)?;
    if report.schedule.constant().is_none() {
        by_second(report, f)?;
    }
    Ok(())
}

/// How close each second was to the plan.
fn by_second(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "seconds    {}", as_planned(report))?;
    let furthest = report.timeline.slots().max_by_key(Slot::difference);
    if let Some(slot) = furthest.filter(|slot| slot.difference() > 0) {
        write!(
            f,
            "   furthest off: sent {} of {} from {} s on",
            slot.sent,
            slot.due,
            slot.start.as_secs(),
        )?;
    }
    writeln!(f)
}

/// `60 of 60 seconds within 1 of the plan`
fn as_planned(report: &Report) -> String {
    let slots = || report.timeline.slots();
    let within = slots().filter(|slot| slot.difference() <= 1).count();
    let width = report.timeline.width.as_secs();
    let unit = match width {
        0..=1 => "seconds".to_owned(),
        _ => format!("spans of {width} s"),
    };
    format!(
        "{within} of {} {unit} within 1 of the plan",
        slots().count()
    )
}

/// The table of durations.
fn spreads(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "{:<11}{:>9} {:>9} {:>9} {:>9}",
        "", "p50", "p90", "p99", "max"
    )?;
    let mut row = |name: &str, spread: Spread, meaning: &str| {
        write!(f, "{name:<11}")?;
        for value in [spread.p50, spread.p90, spread.p99, spread.max] {
            let value = if spread.samples == 0 {
                "-".to_owned()
            } else {
                duration(value)
            };
            write!(f, "{value:>9} ")?;
        }
        writeln!(f, "  {meaning}")
    };
    row("lag", report.lag, "sent - due: how late the client was")?;
    row("response", report.response, "answered - due")?;
    row(
        "service",
        report.service,
        "answered - sent: the server and the way there",
    )
}

/// What came back.
fn answers(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let statuses = &report.counts.statuses;
    write!(
        f,
        "status     2xx {}   3xx {}   4xx {}   5xx {}   limited {} (429, 503)",
        statuses.success,
        statuses.redirection,
        statuses.client_error,
        statuses.server_error,
        statuses.limited,
    )?;
    if statuses.informational > 0 {
        write!(f, "   1xx {}", statuses.informational)?;
    }
    if statuses.other > 0 {
        write!(f, "   other {}", statuses.other)?;
    }
    f.write_str("\nerrors     ")?;
    let mut is_first = true;
    let mut item = |f: &mut fmt::Formatter<'_>, count: u64, what: &dyn fmt::Display| {
        if count == 0 {
            return Ok(());
        }
        let gap = if is_first { "" } else { "   " };
        is_first = false;
        write!(f, "{gap}{count} {what}")
    };
    for failure in Failure::ALL {
        let count = report.counts.failures.get(&failure).copied();
        item(f, count.unwrap_or(0), &failure)?;
    }
    item(f, report.counts.unanswered, &"unanswered at the end")?;
    writeln!(f, "{}", if is_first { "none" } else { "" })
}

/// The last line: did it work?
fn verdict(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match report.verdict() {
        Verdict::Held => {
            let thresholds = report.thresholds();
            f.write_str("verdict    HELD: all sent, ")?;
            match report.rate_error() {
                _ if report.schedule.constant().is_none() => {
                    f.write_str(&as_planned(report))?;
                }
                Some(_) => write!(f, "rate within {} %", thresholds.rate_error * 100.0)?,
                None => f.write_str("too few for a rate")?,
            }
            writeln!(f, ", lag p99 at most {}", brief(thresholds.lag_p99))
        }
        Verdict::NotHeld(causes) => {
            f.write_str("verdict    NOT HELD: ")?;
            for (index, cause) in causes.iter().enumerate() {
                let gap = if index == 0 { "" } else { "; " };
                write!(f, "{gap}{cause}")?;
            }
            writeln!(f)
        }
    }
}

/// A duration to three digits in the unit that suits it: `6.12 µs`, `41.0 ms`, `5.00 s`.
pub(crate) fn duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos < 1_000 {
        return format!("{nanos} ns");
    }
    let nanos = nanos as f64;
    // Each limit is where three digits would round up to the next unit's 1.00.
    let (value, unit) = match nanos {
        n if n < 999.5e3 => (n / 1e3, "µs"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// The same without zeros at its end, for sentences: `1 ms`, `3.1 ms`.
pub(crate) fn brief(length: Duration) -> String {
    let text = duration(length);
    let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {unit}", without_trailing_zeros(value))
}

/// A fraction as a signed percentage to a ten-thousandth of a percent.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:+.4} %", fraction * 100.0)
}

/// A rate to seven significant digits, without zeros at its end.
fn number(value: f64) -> String {
    let whole_digits = value.abs().max(1e-9).log10().floor() as i32 + 1;
    let decimals = usize::try_from(7 - whole_digits).unwrap_or(0);
    without_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}
