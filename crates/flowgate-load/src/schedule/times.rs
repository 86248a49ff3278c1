//! Scheduled times one after the other.

use std::iter::FusedIterator;
use std::time::Duration;

use super::{Kind, Schedule};

/// The scheduled times of a [`Schedule`] in order; [`Schedule::times`] makes it.
///
/// It allocates nothing. Skipping ahead costs no more than one step of it, but for random gaps,
/// where all that is skipped is added up.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Schedule, Times};
///
/// let schedule = Schedule::poisson(Quota::per_second(100), 7, 1000)?;
/// let mut times: Times<'_> = schedule.times();
/// assert_eq!(times.size_hint(), (1000, Some(1000)));
/// assert!(times.is_sorted_by(|one: &Duration, next| one <= next));
/// # Ok::<(), flowgate_load::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Times<'a> {
    schedule: &'a Schedule,
    /// Of the next request.
    index: u64,
    /// Of random gaps, those before the next request's.
    gaps: u64,
}

impl<'a> Times<'a> {
    pub(super) fn new(schedule: &'a Schedule) -> Times<'a> {
        Times {
            schedule,
            index: 0,
            gaps: 0,
        }
    }
}

impl Iterator for Times<'_> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.nth(0)
    }

    fn nth(&mut self, skipped: usize) -> Option<Duration> {
        let skipped = u64::try_from(skipped).unwrap_or(u64::MAX);
        let index = self.index.saturating_add(skipped);
        if index >= self.schedule.len {
            self.index = self.schedule.len;
            return None;
        }
        let scheduled = if let Kind::Poisson(poisson) = &self.schedule.kind {
            self.gaps = poisson.gaps_before(index + 1, self.index, self.gaps);
            Some(Duration::from_nanos(poisson.to_ns(self.gaps)))
        } else {
            self.schedule.scheduled(index)
        };
        self.index = index + 1;
        scheduled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.schedule.len - self.index);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

impl FusedIterator for Times<'_> {}
