//! Iterator over scheduled times.

use std::iter::FusedIterator;
use std::time::Duration;

use crate::poisson::Poisson;
use crate::schedule::{Kind, Schedule};

/// Iterator over the scheduled times of a [`Schedule`], returned by [`Schedule::times`].
///
/// It does not allocate. Skipping ahead is as cheap as one step, except for random gaps, which are all added up.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_schedule::{Schedule, Times};
///
/// let schedule = Schedule::poisson(Quota::per_second(100), 7, 1000)?;
/// let mut times: Times<'_> = schedule.times();
/// assert_eq!(times.size_hint(), (1000, Some(1000)));
/// assert!(times.is_sorted_by(|one: &Duration, next| one <= next));
/// # Ok::<(), flowgate_schedule::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Times<'a> {
    schedule: &'a Schedule,
    /// Index of the next request.
    index: u64,
    /// For random gaps: the sum before the next request.
    gaps: u64,
    /// For random gaps: those of a block of requests, and its number. They do not depend on each other, so a processor core computes
    /// several together.
    block: [u64; BLOCK],
    number: Option<u64>,
}

/// How many random gaps are computed together.
const BLOCK: usize = 8;

impl<'a> Times<'a> {
    pub(crate) fn new(schedule: &'a Schedule) -> Times<'a> {
        Times {
            schedule,
            index: 0,
            gaps: 0,
            block: [0; BLOCK],
            number: None,
        }
    }
}

impl Times<'_> {
    /// The gap before the next request.
    fn gap(&mut self, poisson: &Poisson) -> u64 {
        let number = self.index / BLOCK as u64;
        if self.number != Some(number) {
            let first = number * BLOCK as u64;
            self.block = std::array::from_fn(|step| poisson.gap(first + step as u64));
            self.number = Some(number);
        }
        self.block[self.index as usize % BLOCK]
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
            self.gaps = match skipped {
                0 => self.gaps + self.gap(poisson),
                _ => poisson.gaps_before(index + 1, self.index, self.gaps),
            };
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
