//! The findings so far if no algorithm was detected, and what would resolve the rest.

use std::time::Duration;

use flowgate::Quota;

use crate::advertised::Told;
use crate::fit::Fit;
use crate::inquiry::count;
use crate::text::four_digits;
use crate::{ExpectedKind, ExpectedLimit, Investigation, Observation, ProbeOutcome};

/// What an investigation without a detected algorithm has.
pub(crate) struct Known<'a> {
    pub(crate) record: &'a [Observation],
    /// The closest fit.
    pub(crate) best: Option<&'a Fit>,
    pub(crate) trouble: Option<&'a str>,
    /// Whether the budget is used up.
    pub(crate) is_at_its_end: bool,
}

/// Returns what is known so far.
pub(crate) fn unresolved(investigation: &Investigation, known: &Known<'_>) -> Option<String> {
    let record = known.record;
    let admitted = count(record, ProbeOutcome::Admitted);
    let is_refused = count(record, ProbeOutcome::Refused) > 0;
    let so_far = match (known.trouble, known.best) {
        (Some(trouble), _) => trouble.to_owned(),
        (None, None) if admitted > 0 && !is_refused => {
            let were = if admitted == 1 {
                "request was"
            } else {
                "requests were"
            };
            format!("{admitted} {were} admitted, none refused; allow more requests")
        }
        (None, Some(best)) if known.is_at_its_end && best.explains_all() => format!(
            "{} explains what was seen, but that is too little to exclude others; allow more time and requests",
            best.kind()
        ),
        _ => return None,
    };
    Some(match by_fields(investigation, record) {
        Some(by_fields) => format!("{so_far}; {by_fields}"),
        None => so_far,
    })
}

/// Describes what the header fields tell of the limit, and how long it takes to test that.
fn by_fields(investigation: &Investigation, record: &[Observation]) -> Option<String> {
    let refused = |seen: &&Observation| seen.outcome == ProbeOutcome::Refused;
    let last = record.iter().rev().find(refused);
    let again = last.and_then(|seen| {
        let told = seen.advertised;
        Some((seen, told.retry_after.or(told.more_after)?))
    });
    let Some(told) = Told::of(record) else {
        let (_, after) = again?;
        let after = four_digits(after.as_secs_f64());
        return Some(format!("Retry-After names {after} s"));
    };
    let Told { limit, window, .. } = told;
    // Without a length of the window: from the first request to the time of the retry, if that is still the first window.
    let mut after_refusals = record
        .iter()
        .skip_while(|seen| seen.outcome != ProbeOutcome::Refused);
    let is_first = !after_refusals.any(|seen| seen.outcome == ProbeOutcome::Admitted);
    let window = window.or_else(|| {
        let (seen, after) = again.filter(|_| is_first)?;
        let began_ns = record.first()?.sent_ns;
        let elapsed_ns = seen.answered_ns.saturating_sub(began_ns);
        Some(
            (Duration::from_nanos(elapsed_ns) + after)
                .as_secs_f64()
                .round(),
        )
    });
    let Some(window) = window else {
        return Some(format!("its header fields name a limit of {limit}"));
    };
    let names = format!("its header fields name {limit} in {window} s");
    let period = Duration::try_from_secs_f64(window).ok()?;
    let Ok(quota) = Quota::new(limit, period) else {
        return Some(names);
    };
    let hypothesis = ExpectedLimit {
        kind: Some(ExpectedKind::Fixed),
        quota,
    };
    let needs = investigation.clone().expected(hypothesis).forecast()?.needs;
    Some(match needs {
        Some(needs) => format!(
            "{names}: to test that, allow {} s and {} requests",
            needs.time.as_secs_f64().ceil(),
            needs.requests
        ),
        None => names,
    })
}
