//! A report as text.

use std::fmt;
use std::time::Duration;

use flowgate_chart::{bytes, duration, significant};

use crate::report::{PacingMode, Report};
use crate::spread::{Quantile, Spread};
use crate::timeline::Slot;
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
    let seconds = seconds(report).into_iter();
    let furthest = seconds.max_by_key(|(_, slot)| slot.difference());
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
    let mut slots = seconds(report);
    slots.retain(|(_, slot)| slot.scheduled + slot.sent > 0);
    let within = slots
        .iter()
        .filter(|(_, slot)| slot.difference() <= 1)
        .count();
    let width = report.timeline.width.as_secs();
    let unit = match width {
        0..=1 => "seconds".to_owned(),
        _ => format!("intervals of {width} s"),
    };
    format!(
        "{within} of {} {unit} within 1 of the schedule",
        slots.len()
    )
}

/// Returns the timeline in slots of at least a second, with their starts.
fn seconds(report: &Report) -> Vec<(Duration, Slot)> {
    let width = report.timeline.width.max(Duration::from_nanos(1));
    let joined = Duration::from_secs(1).as_nanos() / width.as_nanos();
    let joined = usize::try_from(joined).unwrap_or(usize::MAX).max(1);
    let starts = report.timeline.starts().map(|(start, _)| start);
    let groups = report.timeline.slots.chunks(joined).map(Slot::joined);
    starts.step_by(joined).zip(groups).collect()
}

/// Writes the table of durations.
fn spreads(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:<10}", "")?;
    for (name, _) in report.columns(&report.response, &[]) {
        write!(f, " {name:>9}")?;
    }
    writeln!(f)?;
    let mut row = |name: &str, spread: Spread, own: &[Quantile]| {
        write!(f, "{name:<10}")?;
        for (_, value) in report.columns(&spread, own) {
            let value = value.map_or("-".to_owned(), duration);
            write!(f, " {value:>9}")?;
        }
        writeln!(f)
    };
    if report.asked.mode != PacingMode::Unpaced {
        row("lag", report.lag, &report.percentiles.lag)?;
    }
    row("response", report.response, &report.percentiles.response)?;
    if report.asked.mode != PacingMode::Unpaced {
        row("service", report.service, &report.percentiles.service)?;
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
    writeln!(f)?;
    encoded(report, f)?;
    f.write_str("errors     ")?;
    let causes = report.counts.errors_by_cause();
    if causes.is_empty() {
        f.write_str("none")?;
    }
    for (index, (cause, count)) in causes.into_iter().enumerate() {
        let gap = if index == 0 { "" } else { "   " };
        write!(f, "{gap}{count} {cause}")?;
    }
    writeln!(f)
}

/// Writes how many bytes were compressed, if any or if they were asked for.
fn encoded(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let counts = &report.counts;
    let compressed: u64 = counts.encoded_bytes.values().sum();
    if compressed == 0 && counts.decoded.is_none() {
        return Ok(());
    }
    f.write_str("bodies     ")?;
    for (coding, size) in &counts.encoded_bytes {
        write!(f, "{} {coding}   ", bytes(*size))?;
    }
    writeln!(
        f,
        "{} not compressed",
        bytes(counts.body_bytes.saturating_sub(compressed))
    )?;
    if let Some(decoded) = counts.decoded.filter(|_| compressed > 0) {
        let [from, to] = [decoded.wire_bytes, decoded.bytes].map(bytes);
        write!(f, "           {} decoded, {from} to {to}", decoded.bodies)?;
        for (count, what) in [
            (decoded.broken, "could not be decoded"),
            (decoded.skipped, "were not decoded"),
        ] {
            if count > 0 {
                write!(f, "   {count} {what}")?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
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
                Some(_) => write!(f, "rate within {}", share(thresholds.rate_error))?,
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
        Verdict::TooManyErrors(causes) => {
            listed(&causes, f)?;
            match load_was(report) {
                Some(kept) => writeln!(f, "; {kept}"),
                None => writeln!(f),
            }
        }
        Verdict::RateNotHeld(causes) | Verdict::RateLimitNotKept(causes) => {
            listed(&causes, f)?;
            if let [Cause::Lag { .. }] = causes[..] {
                f.write_str("\n           the client was late: this machine was busy, or stalled")?;
            }
            writeln!(f)
        }
    }
}

fn listed(causes: &[Cause], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, cause) in causes.iter().enumerate() {
        let gap = if index == 0 { "" } else { "; " };
        write!(f, "{gap}{cause}")?;
    }
    Ok(())
}

/// Returns how the load was, in a run that only had too many errors.
pub(super) fn load_was(report: &Report) -> Option<&'static str> {
    match report.asked.mode {
        PacingMode::Hold => Some("the rate was held"),
        PacingMode::Under => Some("the rate limit was kept"),
        PacingMode::Unpaced => None,
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

/// Formats a share as a percentage with up to three digits: `0.1 %`, `5.26 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 3))
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
