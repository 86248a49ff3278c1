//! Times as logs write them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;

/// From here on, a number is the seconds since 1970 (3 March 1973), and not those since the start of a test.
const EPOCH_SECONDS: u64 = 100_000_000;
/// From here on, a number is in milliseconds; 1,000 times as many are microseconds, and again nanoseconds.
const MILLISECONDS: u64 = 100_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// As Apache and nginx write times, with or without a fraction.
const ACCESS_FORMAT: &str = "%d/%b/%Y:%H:%M:%S%.f %z";

/// A time of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since 1970, or since the log's own zero.
    pub(crate) ns: u64,
    /// The log writes whole seconds of a clock, so the request was at any time in this one.
    pub(crate) is_rounded: bool,
}

/// Reads times. The next time in a log often has the same text as the one before.
#[derive(Debug, Default)]
pub(crate) struct MomentReader {
    text: Vec<u8>,
    moment: Moment,
}

impl MomentReader {
    pub(crate) fn read(&mut self, text: &[u8]) -> Option<Moment> {
        if text != self.text || text.is_empty() {
            self.moment = moment(text)?;
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        Some(self.moment)
    }
}

fn moment(text: &[u8]) -> Option<Moment> {
    let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+');
    if text.iter().all(is_number) {
        return number(text);
    }
    let timestamp = match text.get(2) {
        Some(b'/') => BrokenDownTime::parse(ACCESS_FORMAT, text)
            .and_then(|time| time.to_timestamp())
            .ok()?,
        _ => calendar(text)?,
    };
    Some(Moment {
        ns: u64::try_from(timestamp.as_nanosecond()).ok()?,
        is_rounded: memchr::memchr2(b'.', b',', text).is_none(),
    })
}

/// RFC 3339, or the like without an offset, which is then taken for UTC: only differences count.
fn calendar(text: &[u8]) -> Option<Timestamp> {
    let parser = DateTimeParser::new();
    if let Ok(timestamp) = parser.parse_timestamp(text) {
        return Some(timestamp);
    }
    let time: DateTime = parser.parse_datetime(text).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

fn number(text: &[u8]) -> Option<Moment> {
    if memchr::memchr3(b'e', b'E', b'+', text).is_some() {
        let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        let ns = seconds * SECOND_NS as f64;
        return (ns < u64::MAX as f64).then_some(Moment {
            ns: ns as u64,
            is_rounded: false,
        });
    }
    let decimal = Decimal::parse(text)?;
    let unit_ns = match decimal.whole / MILLISECONDS {
        0 => SECOND_NS,
        1..1_000 => 1_000_000,
        1_000..1_000_000 => 1_000,
        _ => 1,
    };
    Some(Moment {
        ns: decimal.times(unit_ns)?,
        is_rounded: unit_ns == SECOND_NS && decimal.whole >= EPOCH_SECONDS && !decimal.has_point,
    })
}

/// A duration in seconds, as a plain decimal number.
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    Decimal::parse(text)?.times(SECOND_NS)
}

/// A decimal number, to nine digits behind the point.
struct Decimal {
    whole: u64,
    billionths: u64,
    has_point: bool,
}

impl Decimal {
    fn parse(text: &[u8]) -> Option<Self> {
        let point = memchr::memchr(b'.', text);
        let (whole, decimals) = match point {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &[][..]),
        };
        let is_digits = whole.iter().chain(decimals).all(u8::is_ascii_digit);
        if !is_digits || whole.len() + decimals.len() == 0 {
            return None;
        }
        let digit = |byte: &u8| u64::from(byte - b'0');
        let whole = whole.iter().try_fold(0_u64, |sum, byte| {
            sum.checked_mul(10)?.checked_add(digit(byte))
        })?;
        let billionths = decimals
            .iter()
            .chain(std::iter::repeat(&b'0'))
            .take(9)
            .fold(0, |sum, byte| sum * 10 + digit(byte));
        Some(Self {
            whole,
            billionths,
            has_point: point.is_some(),
        })
    }

    fn times(&self, unit_ns: u64) -> Option<u64> {
        let part = u128::from(self.billionths) * u128::from(unit_ns) / u128::from(SECOND_NS);
        self.whole
            .checked_mul(unit_ns)?
            .checked_add(u64::try_from(part).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_logs_write_them() {
        let noon = 1_700_000_000 * SECOND_NS; // 2023-11-14T22:13:20Z
        for (text, ns, is_rounded) in [
            ("14/Nov/2023:22:13:20 +0000", noon, true),
            ("14/Nov/2023:23:43:20 +0130", noon, true),
            ("14/Nov/2023:17:13:20.25 -0500", noon + 250_000_000, false),
            ("2023-11-14T22:13:20Z", noon, true),
            ("2023-11-14T22:13:20+00:00", noon, true),
            ("2023-11-14t17:13:20-05:00", noon, true),
            ("2023-11-14 22:13:20", noon, true),
            ("2023-11-14T22:13:20.000000001Z", noon + 1, false),
            ("2023-11-14 22:13:20,5", noon + 500_000_000, false),
            ("1700000000", noon, true),
            ("1700000000.000", noon, false),
            ("1700000000.1234567891", noon + 123_456_789, false),
            ("1700000000250", noon + 250_000_000, false),
            ("1700000000250.5", noon + 250_500_000, false),
            ("1700000000000001", noon + 1_000, false),
            ("1700000000000000001", noon + 1, false),
            ("1.7e9", noon, false),
            ("0", 0, false),
            ("12.5", 12_500_000_000, false),
            (".5", 500_000_000, false),
            ("99999999", 99_999_999 * SECOND_NS, false),
        ] {
            let expected = Some(Moment { ns, is_rounded });
            assert_eq!(moment(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            ".",
            "-",
            "-1",
            "1.2.3",
            "e",
            "1e99",
            "inf",
            "NaN",
            "soon",
            "99999999999999999999",
            "32/Nov/2023:22:13:20 +0000",
            "14/Foo/2023:22:13:20 +0000",
            "14/Nov/2023:22:13:20",
            "14/Nov/1923:22:13:20 +0000",
            "2023-11-14T25:13:20Z",
            "2023-13-14",
            "9999-11-14T22:13:20Z",
            "a/",
            "é/",
        ] {
            assert_eq!(moment(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_not_remembered() {
        let mut reader = MomentReader::default();
        assert_eq!(reader.read(b""), None);
        assert_eq!(
            reader.read(b"5").map(|moment| moment.ns),
            Some(5 * SECOND_NS)
        );
        assert_eq!(reader.read(b"soon"), None);
        assert_eq!(reader.read(b"soon"), None);
        assert_eq!(
            reader.read(b"5").map(|moment| moment.ns),
            Some(5 * SECOND_NS)
        );
    }
}
