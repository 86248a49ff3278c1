//! Findings as text, for people.

use std::fmt;

use crate::{
    Alignment, Estimate, Fault, Findings, Honesty, KeyIsolation, Kind, Likeness, ToldQuota,
    Verdict, Worst,
};

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Kind::SegmentedWindow(segments) => {
                return f.pad(&format!("sliding window in {segments} segments"));
            }
            Kind::TokenBucket => "token bucket / GCRA",
            Kind::LeakyQueue => "leaky queue",
            Kind::FixedWindow(Alignment::FirstRequest) => "fixed window from the first request",
            Kind::FixedWindow(Alignment::Clock) => "fixed window on the clock",
            Kind::SlidingLog => "sliding window",
            Kind::SlidingCounter => "sliding window of two counters",
            Kind::Unlimited => "no limit",
            Kind::Unknown => "none of the kinds known",
        };
        f.pad(name)
    }
}

/// With as many digits as are certain, and one more.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = self.value.fract() == 0.0 && self.plus_minus.fract() == 0.0;
        if self.plus_minus.is_infinite() {
            return write!(f, "{} or more", self.value);
        }
        if is_whole && self.plus_minus == 0.0 {
            return write!(f, "{}", self.value);
        }
        let size = self.value.abs().max(1e-9).log10().floor();
        let certain = self.plus_minus.max(self.value.abs() * 1e-4).max(1e-9);
        let digits = (-certain.log10().floor())
            .clamp(0.0, 9.0)
            .min(3.0 - size)
            .max(0.0) as usize;
        write!(f, "{:.digits$}", self.value)?;
        let off = format!("{:.digits$}", self.plus_minus);
        if off
            .bytes()
            .any(|byte| byte.is_ascii_digit() && byte != b'0')
        {
            write!(f, " ±{off}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Likeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.kind == Kind::Unknown
            && let Some(nearest) = self.or.first()
        {
            write!(f, ", nearest to a {nearest}")?;
        }
        if let (Some(rate), Some(burst)) = (self.rate, self.burst) {
            match self.window {
                Some(window) => write!(f, ", {burst} in {window} s")?,
                None => write!(f, ", rate {rate}/s, burst {burst}")?,
            }
        }
        if let Some(tick) = self.clock_tick {
            write!(f, ", if its clock ticks every {} ms", tick * 1e3)?;
        }
        if self.explained < self.of {
            write!(
                f,
                "; {} of {} answers unexplained",
                self.of - self.explained,
                self.of
            )?;
        }
        if self.kind != Kind::Unknown && !self.or.is_empty() {
            let or: Vec<_> = self.or.iter().map(Kind::to_string).collect();
            write!(f, " (could not tell it from: {})", or.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            span,
            admitted,
            allowed,
            at,
        } = self;
        let allowed_whole = (allowed + 1e-6).floor();
        write!(
            f,
            "{span:.3} s: admitted {admitted} of {allowed_whole:.0} allowed at t = {at:.3} s"
        )?;
        let over = *admitted as f64 / allowed - 1.0;
        if over > 1e-9 {
            write!(f, "; over by {:.1} %", 100.0 * over)?;
        }
        Ok(())
    }
}

impl fmt::Display for Honesty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.refusals_with_retry_after == 0 {
            write!(f, "absent")?;
        } else if self.retries == 0 {
            write!(
                f,
                "in {} of {} refusals",
                self.refusals_with_retry_after, self.refusals
            )?;
        } else if self.too_early == 0 {
            write!(f, "right in all {} that were kept to", self.retries)?;
        } else {
            let Self {
                too_early,
                retries,
                too_early_by,
                ..
            } = self;
            write!(
                f,
                "too early in {too_early} of {retries} (by up to {too_early_by:.3} s)"
            )?;
        }
        match (self.with_fields, self.remaining_untrue) {
            (0, _) => write!(f, "; RateLimit: absent"),
            (_, 0) => write!(
                f,
                "; RateLimit: remaining true {} times",
                self.remaining_checked
            ),
            (_, untrue) => write!(
                f,
                "; RateLimit: remaining untrue {untrue} of {} times",
                self.remaining_checked
            ),
        }
    }
}

impl fmt::Display for ToldQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.limit)?;
        if let Some(window) = self.window {
            write!(f, " in {window} s")?;
        }
        f.write_str(match self.agrees {
            // A window is told in whole seconds.
            Some(true) if self.window.is_some() => ", as found, to the second",
            Some(true) => ", as found",
            Some(false) => ", which is not what was found",
            None => "",
        })
    }
}

impl fmt::Display for KeyIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.are_shared {
            "share one limit"
        } else {
            "are apart"
        };
        write!(f, "{} {how}", self.keys)?;
        if let Some(jain) = self.jain {
            write!(f, ", Jain's index {jain:.3}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Race { admitted, allowed } => {
                write!(f, "race: many at once got {admitted}, {allowed} allowed")
            }
            Fault::Nodes { at_least } => {
                write!(
                    f,
                    "nodes: at least {at_least} connections have the limit for themselves"
                )
            }
            Fault::TimesTheClaim { times } => {
                write!(f, "nodes: rate and burst are {times} times what is claimed")
            }
            Fault::LateReset { by_seconds } => {
                write!(
                    f,
                    "late reset: the window is {by_seconds:.3} s longer than claimed"
                )
            }
            Fault::EarlyRetryAfter {
                times,
                of,
                by_seconds,
            } => write!(
                f,
                "early Retry-After: refused again {times} of {of} times, by up to {by_seconds:.3} s"
            ),
            Fault::UntrueRemaining { times, of } => {
                write!(
                    f,
                    "untrue remaining: refused {times} of {of} times although some remained"
                )
            }
            Fault::OverAdmission { worst } => write!(f, "over-admission: {worst}"),
            Fault::UnderAdmission {
                per_second,
                allowed,
            } => {
                let [per_second, allowed] = [*per_second, *allowed].map(four_digits);
                write!(f, "under-admission: {per_second}/s of {allowed}/s")
            }
            Fault::Collapse {
                offered,
                admitted,
                of,
            } => write!(
                f,
                "collapse: asked for {}/s it admits {}/s, and {}/s otherwise",
                four_digits(*offered),
                four_digits(*admitted),
                four_digits(*of)
            ),
            Fault::Ban { after_refusals } => {
                write!(
                    f,
                    "ban: nothing was admitted after {after_refusals} refusals"
                )
            }
            Fault::Failures { times, of } => {
                write!(
                    f,
                    "failures: {times} of {of} requests got neither yes nor no"
                )
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Consistent => "CONSISTENT",
            Verdict::Differs(_) => "DIFFERS",
            Verdict::Undecided(_) => "UNDECIDED",
        })
    }
}

/// A number with four digits that matter.
pub(crate) fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before = value.abs().max(1e-9).log10().floor();
    let digits = (3.0 - before).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

/// A line with its name in front.
fn line(f: &mut fmt::Formatter<'_>, name: &str, what: &dyn fmt::Display) -> fmt::Result {
    writeln!(f, "  {name:<15} {what}")
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let likeness = self.likeness.to_string();
        match &self.claim {
            Some(judged) => {
                let text = format!("{likeness:<55} claim: {}", judged.verdict);
                line(f, "looks like", &text)?;
                let reasons = match &judged.verdict {
                    Verdict::Consistent => &[][..],
                    Verdict::Differs(reasons) => reasons,
                    Verdict::Undecided(reason) => std::slice::from_ref(reason),
                };
                for reason in reasons {
                    line(f, "", &format!("claimed {}, but {reason}", judged.claim))?;
                }
            }
            None => line(f, "looks like", &likeness)?,
        }
        if self.likeness.kind == Kind::Unlimited
            && let Some(most) = self.envelope.iter().max_by_key(|point| point.admitted)
        {
            let rate = most.admitted as f64 / most.span.max(1e-9);
            let text = format!(
                "nothing was refused up to {rate:.0}/s, {} in all",
                most.admitted
            );
            line(f, "", &text)?;
        }
        if let Some(worst) = &self.worst {
            line(f, "worst window", worst)?;
        }
        for stream in &self.steady {
            let text = format!(
                "of {}/s admitted {}/s",
                four_digits(stream.offered),
                four_digits(stream.admitted)
            );
            line(f, "steady", &text)?;
        }
        if self.honesty.refusals > 0 {
            line(f, "Retry-After", &self.honesty)?;
        }
        if let Some(told) = &self.honesty.quota {
            line(f, "limit told", told)?;
        }
        if let Some(keys) = &self.keys {
            line(f, "keys", keys)?;
        }
        for fault in &self.faults {
            line(f, "fault", fault)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_matter_and_nothing_is_nothing() {
        for (value, expected) in [
            (0.0, "0"),
            (0.000_123_456, "0.0001235"),
            (4.503, "4.503"),
            (99.5, "99.50"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(four_digits(value), expected);
        }
    }

    #[test]
    fn an_index_that_was_not_measured_is_not_told() {
        let keys = |jain| KeyIsolation {
            keys: 2,
            are_shared: false,
            jain,
        };
        assert_eq!(keys(None).to_string(), "2 are apart");
        let whole = keys(Some(1.0)).to_string();
        assert_eq!(whole, "2 are apart, Jain's index 1.000");
    }
}
