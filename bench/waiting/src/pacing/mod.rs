//! One task in a loop, which asks a limiter of burst 1 for slot after slot: how many does it get, and
//! how evenly?

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

mod flowgate;
mod peers;
pub(crate) mod recorder;
pub(crate) mod releases;
mod subject;

use self::releases::{Ask, Pace, Releases};
use self::subject::Subject;
use crate::runtime::Flavour;
use crate::{OURS, Verdict, chosen, cpu};

/// Asked for, per second.
const RATES: [u32; 3] = [100, 1_000, 10_000];

/// One subject at one rate under one runtime.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub flavour: Flavour,
    pub rate: u32,
    pub span_s: f64,
    pub pace: Pace,
    pub raw: f64,
    pub kept: f64,
    /// Processor time of the whole process meanwhile.
    pub cpu_s: f64,
    /// Burst, by its own settings.
    pub burst: u64,
    /// Proofs that it let more go than burst + rate · t.
    pub findings: Vec<String>,
}

/// The names of all that can be measured.
pub fn subjects() -> Vec<&'static str> {
    all().iter().map(|subject| subject.name).collect()
}

fn all() -> Vec<Subject> {
    let mut subjects = peers::all();
    subjects.extend(flowgate::all());
    subjects
}

/// Measures every subject for `span` at every rate.
///
/// The subjects run in sequence, and each rate starts with another one.
///
/// # Errors
///
/// Returns a message if a runtime cannot be started, or a caller ended early.
pub fn measure(span: Duration, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut subjects = all();
    subjects.retain(|subject| chosen(subject.name, only));
    let mut rows = Vec::new();
    for rate in RATES {
        let ask = Ask { rate, span };
        for flavour in Flavour::ALL {
            for subject in &subjects {
                rows.push(row(subject, flavour, ask)?);
            }
            let another_first = 1.min(subjects.len());
            subjects.rotate_left(another_first);
        }
    }
    // As they are listed, whoever began.
    rows.sort_by_key(|row| (row.rate, row.flavour as u8, position(row.subject)));
    Ok(rows)
}

fn position(subject: &str) -> usize {
    let mut names = subjects().into_iter();
    names.position(|name| name == subject).unwrap_or(usize::MAX)
}

fn row(subject: &Subject, flavour: Flavour, ask: Ask) -> Result<Row, String> {
    let runtime = flavour.build()?;
    let turn = (subject.turn)(ask);
    // As a task of its own: what `block_on` is given runs outside the workers.
    let (releases, cpu) = cpu::during(|| runtime.block_on(async { tokio::spawn(turn).await }));
    let releases: Releases = releases.map_err(|error| format!("{}: {error}", subject.name))?;
    let (pace, burst) = (releases.pace(), (subject.burst)(ask));
    Ok(Row {
        subject: subject.name,
        flavour,
        rate: ask.rate,
        span_s: ask.span.as_secs_f64(),
        pace,
        raw: pace.raw(),
        kept: pace.kept(),
        cpu_s: cpu.as_secs_f64(),
        burst,
        findings: releases.findings(burst),
    })
}

/// A table per rate and runtime.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some((row.rate, row.flavour)) {
            heading = Some((row.rate, row.flavour));
            let (rate, span, flavour) = (row.rate, row.span_s, row.flavour.name());
            let _ = writeln!(
                text,
                "\n{rate}/s for {span} s, one task in a loop; {flavour}"
            );
            let _ = writeln!(
                text,
                "  {:<26} {:>9} {:>8} {:>7} {:>8} {:>9} {:>9} {:>9} {:>8} {:>7}",
                "",
                "granted",
                "raw %",
                "stalls",
                "kept %",
                "err p50",
                "err p99",
                "err max",
                "most/s",
                "CPU s"
            );
        }
        let Pace {
            granted,
            stalls,
            error_us,
            most_in_a_second,
            ..
        } = row.pace;
        let _ = writeln!(
            text,
            "  {:<26} {granted:>9} {:>8.2} {stalls:>7} {:>8.2} {:>9.1} {:>9.1} {:>9.1} \
             {most_in_a_second:>8} {:>7.3}{}{}",
            row.subject,
            100.0 * row.raw,
            100.0 * row.kept,
            error_us.p50,
            error_us.p99,
            error_us.max,
            row.cpu_s,
            if row.burst == 1 {
                String::new()
            } else {
                format!("  burst {}", row.burst)
            },
            if row.findings.is_empty() {
                ""
            } else {
                "  OVER THE RATE"
            },
        );
    }
    text.push_str(
        "err: |interval - period| in us; kept: of the slots that no stall of two periods lost; OVER THE \
         RATE: no choice\nof instants between asking and returning keeps burst + rate * t\n",
    );
    text
}

/// The goals for ours, each judged by the worst of its cases.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let ours = |rate| {
        rows.iter()
            .filter(move |row| is_ours(row) && row.rate == rate)
    };
    let mut verdicts = Vec::new();
    for (rate, most_us) in [(100, 10.0), (1_000, 3.0), (10_000, 3.0)] {
        let least = |share: fn(&Row) -> f64| {
            let shares = ours(rate).map(|row| 100.0 * share(row));
            shares.reduce(f64::min)
        };
        let kept = format!("at least 99.9 % of the slots not lost to a stall; {rate}/s");
        let raw = format!("at least 99 % of all slots; {rate}/s");
        let error = format!("median error of the interval at most {most_us} us; {rate}/s");
        let medians = ours(rate).map(|row| row.pace.error_us.p50);
        verdicts.extend([
            Verdict::at_least(kept, least(|row| row.kept), 99.9, " %"),
            Verdict::at_least(raw, least(|row| row.raw), 99.0, " %"),
            Verdict::at_most(error, medians.reduce(f64::max), most_us, " us"),
        ]);
    }
    if rows.iter().any(is_ours) {
        verdicts.push(Verdict::nothing(
            "never above the promise, by what was seen and by the dates of the grants".to_owned(),
            &broken(rows),
        ));
    }
    verdicts
}

/// Where ours let more go than was promised.
pub fn broken(rows: &[Row]) -> Vec<String> {
    let ours = rows.iter().filter(|row| is_ours(row));
    let findings = ours.flat_map(|row| {
        let findings = row.findings.iter();
        findings.map(move |finding| format!("{} at {}/s, {finding}", row.subject, row.rate))
    });
    findings.collect()
}

fn is_ours(row: &Row) -> bool {
    row.subject.starts_with(OURS)
}
