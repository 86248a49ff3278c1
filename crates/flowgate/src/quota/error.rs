//! The reasons why a quota is refused.

use core::fmt;

use super::excerpt::{Excerpt, Span};
use super::ratio;
use super::unit::Period;

/// An error for a quota or a setting that is out of range.
///
/// The message names the value and the range. If the quota was text, the message quotes it, with the wrong word and its
/// position:
///
/// ```
/// use flowgate::Quota;
///
/// let error = "100/s bust 5".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid quota \"100/s bust 5\": at \"bust\" (character 7): not known here; \
///      after the rate may follow \"burst\" and \"units\", as in \"100/s burst 20\"",
/// );
/// ```
///
/// The message is one short line, however long the text was. The error is `Copy` and allocates nothing, so that a constructor
/// that returns it can be used in a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QuotaError {
    reason: Reason,
    excerpt: Option<Excerpt>,
}

/// The reason of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A fault of the quota whose text has no number.
    Text(&'static str),
    /// A fault of a setting that is not the quota's own.
    Setting(&'static str),
    // Values.
    CountZero,
    PeriodZero,
    PeriodTooLong {
        secs: u64,
    },
    RateTooFine {
        count: u64,
        period_ns: u64,
        scale: u64,
    },
    RateTooSlow {
        count: u64,
        period_ns: u64,
    },
    BurstZero,
    BurstTooLarge {
        burst: u128,
        max: u64,
    },
    ScaleOutOfRange {
        scale: u64,
    },
    // Several quotas.
    /// No quota, or more than [`Quotas`](super::Quotas) holds.
    NumberOfQuotas {
        number: usize,
        most: usize,
    },
    /// Another number of units per token than the quota before.
    ScalesDiffer {
        scale: u64,
        other: u64,
    },
    /// Bytes beside operations, or operations beside bytes.
    MeasuresDiffer {
        bytes: bool,
    },
    /// A burst that one word cannot hold together with the other quota.
    BurstTooLargeBeside {
        burst: u64,
        max: u64,
    },
    /// A limiter that counts in windows has no place for a burst.
    BurstOnWindow {
        burst: u64,
    },
    /// A limiter that remembers every admission would take more memory than it may.
    RingTooLarge {
        limit: u64,
        bytes: u64,
        most_limit: u64,
        most_bytes: u64,
    },
    /// A setting that is not the quota's own, such as a limiter's initial tokens.
    OutOfRange {
        what: &'static str,
        value: u64,
        min: u64,
        max: u64,
    },
    PerWhat,
    UnitMissing,
    ValueMissing,
    BytesExpected,
}

impl QuotaError {
    pub(crate) const fn new(reason: Reason) -> Self {
        Self {
            reason,
            excerpt: None,
        }
    }

    /// A setting `what`, which may be `min` to `max`, was `value`.
    pub(crate) const fn out_of_range(what: &'static str, value: u64, min: u64, max: u64) -> Self {
        Self::new(Reason::OutOfRange {
            what,
            value,
            min,
            max,
        })
    }

    /// Returns the setting `what`, which is `value`, if it is `min` to `max`.
    pub(crate) const fn in_range(
        what: &'static str,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<u64, Self> {
        if min <= value && value <= max {
            return Ok(value);
        }
        Err(Self::out_of_range(what, value, min, max))
    }

    /// A window has no burst, and one of `burst` tokens was set.
    pub(crate) const fn burst_on_window(burst: u64) -> Self {
        Self::new(Reason::BurstOnWindow { burst })
    }

    /// A largest limit of `limit` would take `bytes`.
    pub(crate) const fn ring_too_large(
        (limit, bytes): (u64, u64),
        (most_limit, most_bytes): (u64, u64),
    ) -> Self {
        Self::new(Reason::RingTooLarge {
            limit,
            bytes,
            most_limit,
            most_bytes,
        })
    }

    pub(super) fn in_text(reason: Reason, text: &str, word: Span) -> Self {
        Self {
            reason,
            excerpt: Some(Excerpt::new(text, word)),
        }
    }

    pub(super) const fn wrap<T: Copy>(result: Result<T, Reason>) -> Result<T, Self> {
        match result {
            Ok(value) => Ok(value),
            Err(reason) => Err(Self::new(reason)),
        }
    }
}

impl core::error::Error for QuotaError {}

impl fmt::Debug for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuotaError({self})")
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Reason::OutOfRange {
            what,
            value,
            min,
            max,
        } = self.reason
        {
            return write!(f, "{what} of {value} is out of range: {min} to {max}");
        }
        if let Reason::RingTooLarge {
            limit,
            bytes,
            most_limit,
            most_bytes,
        } = self.reason
        {
            return write!(
                f,
                "a limit of {limit} takes {bytes} bytes to remember; it must be at most {most_limit}, \
                 which takes {most_bytes}"
            );
        }
        if let Reason::Setting(text) = self.reason {
            return f.write_str(text);
        }
        f.write_str("invalid quota")?;
        let word = match &self.excerpt {
            None => "",
            Some(excerpt) => {
                excerpt.write(f)?;
                excerpt.word()
            }
        };
        f.write_str(": ")?;
        self.reason.write(f, word)
    }
}

impl Reason {
    pub(super) const COUNT_TOO_LARGE: Self =
        Self::Text("too large; a count is at most 18446744073709551615");
    /// Two quotas for a limiter that takes one.
    pub(super) const ONE_QUOTA: Self =
        Self::Text("2 quotas; only a token bucket takes two, and a gate any number of limiters");
    /// Nothing on one side of a ";".
    pub(super) const QUOTA_MISSING: Self =
        Self::Text("a quota is missing beside it; write both, as in \"10/s; 1000/day\"");
    pub(super) const EMPTY: Self =
        Self::Text("it is empty; write a count and a period, as in \"100/s\"");
    pub(super) const COUNT_MISSING: Self =
        Self::Text("a count is missing before \"/\"; write \"100/s\" for 100 per second");
    pub(super) const NOT_A_NUMBER: Self =
        Self::Text("not a number; write it as in 100, 2.5 or 1_000");
    pub(super) const NEGATIVE: Self = Self::Text("a number has no sign; it must be greater than 0");
    pub(super) const EXPONENT: Self =
        Self::Text("exponents are not read; write all digits, or a suffix, as in 10M");
    pub(super) const NOT_FINITE: Self =
        Self::Text("not a finite number; write it as in 100 or 2.5");
    pub(super) const TOO_MANY_DIGITS: Self =
        Self::Text("too many digits; at most 20 before the point and 18 after it");
    pub(super) const UNKNOWN_SUFFIX: Self = Self::Text(
        "not a suffix of a count; use k, M, G or T, or for bytes B, kB, MB, GB, TB, KiB, \
        MiB, GiB or TiB, as in \"10k/s\" and \"10MiB/s\"",
    );
    pub(super) const PERIOD_MISSING: Self =
        Self::Text("a period is missing after \"/\"; write \"/s\" for each second");
    pub(super) const UNKNOWN_UNIT: Self =
        Self::Text("not a unit of time; use ns, us, ms, s, min, h, d, w or y");
    pub(super) const UPPER_CASE_UNIT: Self =
        Self::Text("units of time are in lower case: ns, us, ms, s, min, h, d, w or y");
    pub(super) const MONTH: Self =
        Self::Text("months differ in length; say how many days, as in \"30d\"");
    pub(super) const PERIOD_NOT_WHOLE: Self = Self::Text("not a whole number of nanoseconds");
    pub(super) const PERIOD_OVERFLOW: Self = Self::Text("too long; a period is at most 584y");
    pub(super) const TOO_SLOW: Self = Self::Text("too slow; there must be at least one in 292y");
    pub(super) const TOO_MANY_PLACES: Self = Self::Text(
        "more places after the point than can be kept exactly; write a fraction, as in \"10/13s\"",
    );
    pub(super) const UNKNOWN_WORD: Self = Self::Text(
        "not known here; after the rate may follow \"burst\" and \"units\", as in \
        \"100/s burst 20\"",
    );
    pub(super) const REPEATED: Self = Self::Text("given twice; give it once");
    pub(super) const NOT_WHOLE: Self = Self::Text("must be a whole number");
    pub(super) const BYTES_UNEXPECTED: Self =
        Self::Text("this is in bytes and the count is not; write it without a B");
    pub(super) const VALUE_TOO_LARGE: Self =
        Self::Text("too large; it is at most 18446744073709551615");
    /// An alignment of intervals, and a bucket that does not refill in intervals.
    pub(crate) const ALIGNED_WITHOUT_INTERVAL: Self = Self::Setting(
        "an alignment has no effect on `Refill::Continuous`; set `Refill::Interval`, or leave it out",
    );
    /// A quota for a limiter that no quota describes.
    pub(crate) const NOT_BY_QUOTA: Self =
        Self::Setting("this limiter has no quota to replace; use the methods of its own type");
    /// Windows aligned to the wall clock, on a system without one.
    #[cfg(not(feature = "std"))]
    pub(crate) const NO_WALL_CLOCK: Self = Self::Text(
        "windows by the calendar need the feature std; align a FixedWindow to an instant instead",
    );

    /// For a panic in a constant, which cannot print a number.
    pub(super) const fn summary(self) -> &'static str {
        match self {
            Self::CountZero => "a quota's count must be 1 or more, and was 0",
            Self::BurstZero => "a quota's burst must be 1 or more, and was 0",
            Self::RateTooFine { .. } => {
                "a quota's count cannot be kept exactly: over 2147483648, it must share enough \
                 factors with the period in nanoseconds; `Quota::new` names one that can"
            }
            Self::BurstTooLarge { .. } => {
                "a quota's burst is too large for its rate; `Quota::try_burst` names the largest"
            }
            _ => "a quota is out of range; `Quota::new` says why",
        }
    }

    fn write(self, f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
        match self {
            Self::CountZero => f.write_str("a count of 0 admits nothing; it must be 1 or more"),
            Self::PeriodZero => f.write_str("a period of 0 is no time; it must be 1ns or more"),
            Self::PeriodTooLong { secs } => write!(
                f,
                "a period of {secs}s is too long; it must be at most 18446744073s (584 years)"
            ),
            Self::RateTooFine {
                count,
                period_ns,
                scale,
            } => too_fine(f, count, period_ns, scale),
            Self::RateTooSlow { count, period_ns } => write!(
                f,
                "{count} per {} is too slow; in lowest terms its period must be at most \
                 {}ns (292 years)",
                Period(period_ns),
                ratio::MAX_NANOS
            ),
            Self::BurstZero => f.write_str("a burst of 0 admits nothing; it must be 1 or more"),
            Self::BurstTooLarge { max: 0, .. } => {
                f.write_str("too many units per token for this rate; no burst can be kept exactly")
            }
            Self::BurstTooLarge { burst, max } => write!(
                f,
                "a burst of {burst} is too large for this rate; it must be 1 to {max}"
            ),
            Self::ScaleOutOfRange { scale } => write!(
                f,
                "a token cannot be divided into {scale} units; it must be 1 to {}",
                ratio::MAX_SCALE
            ),
            Self::NumberOfQuotas { number, most } => write!(
                f,
                "{number} quotas; one limiter takes 1 to {most}, and a gate any number of limiters"
            ),
            Self::ScalesDiffer { scale, other } => write!(
                f,
                "{scale} units per token, and {other} in the quota before; it must be the same in both"
            ),
            Self::MeasuresDiffer { bytes: true } => {
                f.write_str("this is in bytes and the quota before is not; both must be the same")
            }
            Self::MeasuresDiffer { bytes: false } => {
                f.write_str("the quota before is in bytes and this is not; both must be the same")
            }
            Self::BurstTooLargeBeside { burst, max } => write!(
                f,
                "a burst of {burst} is too large beside the other quota; it must be 1 to {max}"
            ),
            Self::BurstOnWindow { burst } => write!(
                f,
                "a window has no burst, and one of {burst} was set; its whole count can be taken in one \
                 burst"
            ),
            // Not about a quota.
            Self::Text(text) | Self::Setting(text) => f.write_str(text),
            Self::OutOfRange { .. } | Self::RingTooLarge { .. } => Ok(()),
            Self::PerWhat => write!(f, "say per what, as in \"{}/s\"", word.escape_debug()),
            Self::UnitMissing => write!(f, "say of what, as in \"{}s\"", word.escape_debug()),
            Self::ValueMissing => {
                write!(
                    f,
                    "a number is missing after it; write \"{} 20\"",
                    word.escape_debug()
                )
            }
            Self::BytesExpected => write!(
                f,
                "the count is in bytes and this is not; write \"{}B\"",
                word.escape_debug()
            ),
        }
    }
}

fn too_fine(f: &mut fmt::Formatter<'_>, count: u64, period_ns: u64, scale: u64) -> fmt::Result {
    let (units, nanos) = ratio::lowest_terms(u128::from(count) * u128::from(scale), period_ns);
    let period = Period(period_ns);
    write!(f, "{count} per {period}")?;
    if scale != 1 {
        write!(f, " in {scale} units per token")?;
    }
    write!(
        f,
        " cannot be kept exactly; in lowest terms it is {units} per {nanos}ns, and the first of \
         these must be at most {}",
        ratio::MAX_UNITS
    )?;
    match rounder(count, period_ns, scale) {
        Some(rounder) => write!(f, "; {rounder} per {period} can be kept"),
        None => Ok(()),
    }
}

/// The count cut to fewer digits until it can be kept exactly.
fn rounder(count: u64, period_ns: u64, scale: u64) -> Option<u64> {
    let mut step: u64 = 10;
    while step <= count {
        let cut = count - count % step;
        let (units, _) = ratio::lowest_terms(u128::from(cut) * u128::from(scale), period_ns);
        if units <= u128::from(ratio::MAX_UNITS) {
            return Some(cut);
        }
        step = step.checked_mul(10)?;
    }
    None
}
