//! Lists of statuses, as they are typed: `200-299,304`.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use hyper::StatusCode;

/// List of statuses.
///
/// ```
/// use flowgate_load::verify::StatusRanges;
///
/// let statuses: StatusRanges = "200-299,404".parse()?;
/// assert_eq!(statuses.to_string(), "200-299,404");
/// assert!("2xx".parse::<StatusRanges>().is_err());
/// # Ok::<(), flowgate_load::verify::StatusRangesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRanges(Vec<RangeInclusive<u16>>);

/// Error of parsing a list of statuses.
///
/// # Examples
///
/// ```
/// use flowgate_load::verify::{StatusRanges, StatusRangesError};
///
/// let error: StatusRangesError = "2xx".parse::<StatusRanges>().unwrap_err();
/// assert_eq!(error.to_string(), "\"2xx\" is not a list of statuses from 200 to 599: write 200-299,304");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRangesError(String);

impl StatusRanges {
    /// Returns 200 to 299.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::StatusRanges;
    ///
    /// assert_eq!(StatusRanges::success().to_string(), "200-299");
    /// ```
    pub fn success() -> StatusRanges {
        StatusRanges(vec![200..=299])
    }

    /// Returns 429 and 503.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::StatusRanges;
    ///
    /// assert_eq!(StatusRanges::refusal().to_string(), "429,503");
    /// ```
    pub fn refusal() -> StatusRanges {
        StatusRanges(vec![429..=429, 503..=503])
    }

    /// Returns whether the list contains `status`.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::StatusRanges;
    /// use hyper::StatusCode;
    ///
    /// let statuses: StatusRanges = "200-299,404".parse()?;
    /// assert!(statuses.contains(StatusCode::NOT_FOUND));
    /// assert!(!statuses.contains(StatusCode::FORBIDDEN));
    /// # Ok::<(), flowgate_load::verify::StatusRangesError>(())
    /// ```
    pub fn contains(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }

    /// Returns whether both lists have a status in common.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::verify::StatusRanges;
    ///
    /// let admitted: StatusRanges = "200-499".parse()?;
    /// assert!(admitted.overlaps(&StatusRanges::refusal())); // 429 would be both
    /// assert!(!StatusRanges::success().overlaps(&StatusRanges::refusal()));
    /// # Ok::<(), flowgate_load::verify::StatusRangesError>(())
    /// ```
    pub fn overlaps(&self, other: &StatusRanges) -> bool {
        let touch = |one: &RangeInclusive<u16>, two: &RangeInclusive<u16>| {
            one.start() <= two.end() && two.start() <= one.end()
        };
        self.0
            .iter()
            .any(|one| other.0.iter().any(|two| touch(one, two)))
    }
}

impl FromStr for StatusRanges {
    type Err = StatusRangesError;

    fn from_str(text: &str) -> Result<StatusRanges, StatusRangesError> {
        let status = |text: &str| {
            let number: u16 = text.trim().parse().ok()?;
            (200..=599).contains(&number).then_some(number)
        };
        let range = |item: &str| {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let range = status(first)?..=status(last)?;
            (!range.is_empty()).then_some(range)
        };
        let ranges: Option<_> = text.split(',').map(range).collect();
        ranges
            .map(StatusRanges)
            .ok_or_else(|| StatusRangesError(text.to_owned()))
    }
}

impl fmt::Display for StatusRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match range.start() == range.end() {
                true => write!(f, "{}", range.start())?,
                false => write!(f, "{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for StatusRangesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "{text:?} is not a list of statuses from 200 to 599: write 200-299,304"
        )
    }
}

impl Error for StatusRangesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_listed() {
        let ranges: StatusRanges = "429, 500-503".parse().unwrap();
        assert_eq!(ranges.to_string(), "429,500-503");
        for (code, expected) in [(429, true), (500, true), (503, true), (430, false)] {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(ranges.contains(status), expected, "{code}");
        }
        assert!(ranges.overlaps(&StatusRanges::refusal()));
        assert!(!ranges.overlaps(&StatusRanges::success()));
        for text in ["", "2xx", "200-", "299-200", "100", "600", "200;201"] {
            let error = text.parse::<StatusRanges>().unwrap_err().to_string();
            assert!(error.contains("write 200-299,304"), "{text:?}: {error}");
        }
    }
}
