//! Requests by the second.

use std::time::{Duration, Instant};

/// The most slots before slots become longer than a second.
const MAX_SLOTS: u64 = 3600;

/// How many requests were due, and how many were sent, in each second of a run.
///
/// Runs of more than an hour have longer slots, so that there are never many more than 3600. What
/// was sent after the last slot counts in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The length of a slot: whole seconds.
    pub width: Duration,
    /// Requests by when they were due. One whose turn never came, as the run ended, is missing.
    pub due: Vec<u64>,
    /// Requests by when their first byte was written.
    pub sent: Vec<u64>,
}

/// A slot of a [`Timeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When it begins, counted from the start of the run.
    pub start: Duration,
    /// Requests due in it.
    pub due: u64,
    /// Requests sent in it.
    pub sent: u64,
}

impl Timeline {
    /// The slots of a run whose last request is due after `span`, and one more for what is late.
    pub(crate) fn new(span: Duration) -> Timeline {
        let seconds = span.as_secs().saturating_add(1);
        let width = seconds.div_ceil(MAX_SLOTS);
        // At most 3601.
        let slots = usize::try_from(seconds.div_ceil(width) + 1).unwrap_or(1);
        Timeline {
            width: Duration::from_secs(width),
            due: vec![0; slots],
            sent: vec![0; slots],
        }
    }

    pub(crate) fn is_due(&mut self, offset: Duration) {
        count(&mut self.due, self.width, offset);
    }

    pub(crate) fn is_sent(&mut self, start: Instant, sent: Instant) {
        count(
            &mut self.sent,
            self.width,
            sent.saturating_duration_since(start),
        );
    }

    /// The slots up to the last in which anything was due or sent.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let counts = self.due.iter().zip(&self.sent);
        let last = counts
            .clone()
            .rposition(|(due, sent)| due + sent > 0)
            .map_or(0, |last| last + 1);
        let starts =
            std::iter::successors(Some(Duration::ZERO), |start| start.checked_add(self.width));
        starts
            .zip(counts)
            .map(|(start, (&due, &sent))| Slot { start, due, sent })
            .take(last)
    }
}

impl Slot {
    /// By how many requests it is off.
    pub fn difference(&self) -> u64 {
        self.due.abs_diff(self.sent)
    }
}

fn count(slots: &mut [u64], width: Duration, offset: Duration) {
    let index = offset.as_secs().checked_div(width.as_secs()).unwrap_or(0);
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let last = slots.len().saturating_sub(1);
    if let Some(slot) = slots.get_mut(index.min(last)) {
        *slot += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_in_the_second_in_which_they_were_due_and_sent() {
        let start = Instant::now();
        let mut timeline = Timeline::new(Duration::from_millis(2500));
        assert_eq!(timeline.slots().count(), 0);
        for ms in [0, 999, 1000, 2500] {
            timeline.is_due(Duration::from_millis(ms));
        }
        for ms in [1, 1001, 1002, 9000] {
            timeline.is_sent(start, start + Duration::from_millis(ms));
        }
        assert_eq!(timeline.due, [2, 1, 1, 0]);
        assert_eq!(timeline.sent, [1, 2, 0, 1]);
        let slot = timeline.slots().nth(1).unwrap();
        assert_eq!((slot.start, slot.difference()), (Duration::from_secs(1), 1));
    }

    #[test]
    fn a_second_without_requests_counts_but_none_after_the_last() {
        let mut timeline = Timeline::new(Duration::from_secs(5));
        timeline.is_due(Duration::ZERO);
        timeline.is_due(Duration::from_secs(3));
        let due: Vec<_> = timeline.slots().map(|slot| slot.due).collect();
        assert_eq!(due, [1, 0, 0, 1]);
    }

    #[test]
    fn a_run_of_any_length_has_few_slots() {
        for seconds in [0, 1, 3599, 3600, 86_400, 365 * 86_400, u64::MAX - 1] {
            let span = Duration::from_secs(seconds);
            let mut timeline = Timeline::new(span);
            assert!((2..=3602).contains(&timeline.due.len()), "{seconds}");
            timeline.is_due(span);
            assert_eq!(timeline.due.iter().rev().nth(1), Some(&1), "{seconds}");
        }
    }
}
