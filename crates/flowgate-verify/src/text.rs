//! Findings as text.

use std::fmt;

use crate::{
    AdvertisedQuota, Alignment, BlockStart, Defect, DetectedAlgorithm, DetectedBlock,
    DetectedDelays, DetectedKind, DetectedLimit, Estimate, ExpectedVerdict, Findings,
    HeaderAccuracy, KeyIsolation, Worst,
};

/// A client notices a clock whose ticks are as long, in seconds.
const COARSE: f64 = 1.0;

impl fmt::Display for DetectedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            DetectedKind::SegmentedWindow(segments) => {
                return f.pad(&format!("sliding window in {segments} segments"));
            }
            DetectedKind::TokenBucket => "token bucket / GCRA",
            DetectedKind::LeakyQueue => "leaky queue",
            DetectedKind::FixedWindow(Alignment::FirstRequest) => {
                "fixed window from the first request"
            }
            DetectedKind::FixedWindow(Alignment::Clock) => "fixed window on the clock",
            DetectedKind::SlidingLog => "sliding window",
            DetectedKind::SlidingCounter => "sliding window of two counters",
            DetectedKind::CountsRefused => "sliding window that counts refused requests too",
            DetectedKind::CounterCountsRefused => {
                "window of two counters that count refused requests too"
            }
            DetectedKind::Delays => "delays instead of refusals",
            DetectedKind::BlocksAfterLimit => "block after the limit",
            DetectedKind::TwoLimits => "two limits",
            DetectedKind::BurstPool => "window with a pool for bursts",
            DetectedKind::Unlimited => "no limit",
            DetectedKind::Unknown => "unknown algorithm",
        };
        f.pad(name)
    }
}

/// Writes the certain digits and one more.
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

impl fmt::Display for DetectedAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.kind == DetectedKind::Unknown
            && let Some(nearest) = self.alternatives.first()
        {
            write!(f, ", closest match: {nearest}")?;
        }
        match (self.rate, self.burst, self.delays) {
            (_, Some(burst), Some(delays)) => {
                write!(f, ": none for {burst}")?;
                if let Some(window) = self.window {
                    write!(f, " in {window} s")?;
                }
                write!(f, ", then {delays}")?;
            }
            (Some(rate), Some(burst), None) => numbers(f, rate, burst, self.window)?,
            _ => {}
        }
        if let (Some(burst), Some(block)) = (self.burst, self.block) {
            write!(f, ": {burst} admitted, then none for {block}")?;
        }
        let between = match self.kind {
            DetectedKind::BurstPool => "; what it refuses may take from ",
            _ => "; and ",
        };
        for (limit, before) in self.limits.iter().zip([": ", between]) {
            write!(f, "{before}{limit}")?;
        }
        if let Some(tick) = self.clock_tick {
            write!(f, ", if its clock advances every {} ms", tick * 1e3)?;
        }
        if self.consistent < self.answers && self.rate.is_some() {
            write!(
                f,
                "; {} of {} responses inconsistent with it",
                self.answers - self.consistent,
                self.answers
            )?;
        }
        if self.kind != DetectedKind::Unknown {
            others(f, &self.alternatives)?;
        }
        Ok(())
    }
}

impl DetectedAlgorithm {
    /// Returns what a clock of whole seconds means for a client of a bucket.
    fn refill(&self) -> Option<String> {
        let tick = self.clock_tick.filter(|tick| *tick >= COARSE)?;
        let rate = self
            .rate
            .filter(|_| self.kind == DetectedKind::TokenBucket)?;
        let tokens = four_digits(rate.value * tick);
        Some(format!(
            "refilled every {tick} s, by {tokens}: once it is empty, a client is refused until then"
        ))
    }
}

impl fmt::Display for DetectedDelays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.first)?;
        if self.step.value > 0.0 {
            write!(f, ", {} s more for each further one", self.step)?;
        }
        if let Some(longest) = self.longest {
            write!(f, ", {longest} s at most")?;
        }
        Ok(())
    }
}

impl DetectedDelays {
    /// Returns what the delays mean for a client.
    fn meaning(&self) -> String {
        let most = match (self.longest, self.step.value > 0.0) {
            (None, true) => return "the delay grows until the window ends: a client that sends more waits ever longer".to_owned(),
            (None, false) => self.first,
            (Some(longest), _) => longest,
        };
        format!(
            "a client that sends more needs a timeout above {} s",
            four_digits(most.value)
        )
    }
}

impl fmt::Display for BlockStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BlockStart::LastAdmission => "the last admitted request",
            BlockStart::FirstRefusal => "the first refused request",
            BlockStart::LastRefusal => "the last refused request",
        })
    }
}

impl fmt::Display for DetectedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s after {}", self.length, self.counted_from)
    }
}

impl DetectedBlock {
    /// Returns what the block means for a client.
    fn meaning(&self) -> String {
        let most = four_digits(self.length.value + self.length.plus_minus);
        match self.counted_from {
            BlockStart::LastAdmission => {
                format!(
                    "a retry during the block does not lengthen it: wait {most} s after the last admission"
                )
            }
            BlockStart::FirstRefusal => {
                format!(
                    "a retry during the block does not lengthen it: wait {most} s after the first refusal"
                )
            }
            BlockStart::LastRefusal => format!(
                "a request during the block starts it anew: wait {most} s without any request"
            ),
        }
    }
}

impl fmt::Display for DetectedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        numbers(f, self.rate, self.burst, self.window)?;
        others(f, &self.alternatives)?;
        if self.counts_refused {
            write!(f, ", in which requests count that were refused, too")?;
        }
        Ok(())
    }
}

/// Writes rate and burst or, of a window, its limit and length.
fn numbers(
    f: &mut fmt::Formatter<'_>,
    rate: Estimate,
    burst: Estimate,
    window: Option<Estimate>,
) -> fmt::Result {
    match window {
        Some(window) => write!(f, ", {burst} in {window} s"),
        None => write!(f, ", rate {rate}/s, burst {burst}"),
    }
}

fn others(f: &mut fmt::Formatter<'_>, alternatives: &[DetectedKind]) -> fmt::Result {
    let or: Vec<_> = alternatives.iter().map(DetectedKind::to_string).collect();
    match or.is_empty() {
        true => Ok(()),
        false => write!(f, " (also consistent: {})", or.join(", ")),
    }
}

impl Worst {
    /// Returns how many whole requests are allowed.
    pub(crate) fn allowed_whole(&self) -> u64 {
        (self.allowed + 1e-6).floor() as u64
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            interval,
            admitted,
            allowed,
            at,
        } = self;
        let allowed_whole = self.allowed_whole();
        write!(
            f,
            "{interval:.3} s: {admitted} admitted, {allowed_whole} allowed, from t = {at:.3} s"
        )?;
        let over = *admitted as f64 / allowed - 1.0;
        // Less would be printed as 0.0 %.
        if over >= 0.0005 {
            write!(f, "; over by {:.1} %", 100.0 * over)?;
        }
        Ok(())
    }
}

impl fmt::Display for HeaderAccuracy {
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
            write!(f, "accurate in all {} retries", self.retries)?;
        } else {
            let Self {
                too_early,
                retries,
                too_early_by,
                ..
            } = self;
            write!(
                f,
                "too early in {too_early} of {retries} retries (by up to {too_early_by:.3} s)"
            )?;
        }
        match (self.with_fields, self.remaining_wrong) {
            (0, _) => write!(f, "; RateLimit: absent"),
            (_, 0) => write!(
                f,
                "; RateLimit: remaining accurate in all {}",
                self.remaining_checked
            ),
            (_, untrue) => write!(
                f,
                "; RateLimit: remaining wrong in {untrue} of {}",
                self.remaining_checked
            ),
        }
    }
}

impl fmt::Display for AdvertisedQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.limit)?;
        if let Some(window) = self.window {
            write!(f, " in {window} s")?;
        }
        f.write_str(match self.agrees {
            // Servers advertise windows in whole seconds.
            Some(true) if self.window.is_some() => ", as detected, to the second",
            Some(true) => ", as detected",
            Some(false) => ", but another limit was detected",
            None => "",
        })
    }
}

impl fmt::Display for KeyIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.are_shared {
            "share one limit"
        } else {
            "have separate limits"
        };
        write!(f, "{} keys {how}", self.keys)?;
        if let Some(jain) = self.jain {
            write!(f, ", Jain's index {jain:.3}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::Race { admitted, allowed } => {
                write!(
                    f,
                    "race: {admitted} concurrent requests were admitted, {allowed} allowed"
                )
            }
            Defect::Nodes { at_least } => {
                write!(
                    f,
                    "nodes: at least {at_least} connections have a separate limit each"
                )
            }
            Defect::MultipleOfExpected { times } => {
                write!(
                    f,
                    "nodes: rate and burst are {times} times the expected limit"
                )
            }
            Defect::LateReset { by_seconds } => {
                write!(
                    f,
                    "late reset: the window is {by_seconds:.3} s longer than expected"
                )
            }
            Defect::EarlyRetryAfter {
                times,
                of,
                by_seconds,
            } => write!(
                f,
                "early Retry-After: {times} of {of} retries were refused, by up to {by_seconds:.3} s too early"
            ),
            Defect::WrongRemaining { times, of } => {
                write!(
                    f,
                    "wrong remaining: {times} of {of} requests were refused although some remained"
                )
            }
            Defect::OverAdmission { worst } => write!(f, "over-admission: {worst}"),
            Defect::UnderAdmission {
                per_second,
                allowed,
            } => {
                let [per_second, allowed] = [*per_second, *allowed].map(four_digits);
                write!(f, "under-admission: admits {per_second}/s of {allowed}/s")
            }
            Defect::Collapse {
                offered,
                admitted,
                of,
            } => write!(
                f,
                "collapse: when offered {}/s it admits {}/s, otherwise {}/s",
                four_digits(*offered),
                four_digits(*admitted),
                four_digits(*of)
            ),
            Defect::Ban { after_refusals } => {
                write!(
                    f,
                    "ban: nothing was admitted for a time after {after_refusals} refusals"
                )
            }
            Defect::NoRecovery {
                admitted,
                silent_seconds,
            } => write!(
                f,
                "no recovery: nothing was admitted for {} s after {admitted} admissions",
                four_digits(*silent_seconds)
            ),
            Defect::Failures { times, of } => {
                write!(
                    f,
                    "failures: {times} of {of} requests had no conclusive response"
                )
            }
        }
    }
}

impl fmt::Display for ExpectedVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExpectedVerdict::Consistent => "CONSISTENT",
            ExpectedVerdict::Differs(_) => "DIFFERS",
            ExpectedVerdict::Undecided(_) => "UNDECIDED",
        })
    }
}

/// Formats a number with four significant digits.
pub(crate) fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before = value.abs().max(1e-9).log10().floor();
    let digits = (3.0 - before).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

impl Findings {
    /// Returns the lines of the report, each with its label.
    ///
    /// The label is empty if a line continues the one before.
    ///
    /// ```
    /// use flowgate_verify::{Investigation, Simulated};
    ///
    /// let Ok(findings) = Investigation::new().run(&mut Simulated::new(|_| true.into()), &mut |_| ());
    /// assert_eq!(findings.lines()[0], ("algorithm", "no limit".to_owned()));
    /// ```
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let detected = self.detected.to_string();
        match &self.expected {
            Some(judged) => {
                let text = format!("{detected:<55} expected limit: {}", judged.verdict);
                lines.push(("algorithm", text));
                let reasons = match &judged.verdict {
                    ExpectedVerdict::Consistent => &[][..],
                    ExpectedVerdict::Differs(reasons) => reasons,
                    ExpectedVerdict::Undecided(reason) => std::slice::from_ref(reason),
                };
                let reasons = reasons.iter();
                lines.extend(
                    reasons.map(|why| ("", format!("expected {}, but {why}", judged.limit))),
                );
            }
            None => lines.push(("algorithm", detected)),
        }
        if let Some(unresolved) = &self.unresolved {
            lines.push(("so far", unresolved.clone()));
        }
        if self.detected.kind == DetectedKind::CountsRefused {
            let text = "refused requests count: a client that keeps retrying never gets in";
            lines.push(("", text.to_owned()));
        }
        if self.detected.kind == DetectedKind::CounterCountsRefused {
            let text = "refused requests count: a client is admitted again once it sends less than this, refused requests included";
            lines.push(("", text.to_owned()));
        }
        if let Some(refill) = self.detected.refill() {
            lines.push(("", refill));
        }
        if let Some(block) = &self.detected.block {
            lines.push(("", block.meaning()));
        }
        if let Some(delays) = &self.detected.delays {
            lines.push(("", delays.meaning()));
        }
        if self.detected.kind == DetectedKind::Unlimited
            && let Some(most) = self.envelope.iter().max_by_key(|point| point.admitted)
        {
            let rate = most.admitted as f64 / most.interval.max(1e-9);
            let text = format!(
                "nothing was refused up to {rate:.0}/s, {} in all",
                most.admitted
            );
            lines.push(("", text));
        }
        if let Some(worst) = &self.worst {
            lines.push(("worst interval", worst.to_string()));
        }
        for stream in &self.steady {
            let text = format!(
                "offered {}/s, admitted {}/s",
                four_digits(stream.offered),
                four_digits(stream.admitted)
            );
            lines.push(("steady", text));
        }
        if self.headers.refusals > 0 {
            lines.push(("Retry-After", self.headers.to_string()));
        }
        if let Some(limit) = &self.headers.advertised {
            lines.push(("advertised", limit.to_string()));
        }
        if let Some(keys) = &self.keys {
            lines.push(("keys", keys.to_string()));
        }
        for defect in &self.defects {
            lines.push(("defect", defect.to_string()));
        }
        if let Some(rate) = self.safe_rate() {
            let text = format!("{rate} at constant intervals: flowgate load --at-most {rate}");
            lines.push(("safe rate", text));
            let text = format!("ClientLayer::new(LeakyBucket::new(\"{rate}\".parse()?))");
            lines.push(("", text));
        }
        lines
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, text) in self.lines() {
            writeln!(f, "  {label:<15} {text}")?;
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
        assert_eq!(keys(None).to_string(), "2 keys have separate limits");
        let whole = keys(Some(1.0)).to_string();
        assert_eq!(whole, "2 keys have separate limits, Jain's index 1.000");
    }
}
