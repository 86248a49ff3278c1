//! What happened when, by the second.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::nanos;

/// What happened in each second of a run.
///
/// Runs of more than an hour have longer slots. One whose length is not known beforehand makes one slot of every two
/// when there would be more than 7200, and so again; a percentile of these is then the larger of the two.
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
    /// The length of a slot: whole seconds.
    #[serde(rename = "width_ns", with = "nanos")]
    pub width: Duration,
    /// From the start of the run to the last in which anything happened.
    pub slots: Vec<Slot>,
}

/// A slot of a [`Timeline`].
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
    /// Requests by their scheduled time. Requests that the run ended before are missing.
    pub scheduled: u64,
    /// Requests by when their first byte was written.
    pub sent: u64,
    /// Answers to requests that were let through, by when they were complete: 1xx, 2xx and 3xx.
    pub admitted: u64,
    /// Answers 429 and 503.
    pub limited: u64,
    /// Answers that are errors, and requests without one.
    pub failed: u64,
    /// The median of the response times of those answered.
    #[serde(rename = "response_p50_ns", with = "nanos")]
    pub response_p50: Duration,
    /// Their 99th percentile.
    #[serde(rename = "response_p99_ns", with = "nanos")]
    pub response_p99: Duration,
    /// The longest.
    #[serde(rename = "response_max_ns", with = "nanos")]
    pub response_max: Duration,
    /// The 99th percentile of the lag of those sent.
    #[serde(rename = "lag_p99_ns", with = "nanos")]
    pub lag_p99: Duration,
}

impl Timeline {
    /// The slots, each with the time at which it begins.
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
    /// By how many requests it is off.
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

    /// Both as one: no percentile of all their times is larger than the larger of theirs.
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
