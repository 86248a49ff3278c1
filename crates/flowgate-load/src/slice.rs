//! A part of one schedule, sent by one of several machines.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use crate::engine::RunError;
use crate::plan::{Pace, Plan};
use crate::report::{Asked, Guarantee, rfc3339};

/// How long before the common start a run opens its connections, beside its warm-up.
const READY_BEFORE: Duration = Duration::from_secs(5);

/// Maximum number of slices.
const MAX_SLICES: u64 = 10_000;

/// Every `count`-th request of a schedule, counted from a common start.
///
/// The slices 1 to `count` are together exactly the one schedule: each of its requests is in one of them, at the same time
/// after the start. Each request has the same position in a [`RequestMix`](crate::RequestMix) as without slices. The clocks
/// of the machines must agree: the requests of a machine whose clock is 1 ms late are 1 ms late.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use flowgate::Quota;
/// use flowgate_load::{Plan, Schedule, Slice, Target};
///
/// let schedule = Schedule::of(Quota::per_second(1000), 10)?;
/// let mut plan = Plan::new(Target::parse("http://localhost:8080/")?, schedule);
/// let start_at = SystemTime::now() + Duration::from_secs(30);
/// plan.slice = Some(Slice { index: 2, count: 4, start_at });
/// assert_eq!(plan.requests(), Some(3)); // the requests 1, 5 and 9
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Number of this slice, 1 to `count`.
    pub index: u64,
    /// Number of slices, at most 10,000.
    pub count: u64,
    /// Time of the start, the same for all slices. In JSON it is RFC 3339 text in UTC.
    #[serde(with = "rfc3339::required")]
    pub start_at: SystemTime,
}

impl Slice {
    /// Returns the indices of the first request of a thread in the schedule, and the distance to its next.
    ///
    /// Without a slice, there is one slice.
    pub(crate) fn indices(slice: Option<Slice>, shard: usize, shards: usize) -> (usize, usize) {
        let (index, count) = slice.map_or((1, 1), |slice| (slice.index, slice.count));
        // More slices than indices leave all but the first request out.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let index = usize::try_from(index.saturating_sub(1)).unwrap_or(usize::MAX);
        let first = index.saturating_add(count.saturating_mul(shard));
        (first, count.saturating_mul(shards))
    }

    /// Returns whether the number is one of the slices.
    pub(crate) fn is_one_of_them(self) -> bool {
        (1..=self.count).contains(&self.index) && self.count <= MAX_SLICES
    }

    /// Returns the number of requests of `whole` in this slice.
    fn requests(self, whole: u64) -> u64 {
        whole
            .saturating_sub(self.index.saturating_sub(1))
            .div_ceil(self.count.max(1))
    }

    /// Returns what a slice was asked to do.
    fn asked(self, whole: Asked) -> Asked {
        let count = self.count as f64;
        let guarantee = |whole: Guarantee| Guarantee {
            per_second: whole.per_second / count,
            ..whole
        };
        Asked {
            text: format!("{}, {self}", whole.text),
            per_second: whole.per_second.map(|rate| rate / count),
            interval: whole
                .interval
                .saturating_mul(u32::try_from(self.count).unwrap_or(u32::MAX)),
            highest_per_second: whole.highest_per_second.map(|rate| rate / count),
            guarantee: whole.guarantee.map(guarantee),
            slice: Some(self),
            ..whole
        }
    }

    /// Returns the start on the clock of this process, if there is still time to get ready for it.
    pub(crate) fn start(self, warm_up: Duration) -> Result<Instant, RunError> {
        let left = self
            .start_at
            .duration_since(SystemTime::now())
            .unwrap_or_default();
        let start = Instant::now().checked_add(left);
        start.filter(|_| left > warm_up).ok_or(RunError::TooLate)
    }

    /// Returns how long a run waits before it opens connections.
    pub(crate) fn wait(self, warm_up: Duration) -> Duration {
        let left = self
            .start_at
            .duration_since(SystemTime::now())
            .unwrap_or_default();
        left.saturating_sub(warm_up + READY_BEFORE)
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {}/{}", self.index, self.count)
    }
}

impl Plan {
    /// Returns the number of requests of the slice or the whole, if known.
    pub fn requests(&self) -> Option<u64> {
        let whole = self.pace.requests()?;
        Some(self.slice.map_or(whole, |slice| slice.requests(whole)))
    }

    /// Returns the description for the report.
    pub(crate) fn asked(&self) -> Asked {
        let asked = Asked {
            max_error_share: self.max_error_share,
            ..self.pace.asked()
        };
        match self.slice {
            None => asked,
            Some(slice) => slice.asked(asked),
        }
    }

    /// Checks the slice.
    pub(crate) fn check_slice(&self) -> Result<(), RunError> {
        let Some(slice) = self.slice else {
            return Ok(());
        };
        let refuse = |reason: &str| Err(RunError::Targets(reason.to_owned()));
        match &self.pace {
            Pace::Hold(_) if slice.count > MAX_SLICES => {
                refuse("more than 10000 slices: write fewer")
            }
            Pace::Hold(_) if !slice.is_one_of_them() => {
                refuse("a slice is from 1 to the number of slices: write 1/8 to 8/8")
            }
            Pace::Hold(_) if self.requests() == Some(0) => {
                refuse("the slice has no request: write fewer slices, or more requests")
            }
            Pace::Hold(_) => Ok(()),
            _ => refuse("a slice needs a schedule: write a rate that is held"),
        }
    }
}

#[cfg(test)]
mod tests {
    use flowgate::Quota;
    use flowgate_schedule::{Extent, Schedule};

    use super::*;
    use crate::target::Target;

    fn slice(index: u64, count: u64) -> Slice {
        Slice {
            index,
            count,
            start_at: SystemTime::UNIX_EPOCH,
        }
    }

    /// The requests that all threads of all slices send, by index and time.
    fn sent(schedule: &Schedule, slices: u64, threads: usize) -> Vec<(usize, Duration)> {
        let mut sent = Vec::new();
        for index in 1..=slices {
            for thread in 0..threads {
                let (first, step) = Slice::indices(Some(slice(index, slices)), thread, threads);
                let times = schedule.times().skip(first).step_by(step);
                sent.extend((first..).step_by(step).zip(times));
            }
        }
        sent.sort();
        sent
    }

    #[test]
    fn slices_are_together_exactly_the_one_schedule() {
        let second = Duration::from_secs(1);
        for schedule in [
            Schedule::of(Quota::per_second(20_000), 10_007).unwrap(),
            Schedule::ramp(
                Some(Quota::per_second(10)),
                Some(Quota::per_second(500)),
                second,
            )
            .unwrap(),
            Schedule::poisson(Quota::per_second(1_000), 7, Extent::Lasting(second)).unwrap(),
            Schedule::bursts(Quota::per_second(100), 7, Extent::Requests(50)).unwrap(),
        ] {
            let whole: Vec<_> = schedule.times().enumerate().collect();
            for (slices, threads) in [(1, 1), (4, 1), (4, 2), (3, 3), (8, 1)] {
                assert_eq!(
                    sent(&schedule, slices, threads),
                    whole,
                    "{slices} slices of {schedule}"
                );
                let counts =
                    (1..=slices).map(|index| slice(index, slices).requests(schedule.len()));
                assert_eq!(counts.sum::<u64>(), schedule.len());
            }
        }
    }

    #[test]
    fn a_slice_without_a_schedule_or_a_request_is_refused() {
        let target = Target::parse("http://127.0.0.1:1/").unwrap();
        let schedule = Schedule::of(Quota::per_second(100), 3).unwrap();
        for (pace, index, count, expected) in [
            (
                Pace::Hold(schedule.clone()),
                0,
                4,
                "from 1 to the number of slices",
            ),
            (
                Pace::Hold(schedule.clone()),
                5,
                4,
                "from 1 to the number of slices",
            ),
            (
                Pace::Hold(schedule.clone()),
                1,
                10_001,
                "more than 10000 slices",
            ),
            (Pace::Hold(schedule.clone()), 4, 4, "has no request"),
            (Pace::Unpaced(Extent::Requests(3)), 1, 4, "needs a schedule"),
        ] {
            let mut plan = Plan::new(target.clone(), pace);
            plan.slice = Some(slice(index, count));
            let error = plan.check_slice().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_slice_asks_for_its_part_of_the_rate() {
        let schedule = Schedule::of(Quota::per_second(1_000), 10).unwrap();
        let mut plan = Plan::new(Target::parse("http://127.0.0.1:1/").unwrap(), schedule);
        plan.slice = Some(slice(3, 4));
        let asked = plan.asked();
        assert_eq!(asked.text, "1000/s, slice 3/4");
        assert_eq!(
            (asked.per_second, asked.interval),
            (Some(250.0), Duration::from_millis(4))
        );
        assert_eq!(plan.requests(), Some(2));
        assert!(
            slice(1, 1).start(Duration::ZERO).is_err(),
            "1970 has passed"
        );
    }
}
