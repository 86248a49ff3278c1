//! Numbers and counts as they are written, exactly.

use super::excerpt::Span;
use super::scan::{Fault, Scanner};
use super::unit::{Suffix, is_requests, per_time};
use super::{Reason, ratio};

/// The number and suffix of a count.
pub(super) struct Amount {
    pub(super) number: Number,
    pub(super) bytes: bool,
    pub(super) word: Span,
}

/// A decimal as a fraction in lowest terms.
#[derive(Clone, Copy)]
pub(super) struct Number {
    pub(super) over: u128,
    pub(super) under: u64,
}

/// `100`, `2.5k`, `10 MiB`.
pub(super) fn amount(s: &mut Scanner<'_>) -> Result<Amount, Fault> {
    let (number, digits) = number(s)?;
    let attached = s.look();
    let suffix = if is_requests(s.str(attached)) || per_time(s.str(attached)).is_some() {
        None
    } else if s.str(attached).is_empty() {
        // "10 MiB" has a suffix, "10 burst" has not.
        let end = s.at;
        s.skip_space();
        let apart = s.look();
        let suffix = Suffix::named(s.str(apart)).map(|suffix| (suffix, apart));
        if suffix.is_none() {
            s.at = end;
        }
        suffix
    } else {
        let suffix = Suffix::named(s.str(attached));
        Some((
            suffix.ok_or(attached.fault(Reason::UNKNOWN_SUFFIX))?,
            attached,
        ))
    };
    let Some((suffix, name)) = suffix else {
        return Ok(Amount {
            number,
            bytes: false,
            word: digits,
        });
    };
    s.at = name.end;
    let word = digits.to(name);
    let number = number
        .times(suffix.times)
        .ok_or(word.fault(Reason::COUNT_TOO_LARGE))?;
    Ok(Amount {
        number,
        bytes: suffix.bytes,
        word,
    })
}

impl Number {
    /// `None` where it is far beyond 64 bits.
    fn times(self, n: u64) -> Option<Self> {
        let g = ratio::gcd(self.under, n);
        Some(Self {
            over: self.over.checked_mul(u128::from(n / g))?,
            under: self.under / g,
        })
    }
}

const MAX_WHOLE_DIGITS: usize = 20;
const MAX_PLACES: usize = 18;

pub(super) fn starts_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | '_')
}

/// `100`, `1_000`, `2.5`: exactly, as a fraction, with where it stands.
pub(super) fn number(s: &mut Scanner<'_>) -> Result<(Number, Span), Fault> {
    let word = s.look();
    let digits = s.take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '_'));
    let written = s.str(digits);
    if written.is_empty() {
        return Err(word.fault(match s.str(word) {
            signed if signed.starts_with(['-', '+', '−']) => Reason::NEGATIVE,
            name if is_not_finite(name) => Reason::NOT_FINITE,
            _ => Reason::NOT_A_NUMBER,
        }));
    }
    let ends_or_has_a_suffix = s
        .peek()
        .is_none_or(|c| c.is_whitespace() || c.is_alphabetic() || c == '/');
    if !ends_or_has_a_suffix {
        return Err(word.fault(Reason::NOT_A_NUMBER));
    }
    if s.is_exponent() {
        return Err(word.fault(Reason::EXPONENT));
    }
    let (whole, fraction) = match written.split_once('.') {
        Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
        Some(_) => return Err(word.fault(Reason::NOT_A_NUMBER)),
        None => (written, ""),
    };
    if !is_digits(whole) {
        return Err(word.fault(Reason::NOT_A_NUMBER));
    }
    let fraction = fraction.trim_end_matches(['0', '_']);
    let is_long = |text: &str, most| text.chars().filter(|c| *c != '_').count() > most;
    if is_long(whole.trim_start_matches(['0', '_']), MAX_WHOLE_DIGITS)
        || is_long(fraction, MAX_PLACES)
    {
        return Err(word.fault(Reason::TOO_MANY_DIGITS));
    }
    let mut over: u128 = 0;
    let mut under: u64 = 1;
    // 38 digits at most: no overflow in either.
    for digit in whole.chars().filter_map(|c| c.to_digit(10)) {
        over = over * 10 + u128::from(digit);
    }
    for digit in fraction.chars().filter_map(|c| c.to_digit(10)) {
        over = over * 10 + u128::from(digit);
        under *= 10;
    }
    let g = ratio::gcd(under, (over % u128::from(under)) as u64);
    Ok((
        Number {
            over: over / u128::from(g),
            under: under / g,
        },
        digits,
    ))
}

/// Digits, with single `_` between them.
fn is_digits(text: &str) -> bool {
    text.split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()))
}

fn is_not_finite(word: &str) -> bool {
    ["nan", "inf", "infinity", "∞"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(word))
}
