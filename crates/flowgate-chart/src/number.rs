//! Numbers as people read them on an axis and in a table.

use std::time::Duration;

/// The unit of the numbers on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A number of things per second.
    Rate,
    /// A duration, in nanoseconds.
    Nanos,
    /// A time since the start of the run, in seconds.
    Seconds,
}

impl Unit {
    /// Formats a round value in few characters: `200`, `1.5k`, `20 µs`, `2 min`.
    pub fn tick(self, value: f64) -> String {
        match self {
            Unit::Count | Unit::Rate => short(value),
            Unit::Nanos => in_units(
                value,
                &[
                    ("ns", 1.0),
                    ("µs", 1e3),
                    ("ms", 1e6),
                    ("s", 1e9),
                    ("min", 60e9),
                    ("h", 3600e9),
                ],
            ),
            Unit::Seconds => in_units(value, &[("ms", 1e-3), ("s", 1.0)]),
        }
    }

    /// Formats any value to four significant digits, or all digits of a count.
    pub fn exact(self, value: f64) -> String {
        match self {
            Unit::Count => grouped(value.round() as u64),
            Unit::Rate => format!("{}/s", significant(value, 4)),
            Unit::Nanos => duration(Duration::from_nanos(value as u64)),
            Unit::Seconds => format!("{} s", significant(value, 4)),
        }
    }
}

/// Formats a duration to three digits in the unit that suits it: `6.12 µs`, `41.0 ms`, `5.00 s`.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(flowgate_chart::duration(Duration::from_micros(41_000)), "41.0 ms");
/// ```
pub fn duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos < 1_000 {
        return format!("{nanos} ns");
    }
    let nanos = nanos as f64;
    // Each limit is where three digits would round up to the next unit's 1.00.
    let (value, unit) = match nanos {
        n if n < 999.5e3 => (n / 1e3, "µs"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// In the largest unit of which there is at least one; minutes and hours only where they come out even.
fn in_units(value: f64, units: &[(&str, f64)]) -> String {
    let is_even = |size: f64| (value / size).fract() == 0.0;
    let fits =
        |&&(_, size): &&(&str, f64)| value >= size * 0.9999 && (size < 60e9 || is_even(size));
    match units.iter().rev().find(fits) {
        Some((unit, size)) => format!("{} {unit}", significant(value / size, 3)),
        None if value == 0.0 => "0".to_owned(),
        None => format!("{} {}", significant(value / units[0].1, 3), units[0].0),
    }
}

/// With a prefix for thousands.
fn short(value: f64) -> String {
    let (size, prefix) = match value {
        v if v >= 0.9999e12 => (1e12, "T"),
        v if v >= 0.9999e9 => (1e9, "G"),
        v if v >= 0.9999e6 => (1e6, "M"),
        v if v >= 0.9999e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{}{prefix}", significant(value / size, 3))
}

/// Formats a number to `digits` significant digits, without zeros at the end. Integers keep all their digits.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let whole_digits = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(digits - whole_digits).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a count in groups of three digits, from five digits on.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space at which no line breaks.
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number of bytes in decimal units: `1.5 MB`.
pub fn bytes(value: u64) -> String {
    match value {
        0..1_000 => format!("{value} B"),
        _ => {
            let text = short(value as f64);
            let (number, prefix) = text.split_at(text.len() - 1);
            format!("{number} {prefix}B")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let table = [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 250.0, "250"),
            (Unit::Rate, 0.5, "0.5"),
            (Unit::Rate, 1_000.0, "1k"),
            (Unit::Rate, 1_500.0, "1.5k"),
            (Unit::Rate, 2e6, "2M"),
            (Unit::Nanos, 0.0, "0"),
            (Unit::Nanos, 0.5, "0.5 ns"),
            (Unit::Nanos, 200.0, "200 ns"),
            (Unit::Nanos, 1e3, "1 µs"),
            (Unit::Nanos, 2.5e6, "2.5 ms"),
            (Unit::Nanos, 1e9, "1 s"),
            (Unit::Nanos, 100e9, "100 s"),
            (Unit::Nanos, 120e9, "2 min"),
            (Unit::Seconds, 0.2, "200 ms"),
            (Unit::Seconds, 40.0, "40 s"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.tick(value), text);
        }
    }

    #[test]
    fn values_have_the_digits_that_matter() {
        assert_eq!(Unit::Rate.exact(999.96), "1000/s");
        assert_eq!(Unit::Rate.exact(12.345678), "12.35/s");
        assert_eq!(Unit::Rate.exact(f64::NAN), "0/s");
        assert_eq!(Unit::Nanos.exact(1_234_567.0), "1.23 ms");
        assert_eq!(Unit::Count.exact(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(9_999), "9999");
        assert_eq!(
            grouped(u64::MAX),
            "18\u{202f}446\u{202f}744\u{202f}073\u{202f}709\u{202f}551\u{202f}615"
        );
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500_000), "1.5 MB");
    }
}
