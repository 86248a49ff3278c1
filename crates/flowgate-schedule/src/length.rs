use std::fmt;
use std::time::Duration;

/// A length of time as text, with a space before its unit: `30 s`, `1.5 ms`.
pub(crate) struct Length(pub(crate) Duration);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        write!(f, "{digits} {}", &text[digits.len()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_a_space_before_it() {
        for (nanos, text) in [
            (0, "0 ns"),
            (7, "7 ns"),
            (2_500, "2.5 µs"),
            (400_000_000, "400 ms"),
            (64_000_000_000, "64 s"),
        ] {
            assert_eq!(Length(Duration::from_nanos(nanos)).to_string(), text);
        }
    }
}
