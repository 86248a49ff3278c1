//! When each request is due: a pure function of its index.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use flowgate::Quota;

/// When each of a run's requests is due, counted from the start of the run.
///
/// The `k`-th request is due at `k · period / count`, rounded up to a whole nanosecond. Nothing is
/// accumulated, so the schedule does not drift: request 86,400,000 of a day at 1000/s is due
/// exactly one day after the first.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::Schedule;
///
/// let schedule = Schedule::lasting(Quota::per_second(3), Duration::from_secs(2))?;
/// assert_eq!(schedule.len(), 6);
/// assert_eq!(schedule.due(0), Some(Duration::ZERO));
/// assert_eq!(schedule.due(1), Some(Duration::from_nanos(333_333_334)));
/// assert_eq!(schedule.due(3), Some(Duration::from_secs(1)));
/// assert_eq!(schedule.due(6), None);
/// # Ok::<(), flowgate_load::ScheduleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    quota: Quota,
    len: u64,
}

/// A schedule that reaches further than can be counted: no request may be due more than 2⁶⁴ − 1 ns
/// (about 584 years) after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleError;

impl Schedule {
    /// As many requests as the quota's rate allows in `duration`, evenly spaced: rate · duration,
    /// rounded down, but at least one. The quota's burst plays no part.
    ///
    /// # Errors
    ///
    /// When the last request would be due later than 584 years after the first.
    pub fn lasting(quota: Quota, duration: Duration) -> Result<Schedule, ScheduleError> {
        let count = u128::from(quota.count());
        let len = duration
            .as_nanos()
            .checked_mul(count)
            .ok_or(ScheduleError)?
            / quota.period().as_nanos();
        Schedule::of(quota, u64::try_from(len).map_err(|_| ScheduleError)?)
    }

    /// `requests` requests (at least one) at the quota's rate, evenly spaced.
    ///
    /// # Errors
    ///
    /// When the last request would be due later than 584 years after the first.
    pub fn of(quota: Quota, requests: u64) -> Result<Schedule, ScheduleError> {
        let len = requests.max(1);
        let last = quota.offset_of(len - 1).ok_or(ScheduleError)?;
        u64::try_from(last.as_nanos()).map_err(|_| ScheduleError)?;
        Ok(Schedule { quota, len })
    }

    /// The same schedule, cut off after `requests` requests (at least one).
    #[must_use]
    pub fn at_most(self, requests: u64) -> Schedule {
        Schedule {
            len: self.len.min(requests.max(1)),
            ..self
        }
    }

    /// How many requests there are; never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// When the request with this index (the first is 0) is due, counted from the start of the run;
    /// `None` past the end.
    pub fn due(&self, index: u64) -> Option<Duration> {
        if index < self.len {
            self.quota.offset_of(index)
        } else {
            None
        }
    }

    /// What the schedule was made from.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The time between two requests, rounded up to a whole nanosecond.
    pub fn interval(&self) -> Duration {
        let nanos = self
            .quota
            .period()
            .as_nanos()
            .div_ceil(u128::from(self.quota.count()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The rate, in requests per second, to the precision of an `f64`.
    pub fn per_second(&self) -> f64 {
        self.quota.count() as f64 / self.quota.period().as_secs_f64()
    }

    /// From the first request's due time to the last's.
    pub fn span(&self) -> Duration {
        self.due(self.len - 1).unwrap_or(Duration::MAX)
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the last request would be due more than 584 years after the first")
    }
}

impl Error for ScheduleError {}
