//! The schedule: one type for all kinds.

use std::fmt;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use flowgate::Quota;

use crate::bursts::Bursts;
use crate::error::{ReplayError, ScheduleError};
use crate::poisson::Poisson;
use crate::replay::{MAX_REPLAYED, Replay};
use crate::segments::{Segment, Segments};
use crate::sine::Sine;
use crate::times::Times;

/// The scheduled times of a run's requests, counted from the start of the run.
///
/// | kind | scheduled time of request `k` | error |
/// |---|---|---|
/// | constant | `k · period / count` | none |
/// | [ramp](Schedule::ramp), [segments](Schedule::segments) | the inverse of the rate's integral | none |
/// | [bursts](Schedule::bursts) | the constant rate's time of its burst's first request | none |
/// | [sine](Schedule::sine) | the inverse of the rate's integral | 10⁻¹⁴ of a period's requests |
/// | [Poisson](Schedule::poisson) | a sum of `k + 1` random gaps | each gap: 2⁻³³ of the mean gap |
/// | [replay](Schedule::replay) | the time on its line | none |
///
/// All times are rounded up to a whole nanosecond, and never decrease. Only random gaps are accumulated, as integers,
/// so no schedule drifts: request 86,400,000 of a day at 1000/s is scheduled exactly one day after the first.
///
/// Cloning is cheap, because long lists are shared.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_schedule::Schedule;
///
/// let schedule = Schedule::lasting(Quota::per_second(3), Duration::from_secs(2))?;
/// assert_eq!(schedule.len(), 6);
/// assert_eq!(schedule.scheduled(0), Some(Duration::ZERO));
/// assert_eq!(schedule.scheduled(1), Some(Duration::from_nanos(333_333_334)));
/// assert_eq!(schedule.scheduled(3), Some(Duration::from_secs(1)));
/// assert_eq!(schedule.scheduled(6), None);
/// # Ok::<(), flowgate_schedule::ScheduleError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub(crate) kind: Kind,
    pub(crate) len: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Constant(Quota),
    Segments(Arc<Segments>),
    Bursts(Bursts),
    Sine(Sine),
    Poisson(Arc<Poisson>),
    Replay(Arc<Replay>),
}

/// End of a schedule that has no natural end.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_schedule::{Extent, Schedule};
///
/// let burst_of_20 = |extent: Extent| Schedule::bursts(Quota::per_second(100), 20, extent);
/// assert_eq!(burst_of_20(Duration::from_millis(500).into())?.len(), 40); // two whole bursts
/// assert_eq!(burst_of_20(Extent::Requests(50))?.len(), 50);
/// # Ok::<(), flowgate_schedule::ScheduleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// After this time.
    Lasting(Duration),
    /// After this many requests; 0 means 1.
    Requests(u64),
}

impl From<Duration> for Extent {
    fn from(duration: Duration) -> Extent {
        Extent::Lasting(duration)
    }
}

impl From<u64> for Extent {
    fn from(requests: u64) -> Extent {
        Extent::Requests(requests)
    }
}

impl Schedule {
    /// Creates a schedule with a constant rate for a duration.
    ///
    /// The number of requests is rate × duration, rounded down, but at least one. The quota's burst is ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the last request would be scheduled more than 584 years after the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let schedule = Schedule::lasting(Quota::per_second(3), Duration::from_millis(2500))?;
    /// assert_eq!(schedule.len(), 7); // 7.5, rounded down
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn lasting(quota: Quota, duration: Duration) -> Result<Schedule, ScheduleError> {
        Schedule::of(quota, count_in(quota, duration)?)
    }

    /// Creates a schedule of `requests` requests (at least one) at a constant rate.
    ///
    /// # Errors
    ///
    /// Returns an error if the last request would be scheduled more than 584 years after the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let schedule = Schedule::of(Quota::per_second(1000), 86_400_001)?;
    /// assert_eq!(schedule.scheduled(86_400_000), Some(Duration::from_secs(86_400)));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn of(quota: Quota, requests: u64) -> Result<Schedule, ScheduleError> {
        let len = requests.max(1);
        scheduled_ns(quota, len - 1)?;
        Ok(Schedule {
            kind: Kind::Constant(quota),
            len,
        })
    }

    /// Creates a schedule whose rate changes linearly over `duration`; `None` is a rate of 0.
    ///
    /// The number of requests is (from + to) / 2 × duration, rounded down, but at least one. With two equal rates, the
    /// result is the same as that of [`lasting`](Schedule::lasting).
    ///
    /// ```text
    ///  rate
    ///    to ┤      ╱
    ///       │   ╱      R(t) = from · t + (to - from) · t² / 2 duration
    ///  from ┤╱
    ///       └──────▶ t
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`segments`](Schedule::segments).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    /// // 0 to 2/s in 4 s: 4 requests by then, and t²/4 by the time t.
    /// let ramp = Schedule::ramp(None, Some(Quota::per_second(2)), Duration::from_secs(4))?;
    /// assert_eq!(ramp.len(), 4);
    /// assert_eq!(ramp.scheduled(0), Some(Duration::ZERO));
    /// assert_eq!(ramp.scheduled(1), Some(Duration::from_secs(2)));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn ramp(
        from: Option<Quota>,
        to: Option<Quota>,
        duration: Duration,
    ) -> Result<Schedule, ScheduleError> {
        Schedule::segments(&[Segment { duration, from, to }])
    }

    /// Creates a schedule of up to [`MAX_SEGMENTS`](crate::MAX_SEGMENTS) steps, ramps and pauses.
    ///
    /// A fraction of a request is carried into the next segment: three segments of a third of a request send one in
    /// total. The number of requests up to the end of a segment is rounded up. The total is rounded down, but is at
    /// least one.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - no segment has a rate above 0, or there are too many segments
    /// - a rate is higher than one request per nanosecond
    /// - all segments together last longer than 146 years
    /// - the periods of the rates have no common multiple below 2⁶¹ ns
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::{Schedule, Segment};
    ///
    /// let steady = |seconds, rate| Segment { duration: Duration::from_secs(seconds), from: rate, to: rate };
    /// let schedule = Schedule::segments(&[
    ///     steady(2, Some(Quota::per_second(10))),
    /// steady(60, None), // a pause
    ///     steady(1, Some(Quota::per_second(100))),
    /// ])?;
    /// assert_eq!(schedule.len(), 120);
    /// assert_eq!(schedule.scheduled(20), Some(Duration::from_secs(62)));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn segments(segments: &[Segment]) -> Result<Schedule, ScheduleError> {
        let segments = Segments::new(segments)?;
        Ok(Schedule {
            len: segments.len(),
            kind: Kind::Segments(Arc::new(segments)),
        })
    }

    /// Creates a schedule whose rate oscillates: mean + amplitude × sin(2π t / period).
    ///
    /// The rate starts at the mean and rises first. Each whole period has exactly as many requests as at the constant
    /// mean rate. Within a period, the number of requests up to a time is off by less than 10⁻¹⁴ of those in a period.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - the amplitude exceeds the mean
    /// - mean + amplitude is higher than one request per nanosecond
    /// - the period is zero, or has more than 10¹² requests
    /// - the end is more than 584 years away
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let (mean, amplitude) = (Quota::per_second(500), Quota::per_second(300));
    /// let minute = Duration::from_secs(60);
    /// let schedule = Schedule::sine(mean, amplitude, minute, 3 * minute)?;
    /// assert_eq!(schedule.len(), 90_000);
    /// assert_eq!(schedule.scheduled(30_000), Some(minute));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn sine(
        mean: Quota,
        amplitude: Quota,
        period: Duration,
        extent: impl Into<Extent>,
    ) -> Result<Schedule, ScheduleError> {
        let sine = Sine::new(mean, amplitude, period)?;
        let len = match extent.into() {
            Extent::Lasting(duration) => sine.count_in(whole_ns(duration)?).max(1),
            Extent::Requests(requests) => requests.max(1),
        };
        // The sine is never behind its mean.
        scheduled_ns(mean, len - 1)?;
        Ok(Schedule {
            kind: Kind::Sine(sine),
            len,
        })
    }

    /// Creates a schedule of random times: a Poisson process.
    ///
    /// The gaps are independent and exponentially distributed, like those of many independent users. A schedule with a
    /// duration ends with the last request within it, but has at least one.
    ///
    /// The same seed gives the same times. Gap `k`, in mean gaps, is −ln((⌊x / 2¹¹⌋ + 1) / 2⁵³), rounded to 2⁻³², where
    /// x is output `k` of SplitMix64 (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*, 2014). The
    /// first gap precedes the first request.
    ///
    /// # Errors
    ///
    /// Returns an error if more than [`MAX_POISSON`](crate::MAX_POISSON) requests are expected, or if the last would be
    /// scheduled more than 584 years after the start.
    ///
    /// # Performance
    ///
    /// This function counts the requests, which takes time in proportion to their number.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let schedule = Schedule::poisson(Quota::per_second(100), 7, 1000)?;
    /// assert_eq!(schedule.len(), 1000);
    /// let same = Schedule::poisson(Quota::per_second(100), 7, 1000)?;
    /// assert!(schedule.times().eq(same.times()));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn poisson(
        quota: Quota,
        seed: u64,
        extent: impl Into<Extent>,
    ) -> Result<Schedule, ScheduleError> {
        let poisson = match extent.into() {
            Extent::Lasting(duration) => Poisson::lasting(quota, whole_ns(duration)?, seed)?,
            Extent::Requests(requests) => Poisson::of(quota, requests, seed)?,
        };
        Ok(Schedule {
            len: poisson.len(),
            kind: Kind::Poisson(Arc::new(poisson)),
        })
    }

    /// Creates a schedule of periodic bursts with the quota's rate on average.
    ///
    /// A burst has `size` requests (0 means 1). Each burst is scheduled at the time that its first request would have
    /// at a constant rate.
    ///
    /// A duration contains rate × duration requests, rounded down to whole bursts, but at least one burst. A number of
    /// requests may end within a burst.
    ///
    /// # Errors
    ///
    /// Returns an error if the last request would be scheduled more than 584 years after the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let bursts = Schedule::bursts(Quota::per_second(100), 20, Duration::from_secs(1))?;
    /// assert_eq!(bursts.len(), 100);
    /// assert_eq!(bursts.scheduled(19), Some(Duration::ZERO));
    /// assert_eq!(bursts.scheduled(20), Some(Duration::from_millis(200)));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn bursts(
        quota: Quota,
        size: u64,
        extent: impl Into<Extent>,
    ) -> Result<Schedule, ScheduleError> {
        let bursts = Bursts::new(quota, size);
        let len = match extent.into() {
            Extent::Lasting(duration) => bursts.whole(count_in(quota, duration)?),
            Extent::Requests(requests) => requests.max(1),
        };
        whole_ns(bursts.scheduled(len - 1).ok_or(ScheduleError::TooLong)?)?;
        Ok(Schedule {
            len,
            kind: Kind::Bursts(bursts),
        })
    }

    /// Reads a schedule from a text with one time per line.
    ///
    /// A time is in seconds since the start of the run, as a decimal number, and is not earlier than the previous one.
    /// Empty lines and lines that begin with `#` are skipped. Digits after the ninth decimal are rounded up. At most
    /// [`MAX_REPLAYED`] times.
    ///
    /// # Errors
    ///
    /// Returns an error with the line number if reading fails or a line is not a valid time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate_schedule::Schedule;
    ///
    /// let replay = Schedule::replay("0\n0.25\n# a lull\n7.5\n".as_bytes())?;
    /// assert_eq!(replay.len(), 3);
    /// assert_eq!(replay.scheduled(2), Some(Duration::from_millis(7500)));
    ///
    /// let error = Schedule::replay("0\n2\n1\n".as_bytes()).unwrap_err();
    /// assert_eq!(error.to_string(), "line 3: 1 is earlier than 2, the previous time");
    /// # Ok::<(), flowgate_schedule::ReplayError>(())
    /// ```
    pub fn replay(text: impl BufRead) -> Result<Schedule, ReplayError> {
        let replay = Replay::read(text, MAX_REPLAYED)?;
        Ok(Schedule {
            len: replay.len(),
            kind: Kind::Replay(Arc::new(replay)),
        })
    }

    /// Cuts the schedule off after `requests` requests (at least one).
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_schedule::Schedule;
    ///
    /// let replay = Schedule::replay("0\n0.25\n7.5\n".as_bytes())?.at_most(2);
    /// assert_eq!(replay.len(), 2);
    /// assert_eq!(replay.scheduled(2), None);
    /// # Ok::<(), flowgate_schedule::ReplayError>(())
    /// ```
    #[must_use]
    pub fn at_most(self, requests: u64) -> Schedule {
        Schedule {
            len: self.len.min(requests.max(1)),
            ..self
        }
    }

    /// Returns the number of requests, at least 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// assert_eq!(Schedule::of(Quota::per_second(10), 25)?.len(), 25);
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the scheduled time of request `index` (the first is 0) since the start.
    ///
    /// `None` past the end.
    ///
    /// # Performance
    ///
    /// With [Poisson](Schedule::poisson) times, each call adds up to 1024 gaps. [`times`](Schedule::times) is cheaper
    /// for consecutive times.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let schedule = Schedule::of(Quota::per_second(10), 25)?;
    /// assert_eq!(schedule.scheduled(24), Some(Duration::from_millis(2400)));
    /// assert_eq!(schedule.scheduled(25), None);
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn scheduled(&self, index: u64) -> Option<Duration> {
        if index >= self.len {
            return None;
        }
        let ns = match &self.kind {
            Kind::Constant(quota) => return quota.offset_of(index),
            Kind::Segments(segments) => segments.scheduled_ns(index),
            Kind::Bursts(bursts) => return bursts.scheduled(index),
            Kind::Sine(sine) => sine.scheduled_ns(index),
            Kind::Poisson(poisson) => poisson.scheduled_ns(index),
            Kind::Replay(replay) => replay.scheduled_ns(index),
        };
        Some(Duration::from_nanos(ns))
    }

    /// Returns all scheduled times in order.
    ///
    /// `times().skip(s).step_by(n)` is the share of worker `s` of `n`. Together the workers send the same requests at
    /// the same times as one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let schedule = Schedule::of(Quota::per_second(10), 6)?;
    /// // The share of the second of two workers.
    /// let second: Vec<Duration> = schedule.times().skip(1).step_by(2).collect();
    /// assert_eq!(second, [100, 300, 500].map(Duration::from_millis));
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn times(&self) -> Times<'_> {
        Times::new(self)
    }

    /// Returns the rate if it is constant.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let rate = Quota::per_second(10);
    /// assert_eq!(Schedule::of(rate, 25)?.constant(), Some(rate));
    /// assert_eq!(Schedule::bursts(rate, 5, 25)?.constant(), None);
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn constant(&self) -> Option<Quota> {
        match self.kind {
            Kind::Constant(quota) => Some(quota),
            _ => None,
        }
    }

    /// Returns the shortest gap between two requests, rounded up to a whole nanosecond.
    ///
    /// That is the gap at the highest rate. For random gaps and bursts it is the mean gap; for a replay, which has no
    /// rate, it is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let (from, to) = (Quota::per_second(10), Quota::per_second(1000));
    /// let ramp = Schedule::ramp(Some(from), Some(to), Duration::from_secs(60))?;
    /// assert_eq!(ramp.interval(), Duration::from_millis(1)); // at its end
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn interval(&self) -> Duration {
        let ns = match &self.kind {
            Kind::Constant(quota) => interval_ns(*quota),
            Kind::Segments(segments) => segments.interval_ns(),
            Kind::Bursts(bursts) => interval_ns(bursts.quota()),
            Kind::Sine(sine) => sine.interval_ns(),
            Kind::Poisson(poisson) => interval_ns(poisson.quota()),
            Kind::Replay(_) => 0,
        };
        Duration::from_nanos(ns)
    }

    /// Returns the mean rate in requests per second, as an `f64`.
    ///
    /// For a constant rate it is the rate itself. For others it is the number of gaps, divided by the time from the
    /// first to the last scheduled time; `None` if that time is zero.
    ///
    /// The result exceeds the requested rate if nothing is scheduled at the end, as after a burst.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// assert_eq!(Schedule::of("90/min".parse()?, 25)?.per_second(), Some(1.5));
    /// // Two bursts of five, half a second apart: nine gaps.
    /// assert_eq!(Schedule::bursts(Quota::per_second(10), 5, 10)?.per_second(), Some(18.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_second(&self) -> Option<f64> {
        if let Kind::Constant(quota) = self.kind {
            return Some(per_ns(quota) * 1e9);
        }
        let first = self.scheduled(0)?;
        let between = self.span().checked_sub(first)?;
        (!between.is_zero()).then(|| (self.len - 1) as f64 / between.as_secs_f64())
    }

    /// Returns the highest rate in requests per second.
    ///
    /// For random gaps and bursts it is the mean; for a replay, the number of requests in its busiest second.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_schedule::Schedule;
    ///
    /// let replay = Schedule::replay("0\n5\n5.1\n5.2\n20\n".as_bytes())?;
    /// assert_eq!(replay.highest_per_second(), Some(3.0));
    /// # Ok::<(), flowgate_schedule::ReplayError>(())
    /// ```
    pub fn highest_per_second(&self) -> Option<f64> {
        let rate = match &self.kind {
            Kind::Constant(quota) => per_ns(*quota) * 1e9,
            Kind::Segments(segments) => segments.highest_per_ns() * 1e9,
            Kind::Bursts(bursts) => per_ns(bursts.quota()) * 1e9,
            Kind::Sine(sine) => sine.highest_per_ns() * 1e9,
            Kind::Poisson(poisson) => per_ns(poisson.quota()) * 1e9,
            Kind::Replay(replay) => replay.busiest_second() as f64,
        };
        Some(rate).filter(|rate| *rate > 0.0)
    }

    /// Returns the maximum number of requests with the same scheduled time; 1 for random gaps.
    pub fn burst(&self) -> u64 {
        match &self.kind {
            Kind::Bursts(bursts) => bursts.size(),
            _ => 1,
        }
    }

    /// Returns the time from the start of the run to the last scheduled time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate::Quota;
    /// use flowgate_schedule::Schedule;
    ///
    /// let schedule = Schedule::of(Quota::per_second(10), 25)?;
    /// assert_eq!(schedule.span(), Duration::from_millis(2400)); // 24 gaps
    /// # Ok::<(), flowgate_schedule::ScheduleError>(())
    /// ```
    pub fn span(&self) -> Duration {
        self.scheduled(self.len - 1).unwrap_or(Duration::MAX)
    }
}

/// Writes a short description: `1000/s`, `100/s to 5000/s in 60 s`, `100/s Poisson, seed 7`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Constant(quota) => quota.fmt(f),
            Kind::Segments(segments) => segments.fmt(f),
            Kind::Bursts(bursts) => bursts.fmt(f),
            Kind::Sine(sine) => sine.fmt(f),
            Kind::Poisson(poisson) => poisson.fmt(f),
            Kind::Replay(replay) => replay.fmt(f),
        }
    }
}

/// Returns the number of requests that the quota's rate allows in this time, rounded down.
fn count_in(quota: Quota, duration: Duration) -> Result<u64, ScheduleError> {
    let len = duration
        .as_nanos()
        .checked_mul(u128::from(quota.count()))
        .ok_or(ScheduleError::TooLong)?
        / quota.period().as_nanos();
    u64::try_from(len).map_err(|_| ScheduleError::TooLong)
}

/// Returns the scheduled time of request `index` at a constant rate, if it fits into 64 bits.
fn scheduled_ns(quota: Quota, index: u64) -> Result<u64, ScheduleError> {
    whole_ns(quota.offset_of(index).ok_or(ScheduleError::TooLong)?)
}

pub(crate) fn whole_ns(duration: Duration) -> Result<u64, ScheduleError> {
    u64::try_from(duration.as_nanos()).map_err(|_| ScheduleError::TooLong)
}

/// Returns the quota's period, at most 2⁶⁴ − 1 ns.
pub(crate) fn period_ns(quota: Quota) -> u64 {
    whole_ns(quota.period()).unwrap_or(u64::MAX)
}

/// Returns the time between two requests, rounded up.
fn interval_ns(quota: Quota) -> u64 {
    period_ns(quota).div_ceil(quota.count())
}

/// Returns the rate in requests per nanosecond.
pub(crate) fn per_ns(quota: Quota) -> f64 {
    quota.count() as f64 / quota.period().as_nanos() as f64
}
