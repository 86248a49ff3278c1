//! The units that quotas are written in.

use core::fmt;

use super::{DAY, HOUR, MINUTE, SECOND};

/// A unit of time.
pub(super) struct TimeUnit {
    pub(super) nanos: u64,
    /// How it is printed after "/" where there is one of it, and after a number.
    alone: &'static str,
    after_number: &'static str,
    /// What else is read.
    also: &'static [&'static str],
}

/// From the longest to the shortest; each is a multiple of a nanosecond, so the last always fits.
const TIME_UNITS: [TimeUnit; 9] = [
    unit(365 * DAY, "year", "y", &["years", "yr", "yrs"]),
    unit(7 * DAY, "week", "w", &["weeks"]),
    unit(DAY, "day", "d", &["days"]),
    unit(HOUR, "h", "h", &["hr", "hrs", "hour", "hours"]),
    unit(MINUTE, "min", "min", &["m", "mins", "minute", "minutes"]),
    unit(SECOND, "s", "s", &["sec", "secs", "second", "seconds"]),
    unit(
        1_000_000,
        "ms",
        "ms",
        &["msec", "millisecond", "milliseconds"],
    ),
    // The micro sign and the Greek letter look the same, and both are typed.
    unit(
        1_000,
        "us",
        "us",
        &["µs", "μs", "usec", "microsecond", "microseconds"],
    ),
    unit(1, "ns", "ns", &["nsec", "nanosecond", "nanoseconds"]),
];

const fn unit(
    nanos: u64,
    alone: &'static str,
    after_number: &'static str,
    also: &'static [&'static str],
) -> TimeUnit {
    TimeUnit {
        nanos,
        alone,
        after_number,
        also,
    }
}

impl TimeUnit {
    /// The unit with this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        TIME_UNITS
            .iter()
            .find(|unit| unit.names().any(|known| known == name))
    }

    /// Whether a unit would have this name if it were in lower case.
    pub(super) fn is_upper_case(name: &str) -> bool {
        TIME_UNITS
            .iter()
            .any(|unit| unit.names().any(|known| known.eq_ignore_ascii_case(name)))
    }

    /// The longest unit of which `nanos` is a multiple.
    pub(super) fn longest_in(nanos: u64) -> &'static Self {
        let [.., shortest] = &TIME_UNITS;
        TIME_UNITS
            .iter()
            .find(|unit| nanos.is_multiple_of(unit.nanos))
            .unwrap_or(shortest)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.alone, self.after_number]
            .into_iter()
            .chain(self.also.iter().copied())
    }
}

/// A period in nanoseconds, printed in the longest unit that divides it: `s`, `10s`, `day`, `30d`.
pub(super) struct Period(pub(super) u64);

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = TimeUnit::longest_in(self.0);
        match self.0 / unit.nanos {
            1 => f.write_str(unit.alone),
            n => write!(f, "{n}{}", unit.after_number),
        }
    }
}

/// What a suffix of a count multiplies it by, and whether it makes it bytes.
pub(super) struct Suffix {
    pub(super) times: u64,
    pub(super) bytes: bool,
}

/// The byte suffixes from the largest to the smallest, as they are printed.
const BYTE_SUFFIXES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

const COUNT_SUFFIXES: [(&str, u64); 4] = [
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
];

impl Suffix {
    pub(super) fn named(name: &str) -> Option<Self> {
        // Often written with a capital, and there is nothing else that it could mean.
        let name = match name {
            "K" => "k",
            "KB" => "kB",
            other => other,
        };
        let find = |table: &[(&str, u64)], bytes| {
            let (_, times) = table.iter().find(|(known, _)| *known == name)?;
            Some(Self {
                times: *times,
                bytes,
            })
        };
        find(&BYTE_SUFFIXES, true).or_else(|| find(&COUNT_SUFFIXES, false))
    }
}

/// A number of bytes, printed with the largest suffix that leaves it whole: `64KiB`, `1500MB`.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (suffix, times) in BYTE_SUFFIXES {
            if self.0 != 0 && self.0.is_multiple_of(times) {
                return write!(f, "{}{suffix}", self.0 / times);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// Whether `word` names what is counted, as in "10 req/s".
pub(super) fn is_requests(word: &str) -> bool {
    ["r", "req", "reqs", "request", "requests"].contains(&word)
}

/// The period of an abbreviated rate, as in "10rps".
pub(super) fn per_time(word: &str) -> Option<u64> {
    match word {
        "rps" | "qps" => Some(SECOND),
        "rpm" | "qpm" => Some(MINUTE),
        _ => None,
    }
}
