//! A report as text.

use std::fmt;
use std::time::Duration;

use flowgate_chart::duration;

use crate::failure::Failure;
use crate::report::{PacingMode, Report};
use crate::spread::Spread;
use crate::verdict::{Cause, Verdict};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self;
        write!(f, "target     {}", printable(&report.target))?;
        if report.own_origin {
            f.write_str("  (built-in test server)")?;
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

/// Replaces control characters. A report from a file may contain any, and a terminal would obey them.
fn printable(text: &str) -> String {
    let printable = |letter: char| match letter.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    text.chars().map(printable).collect()
}

/// Writes how much was sent, and how fast.
fn sending(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (asked, counts) = (&report.asked, &report.counts);
    write!(f, "rate       asked {}", printable(&asked.text))?;
    // In the unit of the achieved rate, if it differs.
    if let Some(mean) = asked.per_second {
        let per_second = format!("{}/s", number(mean));
        if asked.mode == PacingMode::Hold && !asked.is_constant {
            write!(f, "   first to last {per_second}")?;
        } else if !asked.text.contains(&per_second) {
            write!(f, " = {per_second}")?;
        }
    }
    if let Some(achieved) = report.achieved() {
        let intervals = counts.sent - 1;
        let plural = if intervals == 1 { "" } else { "s" };
        let achieved = number(achieved);
        write!(
            f,
            "\nachieved   {achieved}/s over {intervals} interval{plural}"
        )?;
        match report.rate_error() {
            // With bursts, a few requests do not show the rate.
            Some(_) if asked.mode == PacingMode::Under && asked.burst_may_come() => {}
            Some(error) if asked.mode == PacingMode::Under => write!(f, "   {}", percent(error))?,
            Some(error) => write!(f, "   error {}", percent(error))?,
            None => {}
        }
    }
    write!(f, "\nsent       {}", counts.sent)?;
    if let Some(scheduled) = counts.scheduled {
        write!(f, " of {scheduled}")?;
    }
    let used = &report.connections;
    let (busy, allowed) = (used.most_busy, used.allowed);
    write!(
        f,
        " in {}   up to {busy} of {allowed}",
        duration(report.span)
    )?;
    match used.connections == allowed {
        true => f.write_str(" connections busy")?,
        false => write!(f, " in flight on {} connections", used.connections)?,
    }
    if counts.queued > 0 {
        let longest = duration(used.longest_wait);
        let queued = counts.queued;
        write!(
            f,
            "\n           {queued} waited for a connection, up to {longest}"
        )?;
    }
    if counts.skipped > 0 {
        write!(f, "\n           {} skipped as late", counts.skipped)?;
    }
    if counts.resent > 0 {
        write!(
            f,
            "\n           {} resent, because the server had not processed them",
            counts.resent
        )?;
    }
    if let Some(why) = used.why_missing {
        write!(f, "\n           {} did not open: {why}", used.missing)?;
    }
    writeln!(f)?;
    evenness(report, f)?;
    if asked.mode == PacingMode::Hold && !asked.is_constant {
        by_second(report, f)?;
    }
    Ok(())
}

/// Writes how constant the gaps were.
fn evenness(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let pacing = &report.pacing;
    let Some(smallest) = pacing.smallest_gap else {
        return Ok(());
    };
    f.write_str("pacing     ")?;
    if report.asked.mode != PacingMode::Unpaced {
        let error = pacing.gap_error;
        let (p50, p99) = (brief(error.p50), brief(error.p99));
        write!(f, "gap error p50 {p50}, p99 {p99}   ")?;
    }
    write!(f, "smallest gap {}\n           busiest", brief(smallest))?;
    for (index, busiest) in pacing.busiest.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma} {} {}", brief(busiest.window), busiest.sent)?;
    }
    writeln!(f)
}

/// Writes how close each second was to the schedule.
fn by_second(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "seconds    {}", as_planned(report))?;
    let starts = report.timeline.starts();
    let furthest = starts.max_by_key(|(_, slot)| slot.difference());
    if let Some((start, slot)) = furthest.filter(|(_, slot)| slot.difference() > 0) {
        write!(
            f,
            "\n           largest difference: sent {} of {} scheduled, from {} s",
            slot.sent,
            slot.scheduled,
            start.as_secs(),
        )?;
    }
    writeln!(f)
}

/// `60 of 60 seconds within 1 of the schedule`
fn as_planned(report: &Report) -> String {
    let sends = |slot: &&crate::timeline::Slot| slot.scheduled + slot.sent > 0;
    let slots = || report.timeline.slots.iter().filter(sends);
    let within = slots().filter(|slot| slot.difference() <= 1).count();
    let width = report.timeline.width.as_secs();
    let unit = match width {
        0..=1 => "seconds".to_owned(),
        _ => format!("intervals of {width} s"),
    };
    format!(
        "{within} of {} {unit} within 1 of the schedule",
        slots().count()
    )
}

/// Writes the table of durations.
fn spreads(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:<10}", "")?;
    for (name, _) in report.response.columns() {
        write!(f, " {name:>9}")?;
    }
    writeln!(f)?;
    let mut row = |name: &str, spread: Spread| {
        write!(f, "{name:<10}")?;
        for (_, value) in spread.columns() {
            let value = value.map_or("-".to_owned(), duration);
            write!(f, " {value:>9}")?;
        }
        writeln!(f)
    };
    if report.asked.mode != PacingMode::Unpaced {
        row("lag", report.lag)?;
    }
    row("response", report.response)?;
    if report.asked.mode != PacingMode::Unpaced {
        row("service", report.service)?;
    }
    Ok(())
}

/// Writes the responses.
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
    let is_usual = |code: u16| matches!(code, 200 | 429 | 503);
    let codes = report
        .counts
        .codes
        .iter()
        .filter(|(code, _)| !is_usual(**code));
    let mut codes: Vec<_> = codes.collect();
    codes.sort_by_key(|(code, count)| (std::cmp::Reverse(**count), **code));
    for (index, (code, count)) in codes.into_iter().take(8).enumerate() {
        let gap = if index == 0 {
            "\n           of these "
        } else {
            ", "
        };
        write!(f, "{gap}{count} × {code}")?;
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
    item(f, statuses.client_error, &"answered 4xx")?;
    item(f, statuses.server_error, &"answered 5xx")?;
    item(f, statuses.other, &"answered with a nonstandard status")?;
    for failure in Failure::ALL {
        let count = report.counts.failures.get(&failure).copied();
        item(f, count.unwrap_or(0), &failure)?;
    }
    item(f, report.counts.unanswered, &"unanswered at the end")?;
    writeln!(f, "{}", if is_first { "none" } else { "" })
}

/// Writes the verdict.
fn verdict(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let verdict = report.verdict();
    write!(f, "verdict    {verdict}: ")?;
    match verdict {
        Verdict::RateHeld => {
            let thresholds = report.thresholds();
            f.write_str("all sent, ")?;
            match report.rate_error() {
                _ if !report.asked.is_constant => f.write_str(&as_planned(report))?,
                Some(_) => write!(f, "rate within {} %", thresholds.rate_error * 100.0)?,
                None => f.write_str("too few for a rate")?,
            }
            writeln!(f, ", lag p99 at most {}", brief(thresholds.lag_p99))
        }
        Verdict::RateLimitKept => match (report.asked.guarantee, report.asked.window) {
            (Some(guarantee), _) if guarantee.burst == 1 => {
                writeln!(f, "all gaps at least {}", brief(report.asked.interval))
            }
            (Some(guarantee), _) => writeln!(
                f,
                "never more than {} + {}/s sent",
                guarantee.burst,
                number(guarantee.per_second)
            ),
            (None, Some(window)) => writeln!(
                f,
                "never more than {} sent in any {}",
                window.sends,
                brief(window.span)
            ),
            (None, None) => writeln!(f, "each sent when the limiter allowed it"),
        },
        Verdict::Unpaced => writeln!(f, "no rate was given"),
        Verdict::RateNotHeld(causes) | Verdict::RateLimitNotKept(causes) => {
            for (index, cause) in causes.iter().enumerate() {
                let gap = if index == 0 { "" } else { "; " };
                write!(f, "{gap}{cause}")?;
            }
            if let [Cause::Lag { .. }] = causes[..] {
                f.write_str("\n           the client was late: this machine was busy, or stalled")?;
            }
            writeln!(f)
        }
    }
}

/// Formats a duration without trailing zeros: `1 ms`, `3.1 ms`.
pub(crate) fn brief(length: Duration) -> String {
    let text = duration(length);
    let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {unit}", without_trailing_zeros(value))
}

/// Formats a fraction as a signed percentage with four decimals.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:+.4} %", fraction * 100.0)
}

/// Formats a rate with seven significant digits, without trailing zeros.
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
