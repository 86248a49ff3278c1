//! Rates: quotas without a burst, because sends are at constant intervals. A bare number is per second.

use flowgate::Quota;

/// Parses a rate such as `1000/s`, `2.5k/s`, `90/min`, `1/10s`, or `1000`, which means `1000/s`.
pub(crate) fn parse(text: &str) -> Result<Quota, String> {
    let trimmed = text.trim();
    if let Some(better) = not_of_requests(trimmed) {
        return Err(better);
    }
    let per_second = format!("{trimmed}/s");
    let is_bare = trimmed.starts_with(|first: char| first.is_ascii_digit())
        && trimmed
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | '_' | 'k' | 'M' | 'G'));
    if is_bare { &per_second } else { trimmed }
        .parse()
        .map_err(|error| match in_other_words(trimmed) {
            Some(rate) => format!("write {rate}"),
            None if is_zero(trimmed) => {
                "must be more than 0: write 1000/s, 90/min or 1/10s".to_owned()
            }
            None => format!("{error} (write 1000/s, 90/min or 1/10s)"),
        })
}

/// Returns what to write instead of a quota with a burst, units or bytes.
fn not_of_requests(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let rate = text.split_whitespace().next().unwrap_or_default();
    let behind = &lower[rate.len()..];
    if ["burst", "units"].iter().any(|word| behind.contains(word)) {
        let rate = match rate.parse::<Quota>() {
            Ok(_) => rate.to_owned(),
            Err(_) => in_other_words(rate).unwrap_or_else(|| "1000/s".to_owned()),
        };
        return Some(format!(
            "a rate has constant intervals, without bursts: write {rate}"
        ));
    }
    let is_of_bytes = text.contains('B') || lower.ends_with("bps") || lower.ends_with("bit/s");
    is_of_bytes.then(|| "is a rate of bytes, not of requests: write 1000/s".to_owned())
}

/// Returns whether the rate is 0 in any unit.
pub(crate) fn is_zero(text: &str) -> bool {
    let (count, _) = text.split_once('/').unwrap_or((text, ""));
    count.contains('0') && count.chars().all(|c| matches!(c, '0' | '.' | '_'))
}

/// Returns what to write instead of `10rps` and similar rates.
fn in_other_words(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let count = [
        "rps",
        "qps",
        "req/s",
        "requests/s",
        "r/s",
        "/sec",
        "hz",
        "ps",
    ]
    .into_iter()
    .find_map(|unit| lower.strip_suffix(unit))?
    .trim();
    let rate = format!("{count}/s");
    rate.parse::<Quota>().is_ok().then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_per_second() {
        for (text, expected) in [
            ("1000", "1000/s"),
            ("2.5", "2.5/s"),
            ("2k", "2k/s"),
            ("90/min", "90/min"),
            ("1/10s", "1/10s"),
        ] {
            assert_eq!(parse(text), Ok(expected.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn rates_as_they_are_written_elsewhere() {
        for text in ["10rps", "10 req/s", "10 per second"] {
            assert_eq!(parse(text), Ok(Quota::per_second(10)), "{text}");
        }
    }

    #[test]
    fn what_is_meant_is_said() {
        for (text, expected) in [
            ("10 RPS", "write 10/s"),
            ("10Hz", "write 10/s"),
            ("0rps", "(write 1000/s"),
            ("0", "must be more than 0: write 1000/s"),
            ("0.0/min", "must be more than 0"),
            ("0/fortnight", "must be more than 0"),
            ("100/s burst 20", "without bursts: write 100/s"),
            ("100/sec burst", "without bursts: write 100/s"),
            ("many burst", "without bursts: write 1000/s"),
            ("10bps", "is a rate of bytes"),
            ("10MiB/s", "is a rate of bytes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_no_rate_is_explained_in_one_line() {
        for text in [
            "",
            "0",
            "0/s",
            "-5",
            "-5/s",
            "1e99",
            "NaN",
            "inf",
            "/s",
            "5/",
            "5/fortnight",
            "99999999999999999999",
            "10MiB/s",
            "100/s burst 20",
            "100/s units 5",
            "many",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                !error.is_empty() && !error.contains('\n'),
                "{text:?}: {error}"
            );
        }
    }
}
