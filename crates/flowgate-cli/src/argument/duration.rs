//! Durations such as `5s`, `1m 30s` or `250ms`.

use std::time::Duration;

/// Parses a duration above zero. Rejects a bare number, because tools disagree about its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    const ZERO: &str = "must be longer than 0: write 5s";
    if let Ok(number) = trimmed.parse::<f64>() {
        if number <= 0.0 {
            return Err(ZERO.to_owned());
        }
        let is_plain = trimmed
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let suggestion = if is_plain { trimmed } else { "5" };
        return Err(format!(
            "a unit is missing: write {suggestion}s for seconds"
        ));
    }
    match humantime::parse_duration(trimmed) {
        Ok(duration) if duration.is_zero() => Err(ZERO.to_owned()),
        Ok(duration) if u64::try_from(duration.as_nanos()).is_err() => {
            Err("exceeds the maximum of 584 years: write 5s, 1m30s or 2h".to_owned())
        }
        Ok(duration) => Ok(duration),
        Err(_) if is_negative(trimmed) => Err(ZERO.to_owned()),
        Err(_) => Err("not a time: write 5s, 250ms, 1m30s or 2h".to_owned()),
    }
}

fn is_negative(text: &str) -> bool {
    let length = text.strip_prefix('-').map(humantime::parse_duration);
    matches!(length, Some(Ok(_)))
}

/// Parses a duration, in which a bare number is seconds, as in hey and similar tools.
pub(crate) fn or_seconds(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let is_bare = trimmed.starts_with(|first: char| first.is_ascii_digit())
        && trimmed
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    match trimmed.parse::<f64>() {
        Ok(0.0) if is_bare => Err("must be longer than 0: write 1h for a long timeout".to_owned()),
        Ok(seconds) if is_bare => Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|duration| u64::try_from(duration.as_nanos()).is_ok())
            .ok_or_else(|| "exceeds the maximum of 584 years: write 10s".to_owned()),
        _ => parse(text),
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
    fn a_bare_number_can_be_seconds() {
        for (text, expected) in [
            ("20", Duration::from_secs(20)),
            ("0.5", Duration::from_millis(500)),
            (" 20s", Duration::from_secs(20)),
            ("250ms", Duration::from_millis(250)),
        ] {
            assert_eq!(or_seconds(text), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("0", "write 1h"),
            ("0.0", "write 1h"),
            ("99999999999999999999", "584 years"),
            ("-5", "must be longer than 0"),
            ("-1s", "must be longer than 0"),
            ("1e3", "a unit is missing"),
            ("soon", "not a time"),
        ] {
            let error = or_seconds(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_is_no_duration_says_what_to_type() {
        for (text, expected) in [
            ("5", "write 5s for seconds"),
            ("0.5", "write 0.5s for seconds"),
            ("-5", "must be longer than 0"),
            ("NaN", "write 5s for seconds"),
            ("0s", "must be longer than 0"),
            ("0", "must be longer than 0"),
            ("-0.0", "must be longer than 0"),
            ("", "not a time"),
            ("soon", "not a time"),
            ("5 parsecs", "not a time"),
            ("-5s", "must be longer than 0"),
            ("-fast", "not a time"),
            ("1000years", "584 years"),
            ("99999999999999999999s", "not a time"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
