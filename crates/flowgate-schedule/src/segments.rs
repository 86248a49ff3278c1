//! Steps, ramps and pauses in sequence.

use std::fmt;
use std::time::Duration;

use flowgate::Quota;

use crate::error::ScheduleError;
use crate::length::Length;
use crate::schedule::period_ns;
use crate::search::least;

/// Maximum number of segments of a schedule.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_schedule::{MAX_SEGMENTS, Schedule, ScheduleError, Segment};
///
/// let rate = Some(Quota::per_second(10));
/// let segment = Segment { duration: Duration::from_secs(1), from: rate, to: rate };
/// let many = vec![segment; MAX_SEGMENTS + 1];
/// assert!(Schedule::segments(&many[1..]).is_ok());
/// assert_eq!(Schedule::segments(&many), Err(ScheduleError::TooManySegments(many.len())));
/// ```
pub const MAX_SEGMENTS: usize = 1000;

/// Maximum total duration of all segments, in nanoseconds: 146 years.
const MAX_NS: u64 = 1 << 62;
/// Maximum number of units per request.
const MAX_UNITS: u64 = 1 << 62;

/// Time interval in which the rate is constant or changes linearly.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_schedule::{Schedule, Segment};
///
/// let (minute, rate) = (Duration::from_secs(60), Some(Quota::per_second(100)));
/// let up = Segment { duration: minute, from: None, to: rate };
/// let hold = Segment { duration: minute, from: rate, to: rate };
/// let down = Segment { duration: minute, from: rate, to: None };
/// assert_eq!(Schedule::segments(&[up, hold, down])?.len(), 12_000);
/// # Ok::<(), flowgate_schedule::ScheduleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Duration; a segment of zero length has no effect.
    pub duration: Duration,
    /// Rate at the start; `None` is a rate of 0.
    pub from: Option<Quota>,
    /// Rate at the end; `None` is a rate of 0.
    pub to: Option<Quota>,
}

/// Segments, prepared for looking up requests.
///
/// R is counted in units of 1/D of a request. D is twice the least common multiple of the rates' periods, in
/// nanoseconds and in lowest terms. Then all rates are whole units per nanosecond, R at every boundary is a whole
/// number of units, and every scheduled time is exact:
///
/// ```text
///  a = rate at the piece's start, b = at its end, T = its length, t = time since its start
///  R(t) = base + a · t + (b - a) · t² / 2T        t = least with R(t) ≥ k · D
/// ```
///
/// D, T and each of a/D and b/D · 1 ns are limited, so no product exceeds 2¹²⁵.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segments {
    /// The segments as requested.
    asked: Vec<Segment>,
    /// The segments with a length above zero.
    pieces: Vec<Piece>,
    /// D.
    units_per_request: u64,
    len: u64,
}

/// One segment, prepared for computing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    start_ns: u64,
    /// T, above zero.
    length_ns: u64,
    /// a and b, in units per nanosecond.
    from: u64,
    to: u64,
    /// R at its start, in units.
    base: u128,
    /// The first request that can be scheduled in the segment: R at its start, in requests, rounded up.
    first: u64,
}

impl Segments {
    pub(crate) fn new(asked: &[Segment]) -> Result<Segments, ScheduleError> {
        if asked.len() > MAX_SEGMENTS {
            return Err(ScheduleError::TooManySegments(asked.len()));
        }
        let units_per_request = units_per_request(asked)?;
        let units_per_ns = |rate: Option<Quota>| {
            rate.map_or(0, |rate| {
                let (count, period) = lowest_terms(rate);
                units_per_request / period * count
            })
        };
        let mut pieces = Vec::with_capacity(asked.len());
        let (mut start_ns, mut base) = (0_u64, 0_u128);
        for segment in asked {
            let length_ns = u64::try_from(segment.duration.as_nanos()).unwrap_or(u64::MAX);
            let end_ns = start_ns
                .checked_add(length_ns)
                .filter(|end_ns| *end_ns <= MAX_NS)
                .ok_or(ScheduleError::SegmentsTooLong)?;
            if length_ns == 0 {
                continue;
            }
            let piece = Piece {
                start_ns,
                length_ns,
                from: units_per_ns(segment.from),
                to: units_per_ns(segment.to),
                base,
                first: requests(base.div_ceil(u128::from(units_per_request))),
            };
            base += piece.reached(length_ns);
            start_ns = end_ns;
            pieces.push(piece);
        }
        if base == 0 {
            return Err(ScheduleError::NoRequests);
        }
        Ok(Segments {
            asked: asked.to_vec(),
            pieces,
            units_per_request,
            len: requests(base / u128::from(units_per_request)).max(1),
        })
    }

    pub(crate) fn scheduled_ns(&self, index: u64) -> u64 {
        // If several segments start with the same request, it is scheduled in the last one: the others end before.
        let after = self.pieces.partition_point(|piece| piece.first <= index);
        // The first piece begins with request 0.
        let piece = &self.pieces[after - 1];
        let missing = u128::from(index) * u128::from(self.units_per_request) - piece.base;
        piece.start_ns + piece.time_of(missing)
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn highest_per_ns(&self) -> f64 {
        self.highest() as f64 / self.units_per_request as f64
    }

    pub(crate) fn interval_ns(&self) -> u64 {
        self.units_per_request.div_ceil(self.highest().max(1))
    }

    /// Returns the highest rate, in units per nanosecond.
    fn highest(&self) -> u64 {
        let ends = self.pieces.iter().map(|piece| piece.from.max(piece.to));
        ends.max().unwrap_or(0)
    }
}

impl Piece {
    /// Returns the units from the start of the segment to `t` ns later, rounded down.
    fn reached(&self, t: u64) -> u128 {
        // change · t² / 2T = whole · t + rest · t / 2T.
        let (t, twice_length) = (u128::from(t), 2 * u128::from(self.length_ns));
        let change = u128::from(self.from.abs_diff(self.to)) * t;
        let (whole, rest) = (change / twice_length, change % twice_length);
        let steady = u128::from(self.from) * t;
        if self.to >= self.from {
            steady + whole * t + rest * t / twice_length
        } else {
            steady - whole * t - (rest * t).div_ceil(twice_length)
        }
    }

    /// Returns the least time since the start of the segment by which this many units are reached.
    fn time_of(&self, units: u128) -> u64 {
        if self.from == self.to {
            return requests(units.div_ceil(u128::from(self.from.max(1))));
        }
        // The root of the quadratic in the form without cancellation, then exactly.
        let (from, to) = (self.from as f64, self.to as f64);
        let slope = (to - from) / self.length_ns as f64;
        let units_then = units as f64;
        let rate_then = (from * from + 2.0 * slope * units_then).max(0.0).sqrt();
        let guess = 2.0 * units_then / (from + rate_then);
        least(guess as u64, self.length_ns, |t| self.reached(t) >= units)
    }
}

/// Returns D: twice the least common multiple of all periods.
fn units_per_request(segments: &[Segment]) -> Result<u64, ScheduleError> {
    let mut common = 1_u64;
    let rates = segments
        .iter()
        .flat_map(|segment| [segment.from, segment.to]);
    for rate in rates.flatten() {
        let (count, period) = lowest_terms(rate);
        if count > period {
            return Err(ScheduleError::TooFast(rate));
        }
        common = (common / greatest_common_divisor(common, period))
            .checked_mul(period)
            .filter(|common| *common <= MAX_UNITS / 2)
            .ok_or(ScheduleError::NoCommonPeriod)?;
    }
    Ok(2 * common)
}

/// Returns requests and nanoseconds.
fn lowest_terms(rate: Quota) -> (u64, u64) {
    let (count, period) = (rate.count(), period_ns(rate));
    let divisor = greatest_common_divisor(count, period);
    (count / divisor, period / divisor)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Rounds up to requests. At most one request per nanosecond keeps counts below 2⁶³.
fn requests(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let rate = |rate: Option<Quota>| rate.map_or("0".to_owned(), |rate| rate.to_string());
        if let [Segment { duration, from, to }] = self.asked[..] {
            let duration = Length(duration);
            return write!(f, "{} to {} in {duration}", rate(from), rate(to));
        }
        if self.asked.len() > SHOWN {
            let lengths = self.asked.iter().map(|segment| segment.duration);
            let length = Length(lengths.sum());
            return write!(f, "plan of {} parts in {length}", self.asked.len());
        }
        for (index, segment) in self.asked.iter().enumerate() {
            let gap = if index == 0 { "" } else { ", " };
            let duration = Length(segment.duration);
            write!(f, "{gap}{duration} at {}", rate(segment.from))?;
            if segment.to != segment.from {
                write!(f, " to {}", rate(segment.to))?;
            }
        }
        Ok(())
    }
}
