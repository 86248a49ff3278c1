//! How far the clock of a server is from that of this machine, by the `Date` of its responses.
//!
//! A `Date` has whole seconds. But the first response of each second shows when that second began, and the last one when it
//! ended. So the requests around the seconds of a run bound the difference, by about their distance and the service time.

use std::fmt;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use flowgate_chart::duration;
use serde::{Deserialize, Serialize};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// Bounds of the difference between two clocks, in nanoseconds.
///
/// # Examples
///
/// ```
/// use flowgate_load::ClockOffset;
///
/// let ahead = ClockOffset { from_ns: 11_000_000, to_ns: 13_000_000 };
/// let behind = ClockOffset { from_ns: -1_000_000, to_ns: 1_000_000 };
/// // The difference of two differences has the errors of both.
/// assert_eq!(ahead.minus(behind), ClockOffset { from_ns: 10_000_000, to_ns: 14_000_000 });
/// assert_eq!(ahead.to_string(), "+12.0 ms ± 1.00 ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Lower bound.
    pub from_ns: i64,
    /// Upper bound.
    pub to_ns: i64,
}

/// Time of day of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecondOfDay(NonZeroU32);

/// What the responses of a run have shown.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// Time of day of the start, by the clock of this machine.
    start_ns: i64,
    bounds: Option<(i64, i64)>,
}

impl ClockOffset {
    /// Returns the difference of two differences.
    pub fn minus(self, other: ClockOffset) -> ClockOffset {
        ClockOffset {
            from_ns: self.from_ns.saturating_sub(other.to_ns),
            to_ns: self.to_ns.saturating_sub(other.from_ns),
        }
    }

    /// Returns the middle of the bounds.
    pub(crate) fn middle_ns(self) -> i64 {
        self.from_ns.midpoint(self.to_ns)
    }

    /// Returns how far the bounds are from the middle.
    pub(crate) fn error(self) -> Duration {
        Duration::from_nanos(self.to_ns.abs_diff(self.from_ns) / 2)
    }
}

impl SecondOfDay {
    /// Parses a `Date` (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`. The obsolete forms have no meaning here.
    pub(crate) fn parse(date: &[u8]) -> Option<SecondOfDay> {
        let &[
            ..,
            b' ',
            h1,
            h2,
            b':',
            m1,
            m2,
            b':',
            s1,
            s2,
            b' ',
            b'G',
            b'M',
            b'T',
        ] = date
        else {
            return None;
        };
        let two = |tens: u8, ones: u8| {
            let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
            is_number.then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
        };
        let (hours, minutes, seconds) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
        let second = hours * 3600 + minutes * 60 + seconds;
        // One more, so that midnight is not 0.
        NonZeroU32::new(second + 1).map(SecondOfDay)
    }

    fn ns(self) -> i64 {
        i64::from(self.0.get() - 1) * SECOND_NS
    }
}

impl ServerClock {
    /// Creates the counts of a run that started at this time.
    pub(crate) fn new(start_at: SystemTime) -> ServerClock {
        let since = start_at.duration_since(SystemTime::UNIX_EPOCH);
        let of_day = since.unwrap_or_default().as_nanos() % DAY_NS as u128;
        ServerClock {
            // Fits: it is less than a day.
            start_ns: of_day as i64,
            bounds: None,
        }
    }

    /// Takes the date of a response. The server wrote it between both times, which count from the start.
    pub(crate) fn answered(&mut self, sent_ns: u64, done_ns: u64, date: SecondOfDay) {
        let local = |at_ns: u64| self.start_ns + (at_ns % DAY_NS as u64) as i64;
        let least = nearest(date.ns() - local(done_ns));
        let most = nearest(date.ns() + SECOND_NS - local(sent_ns));
        let (from, to) = self.bounds.unwrap_or((least, most));
        self.bounds = Some((from.max(least), to.min(most)));
    }

    /// Returns the clock of the server minus that of this machine.
    ///
    /// Servers may write a date too late, or their clocks may differ. Then the bounds contradict each other, and the difference
    /// is between them.
    pub(crate) fn offset(&self) -> Option<ClockOffset> {
        let (one, other) = self.bounds?;
        Some(ClockOffset {
            from_ns: one.min(other),
            to_ns: one.max(other),
        })
    }
}

/// Returns the difference of two times of day on the nearest days: −12 h to 12 h.
fn nearest(difference_ns: i64) -> i64 {
    (difference_ns + DAY_NS / 2).rem_euclid(DAY_NS) - DAY_NS / 2
}

/// `-12.1 ms ± 1.00 ms`
impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = self.middle_ns();
        let sign = if middle < 0 { '-' } else { '+' };
        let size = duration(Duration::from_nanos(middle.unsigned_abs()));
        write!(f, "{sign}{size} ± {}", duration(self.error()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(second: i64) -> SecondOfDay {
        let second = second.rem_euclid(86_400);
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let text = format!("Sun, 06 Nov 1994 {h:02}:{m:02}:{s:02} GMT");
        SecondOfDay::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_date_has_a_time_of_day() {
        assert_eq!(date(8 * 3600 + 49 * 60 + 37).ns() / SECOND_NS, 31_777);
        assert_eq!(date(0).ns(), 0);
        for wrong in [
            "",
            "Sun, 06 Nov 1994 08:49:37",
            "Sunday, 06-Nov-94 08:49:37 UTC",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 0x:49:37 GMT",
        ] {
            assert_eq!(SecondOfDay::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// The bounds of a run at `per_second`, against a server whose clock is `offset_ns` ahead.
    fn run(offset_ns: i64, per_second: u64, seconds: u64, seed: u64) -> ClockOffset {
        let mut random = fastrand::Rng::with_seed(seed);
        // Shortly before midnight, so that a day ends in between.
        let start = 86_400 * 20_000 - 2;
        let mut clock = ServerClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(start));
        for index in 0..per_second * seconds {
            let sent_ns = index * 1_000_000_000 / per_second;
            let before_ns = random.u64(0..300_000);
            let done_ns = sent_ns + before_ns + random.u64(0..300_000);
            let server_ns = start as i64 * SECOND_NS + (sent_ns + before_ns) as i64 + offset_ns;
            clock.answered(sent_ns, done_ns, date(server_ns.div_euclid(SECOND_NS)));
        }
        clock.offset().unwrap()
    }

    #[test]
    fn the_dates_of_a_run_bound_the_clock_of_the_server() {
        for (seed, offset_ns) in [0, 1, -12_345_678, 400_000_000, -7_200_000_000_000]
            .into_iter()
            .enumerate()
        {
            let found = run(offset_ns, 1_000, 5, seed as u64);
            let holds = (found.from_ns..=found.to_ns).contains(&offset_ns);
            assert!(holds, "{found} of {offset_ns}");
            // A request each millisecond, and up to 0.6 ms of service.
            assert!(found.error() < Duration::from_millis(1), "{found}");
        }
        // Within one second, there is little to see.
        let found = run(300_000_000, 10, 1, 7);
        assert!((found.from_ns..=found.to_ns).contains(&300_000_000));
        assert!(found.error() > Duration::from_millis(40), "{found}");
    }

    #[test]
    fn contradictions_make_the_bounds_wider() {
        let mut clock = ServerClock::new(SystemTime::UNIX_EPOCH);
        assert_eq!(clock.offset(), None);
        for second in [5, 8] {
            clock.answered(0, 0, date(second));
        }
        let (from_ns, to_ns) = (6 * SECOND_NS, 8 * SECOND_NS);
        assert_eq!(clock.offset(), Some(ClockOffset { from_ns, to_ns }));
    }
}
