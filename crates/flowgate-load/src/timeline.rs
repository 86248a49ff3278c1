//! Counts and times per second.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::nanos;

/// Counts and times in each second of a run.
///
/// Runs of more than one hour have longer slots. A run of unknown length joins every two slots into one when there
/// would be more than
/// 7200. A percentile of a joined slot is the larger of both.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate_load::{Slot, Timeline};
///
/// let slots = [100, 100, 97].map(|sent| Slot { scheduled: 100, sent, ..Slot::default() });
/// let timeline = Timeline { width: Duration::from_secs(1), slots: slots.to_vec() };
/// let off = timeline.starts().find(|(_, slot)| slot.difference() > 0);
/// let (start, slot) = off.expect("the last one is off");
/// assert_eq!((start, slot.difference()), (Duration::from_secs(2), 3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of a slot, in whole seconds.
    #[serde(rename = "width_ns", with = "nanos")]
    pub width: Duration,
    /// Slots from the start of the run to the last one with an event.
    pub slots: Vec<Slot>,
}

/// Slot of a [`Timeline`].
///
/// # Examples
///
/// ```
/// # use flowgate::Quota;
/// # use flowgate_load::{Origin, Plan, Schedule, Stop, Target};
/// # let origin = Origin::start()?;
/// # let schedule = Schedule::of(Quota::per_second(1000), 5)?;
/// # let plan = Plan::new(Target::parse(&origin.url())?, schedule);
/// let report = flowgate_load::run(plan, &Stop::new())?; // five requests, at 1000/s
/// let slots = &report.timeline.slots;
/// assert_eq!(slots.iter().map(|slot| slot.scheduled).sum::<u64>(), 5);
/// assert_eq!(slots.iter().map(|slot| slot.admitted).sum::<u64>(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Requests scheduled in this slot. Requests after the end of the run are not counted.
    pub scheduled: u64,
    /// Requests sent in this slot.
    pub sent: u64,
    /// Responses to admitted requests that were complete in this slot: 1xx, 2xx, 3xx.
    pub admitted: u64,
    /// Responses with 429 or 503.
    pub limited: u64,
    /// Error responses, and requests without a response.
    pub failed: u64,
    /// Median response time.
    #[serde(rename = "response_p50_ns", with = "nanos")]
    pub response_p50: Duration,
    /// 99th percentile of the response time.
    #[serde(rename = "response_p99_ns", with = "nanos")]
    pub response_p99: Duration,
    /// Longest response time.
    #[serde(rename = "response_max_ns", with = "nanos")]
    pub response_max: Duration,
    /// 99th percentile of the lag.
    #[serde(rename = "lag_p99_ns", with = "nanos")]
    pub lag_p99: Duration,
}

impl Timeline {
    /// Returns the slots with their start times.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use flowgate_load::{Slot, Timeline};
    ///
    /// let timeline = Timeline { width: Duration::from_secs(2), slots: vec![Slot::default(); 3] };
    /// let starts: Vec<u64> = timeline.starts().map(|(start, _)| start.as_secs()).collect();
    /// assert_eq!(starts, [0, 2, 4]);
    /// ```
    pub fn starts(&self) -> impl Iterator<Item = (Duration, &Slot)> {
        let starts =
            std::iter::successors(Some(Duration::ZERO), |start| start.checked_add(self.width));
        starts.zip(&self.slots)
    }
}

impl Slot {
    /// Returns the absolute difference between the scheduled and the sent requests.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Slot;
    ///
    /// let slot = Slot { scheduled: 100, sent: 103, ..Slot::default() };
    /// assert_eq!(slot.difference(), 3);
    /// ```
    pub fn difference(&self) -> u64 {
        self.scheduled.abs_diff(self.sent)
    }

    /// Joins consecutive slots into one.
    pub(crate) fn joined(slots: &[Slot]) -> Slot {
        let joined = |one: Slot, other| one.with(other);
        slots.iter().fold(Slot::default(), joined)
    }

    /// Joins two slots. The larger percentile of both is an upper bound of the joint percentile.
    pub(crate) fn with(&self, other: &Slot) -> Slot {
        Slot {
            scheduled: self.scheduled + other.scheduled,
            sent: self.sent + other.sent,
            admitted: self.admitted + other.admitted,
            limited: self.limited + other.limited,
            failed: self.failed + other.failed,
            response_p50: self.response_p50.max(other.response_p50),
            response_p99: self.response_p99.max(other.response_p99),
            response_max: self.response_max.max(other.response_max),
            lag_p99: self.lag_p99.max(other.lag_p99),
        }
    }
}
