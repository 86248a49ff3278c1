//! Several quotas for one limiter.

use core::fmt;
use core::str::FromStr;

use super::excerpt::Span;
use super::fit::{self, Share};
use super::parse::{Written, written};
use super::scan::{Fault, Scanner};
use super::{Burst, Measure, Quota, QuotaError, Reason};

/// The most quotas that a [`Quotas`] holds.
pub(super) const MOST: usize = 2;

/// One quota, or two that apply together: a peak rate and a sustained one.
///
/// Use it for APIs that allow, for example, 10 requests per second and 1,000 per day. A limiter that is built from both admits
/// an operation only if both quotas do.
///
/// ```
/// use flowgate::{Quota, Quotas};
///
/// let quotas: Quotas = "10/s burst 5; 1000/day".parse()?;
/// assert_eq!(quotas.as_slice(), [Quota::per_second(10).burst(5), Quota::per_day(1000)]);
/// assert_eq!(quotas, Quotas::new([Quota::per_second(10).burst(5), Quota::per_day(1000)])?);
/// assert_eq!(quotas.to_string(), "10/s burst 5; 1000/day");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Which pairs make sense
///
/// Every pair is accepted in any order, including pairs in which one quota has no effect. In `"10/s; 1000000/day"` the second
/// quota is never reached, because 10 per second is at most 864,000 per day. The tighter quota then decides alone.
///
/// # Amounts
///
/// One operation costs the same under both quotas. So both must count the same: bytes or operations, with the same
/// [`units_per_token`](Quota::units_per_token). To limit requests *and* bytes, put two limiters into a
/// [`Gate`](crate::Gate).
///
/// # Number
///
/// A value holds 1 or 2 quotas. Two quotas fit into one 128-bit word, so that a decision on both is one compare-and-swap. Three
/// would leave 37 bits for each, which is too little for the nanoseconds of a day. A [`Gate`](crate::Gate) combines any number
/// of limiters, also all or none, at the cost of one decision each.
///
/// # Equality
///
/// Two values are equal if they hold equal quotas in the same order. [`Display`](fmt::Display), [`FromStr`], serde
/// (feature `serde`) and `==` agree, as they do for [`Quota`].
///
/// # Text
///
/// The [text forms](Quota#text) of the quotas, with `;` between them. An error quotes the word that is wrong:
///
/// ```
/// # use flowgate::Quotas;
/// let error = "10/s burst 5; 1000/fortnight".parse::<Quotas>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid quota \"10/s burst 5; 1000/fortnight\": at \"fortnight\" (character 20): \
///      not a unit of time; use ns, us, ms, s, min, h, d, w or y",
/// );
/// ```
///
/// # Range
///
/// Each quota must be in its own [range](Quota#range). Every pair with counts from 1 to 10⁹ per second, minute, hour, day or
/// 30 days and bursts from 1 to 10⁹ is accepted.
///
/// Most pairs are kept exactly: if the two bursts together take at most 112 bits. A burst is counted here in units of 1/*c* ns,
/// where *c* per *p* ns is the rate in lowest terms. `"10/s burst 5; 1000/day"` takes 76 bits.
///
/// Larger pairs, such as `"999983/s; 999999937/30d"`, are rounded: each grant costs slightly more than the quota states. The
/// difference is less than 1/1,000,000 of a unit within the range above, and less than 1/1024 of a unit elsewhere. A burst that
/// cannot be kept to 1/1024 of a unit is refused, and the error names the largest burst that can.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quotas {
    /// Those after `len` repeat the first.
    quotas: [Quota; MOST],
    len: u8,
}

impl Quotas {
    /// Creates the set of these quotas.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if there are none or more than 2, if they do not count the same (see [Amounts](#amounts)), or if
    /// a burst is too large beside the other quota (see [Range](#range)).
    ///
    /// ```
    /// # use flowgate::{Quota, Quotas};
    /// let quotas = Quotas::new([Quota::per_second(10), Quota::per_day(1000)])?;
    /// assert_eq!(quotas.len(), 2);
    ///
    /// let error = Quotas::new([Quota::per_second(10); 3]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "invalid quota: 3 quotas; one limiter takes 1 to 2, and a gate any number of limiters",
    /// );
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn new(quotas: impl IntoIterator<Item = Quota>) -> Result<Self, QuotaError> {
        let mut quotas = quotas.into_iter();
        match (quotas.next(), quotas.next(), quotas.next()) {
            (Some(first), None, _) => Ok(Self::one(first)),
            (Some(first), Some(second), None) => Self::two(first, second),
            (None, ..) => Err(QuotaError::new(Reason::NumberOfQuotas {
                number: 0,
                most: MOST,
            })),
            (.., Some(_)) => {
                // An iterator without an end has more than it takes to say so.
                let number = MOST + 1 + quotas.take(usize::from(u16::MAX)).count();
                Err(QuotaError::new(Reason::NumberOfQuotas {
                    number,
                    most: MOST,
                }))
            }
        }
    }

    /// Creates a set of one quota.
    ///
    /// ```
    /// # use flowgate::{Quota, Quotas};
    /// const LIMIT: Quotas = Quotas::one(Quota::per_second(10));
    /// assert_eq!(LIMIT, Quota::per_second(10).into());
    /// ```
    #[must_use]
    pub const fn one(quota: Quota) -> Self {
        Self {
            quotas: [quota; MOST],
            len: 1,
        }
    }

    /// Creates a set of two quotas.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the same cases as [`new`](Self::new).
    ///
    /// ```
    /// # use flowgate::{Quota, Quotas};
    /// const LIMIT: Quotas = match Quotas::two(Quota::per_second(10), Quota::per_day(1000)) {
    ///     Ok(quotas) => quotas,
    ///     Err(_) => panic!("out of range"),
    /// };
    /// assert_eq!(LIMIT.to_string(), "10/s; 1000/day");
    ///
    /// let error = Quotas::two("1MiB/s".parse()?, Quota::per_day(1000)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "invalid quota: the quota before is in bytes and this is not; both must be the same",
    /// );
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub const fn two(first: Quota, second: Quota) -> Result<Self, QuotaError> {
        match Self::checked(first, second) {
            Ok(quotas) => Ok(quotas),
            Err((reason, _)) => Err(QuotaError::new(reason)),
        }
    }

    /// Every pair is made here, so every pair is in range.
    const fn checked(first: Quota, second: Quota) -> Result<Self, (Reason, Part)> {
        let bytes = matches!(second.measure, Measure::Bytes);
        if bytes != matches!(first.measure, Measure::Bytes) {
            return Err((Reason::MeasuresDiffer { bytes }, Part::Count));
        }
        if first.scale != second.scale {
            let (scale, other) = (second.scale, first.scale);
            return Err((Reason::ScalesDiffer { scale, other }, Part::Units));
        }
        if fit::shares(&first, &second).is_none() {
            return Err(too_large(&first, &second));
        }
        Ok(Self {
            quotas: [first, second],
            len: 2,
        })
    }

    /// The quota, for a limiter that takes one.
    pub(crate) fn only(&self) -> Result<Quota, QuotaError> {
        match self.as_slice() {
            [quota] => Ok(*quota),
            _ => Err(QuotaError::new(Reason::ONE_QUOTA)),
        }
    }

    /// Returns the quotas, in the order in which they were given.
    #[must_use]
    pub const fn as_slice(&self) -> &[Quota] {
        self.quotas.split_at(self.len()).0
    }

    /// Returns the number of quotas: 1 or 2.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Reports whether a limiter keeps these quotas exactly.
    ///
    /// If not, it keeps them with the small error in [Range](#range).
    ///
    /// ```
    /// # use flowgate::Quotas;
    /// assert!("10/s burst 5; 1000/day".parse::<Quotas>()?.is_exact());
    /// assert!(!"999983/s; 999999937/30d".parse::<Quotas>()?.is_exact());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        let [first, second] = self.shares();
        first.grain == 0 && second.grain == 0
    }

    /// How their states share a word.
    pub(crate) const fn shares(&self) -> [Share; MOST] {
        let [first, second] = &self.quotas;
        if self.len == 1 {
            return fit::ALONE;
        }
        match fit::shares(first, second) {
            Some(shares) => shares,
            // `checked` let no such pair through.
            None => fit::ALONE,
        }
    }
}

impl From<Quota> for Quotas {
    fn from(quota: Quota) -> Self {
        Self::one(quota)
    }
}

/// The part of a pair that is refused.
#[derive(Clone, Copy)]
enum Part {
    /// The second quota's count.
    Count,
    /// The second quota's units per token.
    Units,
    FirstBurst,
    SecondBurst,
}

/// The reason why two quotas do not fit together: the burst that takes more ticks, and the largest that would fit.
const fn too_large(first: &Quota, second: &Quota) -> (Reason, Part) {
    let (blamed, other, part) = if burst_ticks(first) > burst_ticks(second) {
        (first, second, Part::FirstBurst)
    } else {
        (second, first, Part::SecondBurst)
    };
    let max = match greatest_burst_beside(blamed, other) {
        // The other one is too large as well.
        0 => greatest_burst_beside(blamed, &with_burst_of_1(other)),
        max => max,
    };
    let burst = blamed.max_burst();
    (Reason::BurstTooLargeBeside { burst, max }, part)
}

const fn burst_ticks(quota: &Quota) -> u128 {
    quota.burst_units() as u128 * quota.ratio().nanos as u128
}

/// The most tokens, less than its burst, with which `quota` fits beside `other`; 0: none.
const fn greatest_burst_beside(quota: &Quota, other: &Quota) -> u64 {
    let (mut fits, mut too_many) = (0, quota.max_burst());
    while fits + 1 < too_many {
        let tokens = fits + (too_many - fits) / 2;
        let is_kept = match quota.with_burst(Burst::Set(tokens)) {
            Ok(quota) => fit::shares(&quota, other).is_some(),
            Err(_) => false,
        };
        if is_kept {
            fits = tokens;
        } else {
            too_many = tokens;
        }
    }
    fits
}

const fn with_burst_of_1(quota: &Quota) -> Quota {
    match quota.with_burst(Burst::Set(1)) {
        Ok(quota) => quota,
        // A smaller burst is in range where a larger one is.
        Err(_) => *quota,
    }
}

/// Reads [text forms](Quota#text) of quotas with `;` between them.
///
/// # Errors
///
/// Returns [`QuotaError`], which quotes the word that is wrong, if a part is not a quota or if [`Quotas::new`] returns an
/// error.
///
/// ```
/// # use flowgate::Quotas;
/// let error = "10/s; 1000/day; 5000/week".parse::<Quotas>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid quota \"10/s; 1000/day; 5000/week\": at \"5000/week\" (character 17): \
///      3 quotas; one limiter takes 1 to 2, and a gate any number of limiters",
/// );
///
/// let error = "10/s;".parse::<Quotas>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid quota \"10/s;\": at \";\" (character 5): \
///      a quota is missing beside it; write both, as in \"10/s; 1000/day\"",
/// );
/// ```
impl FromStr for Quotas {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        read(text).map_err(|fault| QuotaError::in_text(fault.reason, text, fault.word))
    }
}

fn read(text: &str) -> Result<Quotas, Fault> {
    let mut parts = parts(text);
    let number = parts.clone().count();
    let first = parts.next().unwrap_or(Span { start: 0, end: 0 });
    let Some(second) = parts.next() else {
        let mut all = Scanner { text, at: 0 };
        return written(&mut all).map(|first| Quotas::one(first.quota));
    };
    let first = part(text, first)?;
    let second = part(text, second)?;
    if let Some(third) = parts.next() {
        part(text, third)?;
        let rest = Span {
            start: third.start,
            end: text.len(),
        };
        return Err(trimmed(text, rest).fault(Reason::NumberOfQuotas { number, most: MOST }));
    }
    Quotas::checked(first.quota, second.quota).map_err(|(reason, part)| {
        match part {
            Part::Count => second.count,
            Part::Units => second.units,
            Part::FirstBurst => first.burst,
            Part::SecondBurst => second.burst,
        }
        .fault(reason)
    })
}

/// The parts of the text between the semicolons.
fn parts(text: &str) -> impl Iterator<Item = Span> + Clone {
    let ends = text.match_indices(SEPARATOR).map(|(at, _)| at);
    let starts = ends.clone().map(|at| at + SEPARATOR.len_utf8());
    let spans = core::iter::once(0).chain(starts);
    spans
        .zip(ends.chain(core::iter::once(text.len())))
        .map(|(start, end)| Span { start, end })
}

const SEPARATOR: char = ';';

/// The quota in one part of the text, which has several.
fn part(text: &str, span: Span) -> Result<Written, Fault> {
    if text[span.start..span.end].trim().is_empty() {
        // The semicolon before it, or the one after it where it is the first.
        let at = if span.start == 0 {
            span.end
        } else {
            span.start - 1
        };
        let separator = Span {
            start: at,
            end: at + SEPARATOR.len_utf8(),
        };
        return Err(separator.fault(Reason::QUOTA_MISSING));
    }
    // Up to the end of the part, so that places in it are places in the text.
    written(&mut Scanner {
        text: &text[..span.end],
        at: span.start,
    })
}

/// `span` without the space around it.
fn trimmed(text: &str, span: Span) -> Span {
    let part = &text[span.start..span.end];
    let start = span.start + (part.len() - part.trim_start().len());
    Span {
        start,
        end: start + part.trim().len(),
    }
}

/// The canonical text form: that of each quota, with `"; "` between them.
///
/// ```
/// # use flowgate::Quotas;
/// assert_eq!(" 10/1s;24000/24h ".parse::<Quotas>()?.to_string(), "10/s; 24000/day");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
impl fmt::Display for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, quota) in self.as_slice().iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            quota.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quotas({self})")
    }
}
