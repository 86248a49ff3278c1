//! What is wrong with what was found, and whether a claim is right.

use crate::allowance::Allowance;
use crate::text::four_digits;
use crate::{Claim, Estimate, Fault, Honesty, Kind, Likeness, Steady, Verdict, Worst};

/// A rate may be off by this much without being another.
pub(crate) const RATE_OFF: f64 = 0.02;
const RATE_OFF_IF_VAGUE: f64 = 0.1;

/// A burst may be off by this much, and by one.
pub(crate) const BURST_OFF: f64 = 0.02;

/// More failures than this part leave no verdict.
pub(crate) const FAILURES: f64 = 0.03;

/// Asked for twice the rate, less than this part of what was admitted at the rate is a collapse.
const COLLAPSE: f64 = 0.8;

/// What the claim says in numbers.
pub(crate) struct Claimed {
    /// Per second.
    pub(crate) rate: f64,
    pub(crate) burst: f64,
    /// In seconds.
    window: f64,
}

impl Claimed {
    pub(crate) fn of(claim: Claim) -> Self {
        let quota = claim.quota;
        let window = quota.period().as_secs_f64();
        let is_window = claim.kind.is_some_and(|kind| kind.is_window());
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

impl Claimed {
    /// In how many seconds everything comes back.
    pub(crate) fn patience(&self) -> f64 {
        self.window.max(self.burst / self.rate)
    }
}

/// By how much, as a part of it, a rate may be off. Where not all answers are explained, its uncertainty is uncertain.
fn rate_off(likeness: &Likeness) -> f64 {
    let unexplained = likeness.of - likeness.explained;
    if unexplained * 500 <= likeness.of {
        RATE_OFF
    } else {
        RATE_OFF_IF_VAGUE
    }
}

/// Whether the two are the same number, give or take what is uncertain and `off`.
pub(crate) fn agrees(found: Estimate, claimed: f64, off: f64) -> bool {
    (found.value - claimed).abs() <= found.plus_minus + off
}

/// Faults that follow from what was told and streamed.
pub(crate) fn seen(honesty: &Honesty, steady: &[Steady], failed: u64, of: u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    if honesty.too_early > 0 {
        faults.push(Fault::EarlyRetryAfter {
            times: honesty.too_early,
            of: honesty.retries,
            by_seconds: honesty.too_early_by,
        });
    }
    if honesty.remaining_untrue > 0 {
        faults.push(Fault::UntrueRemaining {
            times: honesty.remaining_untrue,
            of: honesty.remaining_checked,
        });
    }
    if let [_, at, _, twice] = steady {
        let few = at.admitted * at.requests as f64 / at.offered < 10.0;
        if !few && twice.admitted < COLLAPSE * at.admitted {
            faults.push(Fault::Collapse {
                offered: twice.offered,
                admitted: twice.admitted,
                of: at.admitted,
            });
        }
    }
    if failed > 0 {
        faults.push(Fault::Failures { times: failed, of });
    }
    faults
}

/// Faults by what was claimed: more than that, less, so many times, or later. `worst` is by the claim.
pub(crate) fn by_claim(claim: Claim, likeness: &Likeness, worst: Option<Worst>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let claimed = Claimed::of(claim);
    if let Some(worst) = worst.filter(is_over) {
        faults.push(Fault::OverAdmission { worst });
    }
    let (Some(rate), Some(burst)) = (likeness.rate, likeness.burst) else {
        return faults;
    };
    let times = (rate.value / claimed.rate).round();
    // Nodes that take turns admit a little less at once than one that has it all.
    let bursts = burst.value / claimed.burst;
    let is_multiple = agrees(rate, times * claimed.rate, 0.05 * times * claimed.rate);
    if times >= 2.0 && is_multiple && (0.75 * times..1.1 * times).contains(&bursts) {
        faults.push(Fault::TimesTheClaim {
            times: times as u32,
        });
    }
    let off = BURST_OFF * claimed.burst + 1.0;
    let late = likeness
        .window
        .map(|window| window.value - window.plus_minus - claimed.window);
    match late {
        Some(late)
            if late > rate_off(likeness) * claimed.window && agrees(burst, claimed.burst, off) =>
        {
            faults.push(Fault::LateReset { by_seconds: late });
        }
        _ if rate.value + rate.plus_minus < (1.0 - rate_off(likeness)) * claimed.rate => {
            faults.push(Fault::UnderAdmission {
                per_second: rate.value,
                allowed: claimed.rate,
            });
        }
        _ => {}
    }
    faults
}

pub(crate) fn is_over(worst: &Worst) -> bool {
    worst.admitted as f64 > worst.allowed + 1e-6
}

/// Whether what was found is what was claimed. `trouble` is why nothing was found.
pub(crate) fn verdict(
    claim: Claim,
    likeness: &Likeness,
    faults: &[Fault],
    trouble: Option<&str>,
) -> Verdict {
    let claimed = Claimed::of(claim);
    let mut reasons: Vec<String> = faults.iter().filter_map(breach).collect();
    if let (Some(rate), Some(burst)) = (likeness.rate, likeness.burst) {
        if !agrees(rate, claimed.rate, rate_off(likeness) * claimed.rate) {
            reasons.push(format!(
                "the rate is {}/s, not {}/s",
                four_digits(rate.value),
                four_digits(claimed.rate)
            ));
        }
        if !agrees(burst, claimed.burst, BURST_OFF * claimed.burst + 1.0) {
            reasons.push(format!(
                "the burst is {}, not {}",
                burst.value, claimed.burst
            ));
        }
    }
    let could_be = |kind: Kind| claim.kind.is_none_or(|claimed| claimed.is(kind));
    let mut kinds = likeness.or.iter().chain([&likeness.kind]);
    if likeness.kind == Kind::Unlimited {
        let is_over = |fault: &Fault| matches!(fault, Fault::OverAdmission { .. });
        if faults.iter().any(is_over) {
            reasons.push("nothing was refused".to_owned());
        }
    } else if let Some(kind) = claim.kind
        && likeness.kind != Kind::Unknown
        && !kinds.any(|kind| could_be(*kind))
    {
        reasons.push(format!(
            "it looks like a {}, not like {kind}",
            likeness.kind
        ));
    }
    let is_certain =
        |fault: &Fault| matches!(fault, Fault::OverAdmission { .. } | Fault::Ban { .. });
    let is_known = likeness.kind != Kind::Unknown;
    if !reasons.is_empty() && (is_known || faults.iter().any(is_certain)) {
        return Verdict::Differs(reasons);
    }
    if let Some(trouble) = trouble {
        return Verdict::Undecided(trouble.to_owned());
    }
    match likeness.kind {
        Kind::Unknown => Verdict::Undecided("it is none of the kinds known".to_owned()),
        Kind::Unlimited => {
            let trouble = "nothing was refused, and by the claim nothing had to be";
            Verdict::Undecided(trouble.to_owned())
        }
        _ => Verdict::Consistent,
    }
}

/// What a fault says against a claim.
fn breach(fault: &Fault) -> Option<String> {
    match fault {
        Fault::OverAdmission { worst } => Some(format!(
            "{} were admitted within {} s, {:.1} allowed",
            worst.admitted,
            four_digits(worst.span),
            worst.allowed
        )),
        Fault::Race { admitted, allowed } => Some(format!(
            "{admitted} were admitted at once, {allowed} allowed"
        )),
        Fault::Nodes { at_least } => Some(format!(
            "each of at least {at_least} nodes has the limit for itself"
        )),
        Fault::LateReset { by_seconds } => Some(format!("the window is {by_seconds:.3} s longer")),
        Fault::Collapse {
            offered,
            admitted,
            of,
        } => Some(format!(
            "asked for {}/s it admits {}/s, and {}/s otherwise",
            four_digits(*offered),
            four_digits(*admitted),
            four_digits(*of)
        )),
        Fault::Ban { after_refusals } => Some(format!(
            "after {after_refusals} refusals everything is refused"
        )),
        _ => None,
    }
}

/// The allowance by which the worst is looked for: the claim's, or that of what it looks like.
pub(crate) fn allowance(
    claim: Option<Claim>,
    found: Option<&crate::fit::Fit>,
) -> Option<Allowance> {
    claim
        .map(Allowance::of_claim)
        .or_else(|| found.map(Allowance::of_fit))
}
