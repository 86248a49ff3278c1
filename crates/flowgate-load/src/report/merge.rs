//! Several runs of one schedule, joined to the report of the whole.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use flowgate_chart::duration;

use crate::clock_offset::ClockOffset;
use crate::detail::Detail;
use crate::pacing::Pacing;
use crate::report::{Connections, Curves, Guarantee, Provenance, Report};
use crate::slice::Slice;
use crate::spread::Durations;
use crate::timeline::{Slot, Timeline};

/// The report of one schedule that several machines sent, and what each of them did. `Display` writes both.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use flowgate::Quota;
/// use flowgate_load::{Merged, Origin, Plan, Schedule, Slice, Stop, Target};
///
/// let origin = Origin::start()?;
/// let start_at = SystemTime::now() + Duration::from_secs(2);
/// let slice = |index| {
///     let schedule = Schedule::of(Quota::per_second(1000), 20)?;
///     let mut plan = Plan::new(Target::parse(&origin.url())?, schedule);
///     plan.slice = Some(Slice { index, count: 2, start_at });
///     Ok::<_, Box<dyn std::error::Error>>(plan)
/// };
/// let plans = [slice(1)?, slice(2)?];
/// // Two threads here; usually two machines.
/// let reports = std::thread::scope(|scope| {
///     let runs = plans.map(|plan| scope.spawn(|| flowgate_load::run(plan, &Stop::new())));
///     runs.map(|run| run.join().expect("no panic"))
/// });
/// let [one, other] = reports;
/// let merged = Merged::of(vec![("a".to_owned(), one?), ("b".to_owned(), other?)])?;
/// assert_eq!(merged.report.counts.sent, 20);
/// assert_eq!(merged.report.asked.text, "1000/s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The report of the whole. Distributions are joined, and quantiles are computed from them, never averaged.
    ///
    /// Gaps between the sends of different machines are not known, so `pacing` is empty. In the timeline, percentiles of a
    /// slot are the largest of the machines.
    pub report: Report,
    /// The machines, by slice.
    pub parts: Vec<MergedPart>,
}

/// One of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedPart {
    /// Its name.
    pub name: String,
    /// Its number, 1 to the number of slices.
    pub index: u64,
    /// Requests sent.
    pub sent: u64,
    /// Time of its first send, after the common start by its own clock.
    pub first_sent: Duration,
    /// Clock of the server minus its own, if the responses had dates.
    pub server_clock: Option<ClockOffset>,
    /// 99th percentile of its lag.
    pub lag_p99: Duration,
    /// 99th percentile of its response time.
    pub response_p99: Duration,
}

/// Error of joining reports. `Display` writes one line.
///
/// # Examples
///
/// ```
/// use flowgate_load::Merged;
///
/// let error = Merged::of(Vec::new()).unwrap_err();
/// assert_eq!(error.to_string(), "no report: write those of all slices");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeError(String);

impl Merged {
    /// Joins the reports of all slices of one schedule, each with a name.
    ///
    /// # Errors
    ///
    /// Returns an error if a report is not that of a slice, if the slices are not of one schedule, or if a slice is missing
    /// or occurs twice.
    pub fn of(mut runs: Vec<(String, Report)>) -> Result<Merged, MergeError> {
        let slices = slices(&runs)?;
        complete(&runs, &slices)?;
        fit(&runs)?;
        runs.sort_by_key(|(_, report)| report.asked.slice.map(|slice| slice.index));
        let parts = runs
            .iter()
            .zip(1..)
            .map(|((name, report), index)| MergedPart {
                name: name.clone(),
                index,
                sent: report.counts.sent,
                first_sent: report.detail.first_sent,
                server_clock: report.detail.server_clock,
                lag_p99: report.lag.p99,
                response_p99: report.response.p99,
            });
        let parts = parts.collect();
        let mut runs = runs.into_iter();
        let Some((_, first)) = runs.next() else {
            return Err(MergeError(
                "no report: write those of all slices".to_owned(),
            ));
        };
        let mut whole = whole(first);
        for (name, report) in runs {
            add(&mut whole, report).ok_or_else(|| {
                MergeError(format!(
                    "{name}: its blocks of time have another length than the first"
                ))
            })?;
        }
        summarize(&mut whole);
        Ok(Merged {
            report: whole,
            parts,
        })
    }
}

/// Returns what the whole schedule was asked to do, as text.
fn whole_text(report: &Report, slice: Slice) -> Option<&str> {
    report.asked.text.strip_suffix(&format!(", {slice}"))
}

/// Returns the slices, which are of one schedule.
fn slices(runs: &[(String, Report)]) -> Result<Vec<Slice>, MergeError> {
    let mut slices: Vec<Slice> = Vec::new();
    for (name, report) in runs {
        let Some(slice) = report.asked.slice else {
            return Err(MergeError(format!(
                "{name}: not a slice: write reports of flowgate load --slice"
            )));
        };
        if !slice.is_one_of_them() {
            return Err(MergeError(format!(
                "{name}: there is no {slice}: write the file that flowgate load wrote"
            )));
        }
        let (first_name, first) = &runs[0];
        let first_slice = slices.first().copied().unwrap_or(slice);
        let is_same = slice.count == first_slice.count
            && slice.start_at == first_slice.start_at
            && whole_text(report, slice) == whole_text(first, first_slice);
        if !is_same {
            return Err(MergeError(format!(
                "{name} and {first_name} are slices of different runs: write those with the same rate, --slice and --start-at"
            )));
        }
        if let Some(index) = slices.iter().position(|other| other.index == slice.index) {
            return Err(MergeError(format!(
                "{} and {name} are both {slice}: write each slice once",
                runs[index].0
            )));
        }
        slices.push(slice);
    }
    Ok(slices)
}

/// Checks that all slices are there.
fn complete(runs: &[(String, Report)], slices: &[Slice]) -> Result<(), MergeError> {
    let Some(count) = slices.first().map(|slice| slice.count) else {
        return Err(MergeError(
            "no report: write those of all slices".to_owned(),
        ));
    };
    let is_there = |index: &u64| slices.iter().any(|slice| slice.index == *index);
    // A file may have any number of slices.
    if let Some(first) = (1..=count).find(|index| !is_there(index)) {
        let number = count.saturating_sub(runs.len() as u64);
        return Err(MergeError(match number {
            1 => format!("slice {first}/{count} is missing: write its report, too"),
            _ => format!(
                "{number} of {count} slices are missing, the first is {first}/{count}: write their reports, too"
            ),
        }));
    }
    Ok(())
}

/// Checks that no sum of counts overflows.
fn fit(runs: &[(String, Report)]) -> Result<(), MergeError> {
    let mut all = 0_u64;
    for (name, report) in runs {
        let sum = report.sum_of_counts().and_then(|sum| all.checked_add(sum));
        all = sum.ok_or_else(|| {
            MergeError(format!(
                "{name}: its counts are too large: write the file that flowgate load wrote"
            ))
        })?;
    }
    Ok(())
}

/// Returns the report of one slice with what the whole schedule was asked to do.
fn whole(mut report: Report) -> Report {
    if let Some(slice) = report.asked.slice.take() {
        let count = slice.count as f64;
        let text = whole_text(&report, slice).map(str::to_owned);
        let asked = &mut report.asked;
        if let Some(text) = text {
            asked.text = text;
        }
        asked.per_second = asked.per_second.map(|rate| rate * count);
        asked.highest_per_second = asked.highest_per_second.map(|rate| rate * count);
        asked.interval /= u32::try_from(slice.count).unwrap_or(u32::MAX).max(1);
        asked.guarantee = asked.guarantee.map(|slice| Guarantee {
            per_second: slice.per_second * count,
            ..slice
        });
    }
    report.pacing = Pacing::default();
    // Each machine has its own.
    report.detail.server_clock = None;
    report
}

/// Adds the report of a slice. `None` if its blocks do not fit.
fn add(whole: &mut Report, slice: Report) -> Option<()> {
    whole.detail.add(slice.detail).then_some(())?;
    let (sum, counts) = (&mut whole.counts, slice.counts);
    sum.scheduled = sum
        .scheduled
        .zip(counts.scheduled)
        .map(|(one, other)| one + other);
    for (sum, count) in [
        (&mut sum.sent, counts.sent),
        (&mut sum.unsent, counts.unsent),
        (&mut sum.skipped, counts.skipped),
        (&mut sum.unanswered, counts.unanswered),
        (&mut sum.resent, counts.resent),
        (&mut sum.queued, counts.queued),
        (&mut sum.body_bytes, counts.body_bytes),
        (
            &mut sum.statuses.informational,
            counts.statuses.informational,
        ),
        (&mut sum.statuses.success, counts.statuses.success),
        (&mut sum.statuses.redirection, counts.statuses.redirection),
        (&mut sum.statuses.client_error, counts.statuses.client_error),
        (&mut sum.statuses.server_error, counts.statuses.server_error),
        (&mut sum.statuses.limited, counts.statuses.limited),
        (&mut sum.statuses.other, counts.statuses.other),
    ] {
        *sum += count;
    }
    for (code, count) in counts.codes {
        *sum.codes.entry(code).or_default() += count;
    }
    for (coding, bytes) in counts.encoded_bytes {
        *sum.encoded_bytes.entry(coding).or_default() += bytes;
    }
    sum.decoded = match (sum.decoded, counts.decoded) {
        (Some(one), Some(other)) => Some(one.plus(other)),
        (one, other) => one.or(other),
    };
    for (failure, count) in counts.failures {
        *sum.failures.entry(failure).or_default() += count;
    }
    timeline(&mut whole.timeline, slice.timeline);
    let (sum, used) = (&mut whole.connections, slice.connections);
    *sum = Connections {
        connections: sum.connections + used.connections,
        allowed: sum.allowed + used.allowed,
        most_busy: sum.most_busy + used.most_busy,
        longest_wait: sum.longest_wait.max(used.longest_wait),
        missing: sum.missing + used.missing,
        why_missing: sum.why_missing.or(used.why_missing),
    };
    whole.is_interrupted |= slice.is_interrupted;
    let (sum, other) = (&mut whole.provenance, slice.provenance);
    *sum = Provenance {
        started: sum.started.min(other.started),
        command: None,
        version: sum.version.take(),
        machine: match (sum.machine.take(), other.machine) {
            (Some(one), Some(other)) if !one.contains(&other) => Some(format!("{one}; {other}")),
            (one, other) => one.or(other),
        },
    };
    Some(())
}

/// Adds a timeline. If its slots are longer, those of the other are joined.
fn timeline(whole: &mut Timeline, mut other: Timeline) {
    if other.width > whole.width {
        std::mem::swap(whole, &mut other);
    }
    let times = whole
        .width
        .as_nanos()
        .checked_div(other.width.as_nanos())
        .unwrap_or(1);
    let times = usize::try_from(times).unwrap_or(usize::MAX).max(1);
    let joined: Vec<Slot> = other.slots.chunks(times).map(Slot::joined).collect();
    whole
        .slots
        .resize(whole.slots.len().max(joined.len()), Slot::default());
    for (slot, other) in whole.slots.iter_mut().zip(&joined) {
        *slot = slot.with(other);
    }
}

/// Computes what follows from the joined distributions.
fn summarize(whole: &mut Report) {
    let Detail {
        first_sent,
        last_sent,
        lag,
        response,
        service,
        ..
    } = &whole.detail;
    whole.span = last_sent.saturating_sub(*first_sent);
    let [lag, response, service] = [lag, response, service].map(Durations::of_histogram);
    let shares: Vec<f64> = whole
        .percentiles
        .response
        .iter()
        .map(|quantile| quantile.share)
        .collect();
    let curves = |of: &dyn Fn(&Durations) -> Vec<crate::Quantile>| Curves {
        lag: of(&lag),
        response: of(&response),
        service: of(&service),
    };
    whole.curves = curves(&Durations::curve);
    whole.percentiles = curves(&|durations| durations.quantiles(&shares));
    (whole.lag, whole.response, whole.service) =
        (lag.spread(), response.spread(), service.spread());
}

impl Merged {
    /// Returns how the clocks of the machines differ: a line of text, or none for a single machine.
    ///
    /// The clock of each was compared with that of the server.
    fn clocks(&self) -> Option<String> {
        if self.parts.len() < 2 {
            return None;
        }
        let known = self.parts.iter();
        let known = known.filter_map(|part| Some((part, part.server_clock?)));
        // The server is the most ahead of the clock that is the most behind.
        let behind = known.clone().max_by_key(|(_, clock)| clock.middle_ns());
        let ahead = known.min_by_key(|(_, clock)| clock.middle_ns());
        let two = behind.zip(ahead);
        let two = two.filter(|(behind, ahead)| behind.0.index != ahead.0.index);
        let Some(((behind, least), (ahead, most))) = two else {
            return Some("not compared: the responses have no Date".to_owned());
        };
        let difference = least.minus(most);
        let (middle, error) = (difference.middle_ns(), difference.error());
        let middle = Duration::from_nanos(middle.unsigned_abs());
        Some(match difference.from_ns > 0 {
            true => format!(
                "{} is {} ± {} behind {}: its requests were sent that much later",
                behind.name,
                duration(middle),
                duration(error),
                ahead.name
            ),
            false => format!(
                "no difference shown: less than {}",
                duration(middle + error)
            ),
        })
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "slice      sent       first send   lag p99      response p99   clock                  report"
        )?;
        let first = self.parts.first().and_then(|part| part.server_clock);
        for part in &self.parts {
            let clock = match (first, part.server_clock) {
                (Some(first), Some(own)) if part.index > 1 => first.minus(own).to_string(),
                _ => "-".to_owned(),
            };
            writeln!(
                f,
                "{:<10} {:<10} {:<12} {:<12} {:<14} {clock:<22} {}",
                format!("{}/{}", part.index, self.parts.len()),
                part.sent,
                duration(part.first_sent),
                duration(part.lag_p99),
                duration(part.response_p99),
                part.name
            )?;
        }
        if let Some(clocks) = self.clocks() {
            writeln!(f, "clocks     {clocks}")?;
        }
        let slowest =
            |of: fn(&MergedPart) -> Duration| self.parts.iter().max_by_key(|part| of(part));
        if let (Some(late), Some(slow)) = (
            slowest(|part| part.lag_p99),
            slowest(|part| part.response_p99),
        ) {
            writeln!(
                f,
                "slowest    {} by its lag, {} by its response time\n",
                late.name, slow.name
            )?;
        }
        self.report.fmt(f)
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for MergeError {}
