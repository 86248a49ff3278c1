//! Defects, and the verdict about an expected limit.

use crate::allowance::Allowance;
use crate::text::four_digits;
use crate::{
    Defect, DetectedAlgorithm, DetectedKind, Estimate, ExpectedLimit, ExpectedVerdict,
    HeaderAccuracy, Worst,
};

/// Relative tolerance of a rate.
pub(crate) const RATE_OFF: f64 = 0.02;
const RATE_OFF_IF_VAGUE: f64 = 0.1;

/// Relative tolerance of a burst, plus one.
pub(crate) const BURST_OFF: f64 = 0.02;

/// With a larger share of failures than this, there is no verdict.
pub(crate) const FAILURES: f64 = 0.03;

/// An expected limit in numbers.
pub(crate) struct ExpectedNumbers {
    /// Requests per second.
    pub(crate) rate: f64,
    pub(crate) burst: f64,
    /// In seconds.
    window: f64,
}

impl ExpectedNumbers {
    pub(crate) fn of(expected: ExpectedLimit) -> Self {
        let quota = expected.quota;
        let window = quota.period().as_secs_f64();
        let is_window = expected.kind.is_some_and(|kind| kind.is_window());
        let count = quota.count() as f64;
        Self {
            rate: count / window,
            burst: if is_window {
                count
            } else {
                quota.max_burst() as f64
            },
            window,
        }
    }
}

impl ExpectedNumbers {
    /// Returns the time in which everything refills, in seconds.
    pub(crate) fn recovery(&self) -> f64 {
        self.window.max(self.burst / self.rate)
    }
}

/// Returns the relative tolerance of the rate: larger if not all responses are consistent.
fn rate_off(detected: &DetectedAlgorithm) -> f64 {
    let unexplained = detected.answers - detected.consistent;
    if unexplained * 500 <= detected.answers {
        RATE_OFF
    } else {
        RATE_OFF_IF_VAGUE
    }
}

/// Returns whether both numbers are equal within the error bound plus `off`.
pub(crate) fn agrees(found: Estimate, numbers: f64, off: f64) -> bool {
    (found.value - numbers).abs() <= found.plus_minus + off
}

/// Returns the defects that follow from headers and failures.
pub(crate) fn seen(headers: &HeaderAccuracy, failed: u64, of: u64) -> Vec<Defect> {
    let mut defects = Vec::new();
    if headers.too_early > 0 {
        defects.push(Defect::EarlyRetryAfter {
            times: headers.too_early,
            of: headers.retries,
            by_seconds: headers.too_early_by,
        });
    }
    if headers.remaining_wrong > 0 {
        defects.push(Defect::WrongRemaining {
            times: headers.remaining_wrong,
            of: headers.remaining_checked,
        });
    }
    if failed > 0 {
        defects.push(Defect::Failures { times: failed, of });
    }
    defects
}

/// Returns the defects relative to the expected limit: more, less, a multiple, or late. `worst` is relative to it too.
pub(crate) fn by_expected(
    expected: ExpectedLimit,
    detected: &DetectedAlgorithm,
    worst: Option<Worst>,
) -> Vec<Defect> {
    let mut defects = Vec::new();
    let numbers = ExpectedNumbers::of(expected);
    if let Some(worst) = worst.filter(is_over) {
        defects.push(Defect::OverAdmission { worst });
    }
    let (Some(rate), Some(burst)) = (detected.rate, detected.burst) else {
        return defects;
    };
    let times = (rate.value / numbers.rate).round();
    // Nodes that take turns admit a slightly smaller burst than a single one.
    let bursts = burst.value / numbers.burst;
    let is_multiple = agrees(rate, times * numbers.rate, 0.05 * times * numbers.rate);
    if times >= 2.0 && is_multiple && (0.75 * times..1.1 * times).contains(&bursts) {
        defects.push(Defect::MultipleOfExpected {
            times: times as u32,
        });
    }
    let off = BURST_OFF * numbers.burst + 1.0;
    let late = detected
        .window
        .map(|window| window.value - window.plus_minus - numbers.window);
    match late {
        Some(late)
            if late > rate_off(detected) * numbers.window && agrees(burst, numbers.burst, off) =>
        {
            defects.push(Defect::LateReset { by_seconds: late });
        }
        _ if rate.value + rate.plus_minus < (1.0 - rate_off(detected)) * numbers.rate => {
            defects.push(Defect::UnderAdmission {
                per_second: rate.value,
                allowed: numbers.rate,
            });
        }
        _ => {}
    }
    defects
}

pub(crate) fn is_over(worst: &Worst) -> bool {
    worst.admitted as f64 > worst.allowed + 1e-6
}

/// Removes what may only seem so if too many requests failed: a failed request was neither admitted nor refused, and what
/// a limiter admits later depends on which.
pub(crate) fn retain_certain(defects: &mut Vec<Defect>) {
    defects.retain(|defect| {
        matches!(
            defect,
            Defect::OverAdmission { .. }
                | Defect::EarlyRetryAfter { .. }
                | Defect::WrongRemaining { .. }
                | Defect::Failures { .. }
        )
    });
}

/// Compares the findings with the expected limit, if too many requests failed to know the limiter.
pub(crate) fn verdict_despite_failures(defects: &[Defect], trouble: String) -> ExpectedVerdict {
    let reasons: Vec<String> = defects.iter().filter_map(breach).collect();
    match reasons.is_empty() {
        true => ExpectedVerdict::Undecided(trouble),
        false => ExpectedVerdict::Differs(reasons),
    }
}

/// Compares the findings with the expected limit. `trouble` is why nothing was detected.
pub(crate) fn verdict(
    expected: ExpectedLimit,
    detected: &DetectedAlgorithm,
    defects: &[Defect],
    trouble: Option<&str>,
) -> ExpectedVerdict {
    let numbers = ExpectedNumbers::of(expected);
    // Under load, a window that counts refused requests admits nothing, whatever its limit is.
    let counts_refused = matches!(
        detected.kind,
        DetectedKind::CountsRefused | DetectedKind::CounterCountsRefused
    );
    let is_of_the_kind =
        |defect: &&Defect| counts_refused && matches!(defect, Defect::Collapse { .. });
    let against = defects.iter().filter(|defect| !is_of_the_kind(defect));
    let mut reasons: Vec<String> = against.filter_map(breach).collect();
    if let (Some(rate), Some(burst)) = (detected.rate, detected.burst) {
        if !agrees(rate, numbers.rate, rate_off(detected) * numbers.rate) {
            reasons.push(format!(
                "the rate is {}/s, not {}/s",
                four_digits(rate.value),
                four_digits(numbers.rate)
            ));
        }
        if !agrees(burst, numbers.burst, BURST_OFF * numbers.burst + 1.0) {
            reasons.push(format!(
                "the burst is {}, not {}",
                burst.value, numbers.burst
            ));
        }
    }
    if detected.kind == DetectedKind::Delays {
        reasons.push("requests over the limit are delayed, not refused".to_owned());
    }
    if let Some(block) = &detected.block {
        reasons.push(format!(
            "once its limit is used up, it admits none for {block}"
        ));
    }
    if let [_, slow] = &detected.limits[..] {
        reasons.push(match detected.kind {
            DetectedKind::BurstPool => format!("a pool admits some of what it refuses: {slow}"),
            _ => format!("there is a second limit: {slow}"),
        });
    }
    let could_be = |kind: DetectedKind| expected.kind.is_none_or(|numbers| numbers.is(kind));
    let mut kinds = detected.alternatives.iter().chain([&detected.kind]);
    if detected.kind == DetectedKind::Unlimited {
        let is_over = |defect: &Defect| matches!(defect, Defect::OverAdmission { .. });
        if defects.iter().any(is_over) {
            reasons.push("nothing was refused".to_owned());
        }
    } else if let Some(kind) = expected.kind
        && detected.kind != DetectedKind::Unknown
        && !detected.kind.is_of_two()
        && !kinds.any(|kind| could_be(*kind))
    {
        reasons.push(format!("the algorithm is {}, not {kind}", detected.kind));
    }
    let is_certain = |defect: &Defect| {
        matches!(
            defect,
            Defect::OverAdmission { .. } | Defect::Ban { .. } | Defect::NoRecovery { .. }
        )
    };
    let is_known = detected.kind != DetectedKind::Unknown;
    if !reasons.is_empty() && (is_known || defects.iter().any(is_certain)) {
        return ExpectedVerdict::Differs(reasons);
    }
    if let Some(trouble) = trouble {
        return ExpectedVerdict::Undecided(trouble.to_owned());
    }
    match detected.kind {
        DetectedKind::Unknown => ExpectedVerdict::Undecided("the algorithm is unknown".to_owned()),
        DetectedKind::Unlimited => {
            let trouble = "nothing was refused, and the expected limit did not require it";
            ExpectedVerdict::Undecided(trouble.to_owned())
        }
        _ => ExpectedVerdict::Consistent,
    }
}

/// Returns how a defect violates an expected limit, if it does.
fn breach(defect: &Defect) -> Option<String> {
    match defect {
        Defect::OverAdmission { worst } => Some(format!(
            "{} requests were admitted within {} s, {} allowed",
            worst.admitted,
            four_digits(worst.interval),
            worst.allowed_whole()
        )),
        Defect::Race { admitted, allowed } => Some(format!(
            "{admitted} concurrent requests were admitted, {allowed} allowed"
        )),
        Defect::Nodes { at_least } => Some(format!(
            "at least {at_least} connections have a separate limit each"
        )),
        Defect::LateReset { by_seconds } => Some(format!("the window is {by_seconds:.3} s longer")),
        Defect::Collapse {
            offered,
            admitted,
            of,
        } => Some(format!(
            "when offered {}/s it admits {}/s, otherwise {}/s",
            four_digits(*offered),
            four_digits(*admitted),
            four_digits(*of)
        )),
        Defect::Ban { after_refusals } => Some(format!(
            "after {after_refusals} refusals it refuses everything for a time"
        )),
        Defect::NoRecovery {
            admitted,
            silent_seconds,
        } => Some(format!(
            "after {admitted} admissions nothing was admitted for {} s: a second, slower limit or a ban",
            four_digits(*silent_seconds)
        )),
        _ => None,
    }
}

/// Returns the allowance for the worst interval: of the expected limit, else of the detected one.
pub(crate) fn allowance(
    expected: Option<ExpectedLimit>,
    found: Option<&crate::fit::Fit>,
) -> Option<Allowance> {
    expected
        .map(Allowance::of_expected)
        .or_else(|| found.map(Allowance::of_fit))
}
