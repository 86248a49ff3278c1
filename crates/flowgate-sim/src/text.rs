//! Numbers and durations in texts of scenarios.

use std::ops::RangeInclusive;
use std::time::Duration;

use flowgate::Quota;

use crate::error::TextError;

/// A duration such as `10ms`, `1.5s` or `2min`, with the units of a [`Quota`].
pub(crate) fn duration(text: &str) -> Result<Duration, TextError> {
    // The same grammar, as the period of a quota.
    let quota: Result<Quota, _> = format!("1/{text}").parse();
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains(' ');
    match quota {
        Ok(quota) if is_plain && quota.count() == 1 => Ok(quota.period()),
        _ => Err(TextError::new(
            text,
            "not a duration; write '10ms', '2s' or '1min'",
        )),
    }
}

/// A number within a range.
pub(crate) fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, TextError> {
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(TextError::new(
            text,
            format!(
                "not a number from {} to {}, such as '1'",
                range.start(),
                range.end()
            ),
        )),
    }
}

/// A share such as `10%` or `0.1`.
pub(crate) fn share(text: &str) -> Result<f64, TextError> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(TextError::new(text, "not a share from '0%' to '100%'")),
    }
}
