//! Formats numbers.

use std::time::Duration;

/// Formats a duration with three digits: `6.12 µs`, `41 ms`, `5 s`.
pub(crate) fn time(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    // Above each limit, three digits would round up to 1.00 of the next unit.
    let (value, unit) = match nanos {
        n if n < 999.5 => (n, "ns"),
        n if n < 999.5e3 => (n / 1e3, "µs"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// Formats a rate per second with three digits, or all digits before the point: `0.5/s`, `1234/s`.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", digits(per_second))
}

/// Formats a fraction as a percentage: `0.125 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Formats with three digits, or all digits before the point, without trailing zeros.
fn digits(value: f64) -> String {
    let whole_digits = match value.abs() {
        below_one if below_one < 1.0 => 0,
        value => value.log10().floor() as usize + 1,
    };
    let text = format!("{value:.*}", 3_usize.saturating_sub(whole_digits));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a duration to the nearest second, or millisecond if it is short: `1m 30s`, `250ms`.
pub(crate) fn span(duration: Duration) -> String {
    let to_nearest = |unit: Duration| {
        let units = duration.saturating_add(unit / 2).as_nanos() / unit.as_nanos();
        unit.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX))
    };
    let whole = match duration < Duration::from_millis(999) {
        true => to_nearest(Duration::from_millis(1)),
        false => to_nearest(Duration::from_secs(1)),
    };
    humantime::format_duration(whole).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_no_more_than_there_are() {
        for (nanos, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (6_123, "6.12 µs"),
            (999_499, "999 µs"),
            (999_500, "1 ms"),
            (41_040_000, "41 ms"),
            (5_000_000_000, "5 s"),
            (1_234_500_000_000, "1234 s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanos)), expected);
        }
        assert_eq!(rate(0.0), "0/s");
        assert_eq!(rate(0.5), "0.5/s");
        assert_eq!(rate(999.96), "1000/s");
        assert_eq!(rate(123_456.7), "123457/s");
        assert_eq!(percent(0.001_25), "0.125 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn spans_are_whole() {
        assert_eq!(span(Duration::from_millis(89_999)), "1m 30s");
        assert_eq!(span(Duration::from_millis(999)), "1s");
        assert_eq!(span(Duration::from_micros(250_400)), "250ms");
        assert_eq!(span(Duration::ZERO), "0s");
    }
}
