//! Reads a quota from text. The form is documented at [`Quota`].

use core::str::FromStr;

use super::excerpt::Span;
use super::number::{Amount, Number, amount, number, starts_number};
use super::scan::{Fault, Scanner};
use super::unit::{TimeUnit, is_requests, per_time};
use super::{Burst, Measure, Quota, QuotaError, Reason, ratio};

/// Reads the [text form](Quota#text).
///
/// # Errors
///
/// Returns [`QuotaError`] if the text is not a quota, or if the quota is out of [range](Quota#range). The error quotes the word
/// that is wrong.
///
/// ```
/// # use flowgate::Quota;
/// let quota: Quota = "100/s burst 20".parse()?;
/// assert_eq!(quota, Quota::per_second(100).burst(20));
///
/// let error = "5".parse::<Quota>().unwrap_err();
/// assert_eq!(error.to_string(), "invalid quota \"5\": say per what, as in \"5/s\"");
///
/// let error = "100/s burst 0".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid quota \"100/s burst 0\": at \"0\" (character 13): \
///      a burst of 0 admits nothing; it must be 1 or more",
/// );
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        written(&mut Scanner { text, at: 0 })
            .map(|written| written.quota)
            .map_err(|fault| QuotaError::in_text(fault.reason, text, fault.word))
    }
}

/// A quota, and the words that gave its parts: the count's where a part was not written.
pub(super) struct Written {
    pub(super) quota: Quota,
    pub(super) count: Span,
    pub(super) burst: Span,
    pub(super) units: Span,
}

/// The whole grammar of one quota, up to the end of the scanner's text.
pub(super) fn written(s: &mut Scanner<'_>) -> Result<Written, Fault> {
    s.skip_space();
    if s.is_at_end() {
        return Err(s.all().fault(Reason::EMPTY));
    }
    if s.peek() == Some('/') {
        return Err(s.character().fault(Reason::COUNT_MISSING));
    }
    let count = amount(s)?;
    if count.number.over == 0 {
        return Err(count.word.fault(Reason::CountZero));
    }
    s.skip_space();
    let word = s.look();
    let (period_ns, period) = match per_time(s.str(word)) {
        Some(period_ns) => {
            s.at = word.end;
            (period_ns, word)
        }
        None => {
            per(s, &count)?;
            period(s)?
        }
    };
    let options = options(s, count.bytes)?;
    build(&count, period_ns, period, &options)
}

/// Puts the parts together, and finds the word to blame where they are out of range.
/// What comes between the count and its period: "/" or "per", after what is counted, if that is written.
fn per(s: &mut Scanner<'_>, count: &Amount) -> Result<(), Fault> {
    let word = s.look();
    if is_requests(s.str(word)) && !count.bytes {
        s.at = word.end;
        s.skip_space();
    }
    if s.peek() == Some('/') {
        s.character();
        return Ok(());
    }
    let word = s.look();
    match s.str(word) {
        "per" => {
            s.at = word.end;
            Ok(())
        }
        word if s.is_at_end() || is_option(word) => Err(count.word.fault(Reason::PerWhat)),
        _ => Err(word.fault(Reason::UNKNOWN_SUFFIX)),
    }
}

fn build(
    count: &Amount,
    period_ns: u64,
    period: Span,
    options: &Options,
) -> Result<Written, Fault> {
    let Number { over, under } = count.number;
    let tokens = u64::try_from(over).map_err(|_| count.word.fault(Reason::COUNT_TOO_LARGE))?;
    // 2.5 per second is 5 per 2 seconds.
    let Some(period_ns) = period_ns.checked_mul(under) else {
        let each_ns = u128::from(period_ns) * u128::from(under) / u128::from(tokens.max(1));
        return Err(if each_ns > u128::from(ratio::MAX_NANOS) {
            count.word.to(period).fault(Reason::TOO_SLOW)
        } else {
            count.word.fault(Reason::TOO_MANY_PLACES)
        });
    };
    let default_burst = tokens.div_ceil(under);
    let (burst, burst_word) = match options.burst {
        Some((tokens, word)) => (Burst::Set(tokens), word),
        None => (Burst::Implied(default_burst), count.word),
    };
    let (scale, scale_word) = options.units.unwrap_or((1, count.word));
    let measure = if count.bytes {
        Measure::Bytes
    } else {
        Measure::Operations
    };
    let checked = Quota::checked(tokens, period_ns, burst, scale, measure);
    let written = |quota| Written {
        quota,
        count: count.word,
        burst: burst_word,
        units: scale_word,
    };
    checked.map(written).map_err(|reason| {
        match reason {
            Reason::ScaleOutOfRange { .. } | Reason::BurstTooLarge { max: 0, .. } => scale_word,
            Reason::BurstZero | Reason::BurstTooLarge { .. } => burst_word,
            Reason::RateTooFine { .. } if scale != 1 => scale_word,
            Reason::RateTooSlow { .. } => count.word.to(period),
            Reason::PeriodZero => period,
            _ => count.word,
        }
        .fault(reason)
    })
}

/// `10s`, `day`: in nanoseconds, and where it stands.
fn period(s: &mut Scanner<'_>) -> Result<(u64, Span), Fault> {
    s.skip_space();
    if s.is_at_end() {
        return Err(s.here().fault(Reason::PERIOD_MISSING));
    }
    let number = match s.peek() {
        Some(c) if starts_number(c) => Some(number(s)?),
        _ => None,
    };
    s.skip_space();
    let word = s.look();
    let name = s.str(word);
    if let Some((_, digits)) = number
        && (name.is_empty() || is_option(name))
    {
        return Err(digits.fault(Reason::UnitMissing));
    }
    let Some(unit) = TimeUnit::named(name) else {
        return Err(word.fault(match name {
            "" => Reason::PERIOD_MISSING,
            "mo" | "mon" | "month" | "months" => Reason::MONTH,
            _ if TimeUnit::is_upper_case(name) => Reason::UPPER_CASE_UNIT,
            _ => Reason::UNKNOWN_UNIT,
        }));
    };
    s.at = word.end;
    let Some((Number { over, under }, digits)) = number else {
        return Ok((unit.nanos, word));
    };
    let word = digits.to(word);
    if over == 0 {
        return Err(word.fault(Reason::PeriodZero));
    }
    if !unit.nanos.is_multiple_of(under) {
        return Err(word.fault(Reason::PERIOD_NOT_WHOLE));
    }
    over.checked_mul(u128::from(unit.nanos / under))
        .and_then(|ns| u64::try_from(ns).ok())
        .map(|ns| (ns, word))
        .ok_or(word.fault(Reason::PERIOD_OVERFLOW))
}

/// What may follow the rate: each value with the word that gave it.
#[derive(Default)]
struct Options {
    burst: Option<(u64, Span)>,
    units: Option<(u64, Span)>,
}

const BURST: &str = "burst";
const UNITS: &str = "units";

fn is_option(word: &str) -> bool {
    word == BURST || word == UNITS
}

/// `burst 20 units 1000`, each at most once, in either order.
fn options(s: &mut Scanner<'_>, bytes: bool) -> Result<Options, Fault> {
    let mut options = Options::default();
    loop {
        s.skip_space();
        if s.is_at_end() {
            return Ok(options);
        }
        let name = s.take_while(|c| !c.is_whitespace() && c != '=');
        let (option, bytes) = match s.str(name) {
            BURST => (&mut options.burst, bytes),
            UNITS => (&mut options.units, false),
            _ => return Err(name.fault(Reason::UNKNOWN_WORD)),
        };
        if option.is_some() {
            return Err(name.fault(Reason::REPEATED));
        }
        if s.peek() == Some('=') {
            s.character();
        }
        s.skip_space();
        if s.is_at_end() {
            return Err(name.fault(Reason::ValueMissing));
        }
        let value = amount(s)?;
        let reason = match value.number {
            Number { under: 2.., .. } => Reason::NOT_WHOLE,
            // Nothing is nothing, in bytes or not: let the range say so.
            Number { over: 1.., .. } if bytes && !value.bytes => Reason::BytesExpected,
            Number { over: 1.., .. } if value.bytes && !bytes => Reason::BYTES_UNEXPECTED,
            Number { over, .. } => match u64::try_from(over) {
                Ok(n) => {
                    *option = Some((n, value.word));
                    continue;
                }
                Err(_) => Reason::VALUE_TOO_LARGE,
            },
        };
        return Err(value.word.fault(reason));
    }
}
