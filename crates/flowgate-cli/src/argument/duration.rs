//! A length of time, such as `5s`, `1m 30s` or `250ms`.

use std::time::Duration;

/// Reads a duration above zero. A bare number is refused, as tools disagree about what it means.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    const ZERO: &str = "must be longer than 0: type 5s";
    if let Ok(number) = trimmed.parse::<f64>() {
        if number == 0.0 {
            return Err(ZERO.to_owned());
        }
        let is_plain = trimmed
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let suggestion = if is_plain { trimmed } else { "5" };
        return Err(format!("a unit is missing: type {suggestion}s for seconds"));
    }
    match humantime::parse_duration(trimmed) {
        Ok(duration) if duration.is_zero() => Err(ZERO.to_owned()),
        Ok(duration) if u64::try_from(duration.as_nanos()).is_err() => {
            Err("longer than the 584 years that can be counted: type 5s, 1m30s or 2h".to_owned())
        }
        Ok(duration) => Ok(duration),
        Err(_) => Err("not a length of time: type 5s, 250ms, 1m30s or 2h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, expected) in [
            ("5s", Duration::from_secs(5)),
            ("250ms", Duration::from_millis(250)),
            ("1m30s", Duration::from_secs(90)),
            ("1m 30s", Duration::from_secs(90)),
            (" 2h ", Duration::from_secs(7200)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_what_to_type() {
        for (text, expected) in [
            ("5", "type 5s for seconds"),
            ("0.5", "type 0.5s for seconds"),
            ("-5", "type 5s for seconds"),
            ("NaN", "type 5s for seconds"),
            ("0s", "must be longer than 0"),
            ("0", "must be longer than 0"),
            ("-0.0", "must be longer than 0"),
            ("", "not a length of time"),
            ("soon", "not a length of time"),
            ("5 parsecs", "not a length of time"),
            ("-5s", "not a length of time"),
            ("1000years", "584 years"),
            ("99999999999999999999s", "not a length of time"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
