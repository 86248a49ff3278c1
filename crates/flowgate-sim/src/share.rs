//! Shares, such as 10 %.

use std::fmt;
use std::str::FromStr;

use crate::error::TextError;
use crate::text::serde_by_text;

/// A share, from 0 to 1. As text, it is `10%` or `0.1`.
///
/// ```
/// use flowgate_sim::Share;
///
/// let share: Share = "7%".parse()?;
/// assert_eq!(share, Share::new(0.07));
/// assert_eq!(share.to_string(), "7%");
/// # Ok::<(), flowgate_sim::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// Creates a share. Numbers outside of 0 to 1 count as the nearest of these, and NaN as 0.
    pub const fn new(share: f64) -> Self {
        Self(share.max(0.0).min(1.0))
    }

    /// Returns the share as a number from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let number = text.trim();
        let share = match number.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
            None => number.parse(),
        };
        match share {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self(share)),
            _ => Err(TextError::new(
                text,
                "not a share; write one from '0%' to '100%'",
            )),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the digits that a conversion adds: 7 % is not 7.000000000000001 %.
        write!(f, "{}%", (self.0 * 100.0 * 1e9).round() / 1e9)
    }
}

serde_by_text!(Share);

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn a_share_is_a_percentage_or_a_number_up_to_1() {
        for (text, share, written) in [
            ("10%", 0.1, "10%"),
            (" 0.25 ", 0.25, "25%"),
            ("7 %", 0.07, "7%"),
            ("0.1%", 0.001, "0.1%"),
            ("100%", 1.0, "100%"),
            ("0", 0.0, "0%"),
        ] {
            let parsed: Share = text.parse().expect(text);
            assert_eq!(
                (parsed, parsed.to_string()),
                (Share::new(share), written.to_owned())
            );
        }
        for text in ["", "%", "10", "-1%", "101%", "some", "NaN", "inf"] {
            let error = text.parse::<Share>().expect_err(text).to_string();
            assert!(error.contains("'0%' to '100%'"), "{text}: {error}");
        }
    }

    #[test]
    fn a_share_is_never_outside_of_0_to_1() {
        for (number, share) in [(-0.5, 0.0), (1.5, 1.0), (f64::NAN, 0.0), (0.5, 0.5)] {
            assert_eq!(Share::new(number).get(), share);
        }
    }
}
