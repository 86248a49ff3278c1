//! A timeline as lines.

use std::time::Duration;

use flowgate_chart::Point;

use crate::report::Report;
use crate::timeline::Slot;

/// Number of slots of a line that are drawn. Of more, each group shows its lowest and highest value.
const MOST: usize = 180;
/// Minimum part of a slot from which a rate is computed.
const LEAST: f64 = 0.1;

/// A run's timeline in seconds, as it is drawn.
///
/// Sending usually ends within the last slot that has sends; rates in it are counts divided by the time that was left.
/// A later slot that only holds responses to the last few requests is omitted.
pub(super) struct Course<'a> {
    slots: &'a [Slot],
    width: f64,
    /// Number of slots with sends, and the length of the last of them, in slots.
    sending: usize,
    last: f64,
}

/// A value that holds for an interval; `None` if there is nothing to show.
struct Step {
    from: f64,
    to: f64,
    value: Option<f64>,
}

impl<'a> Course<'a> {
    pub(super) fn of(report: &'a Report) -> Course<'a> {
        let width = report.timeline.width.as_secs_f64().max(1e-3);
        let slots = report.timeline.slots.as_slice();
        let sending = slots
            .iter()
            .rposition(|slot| slot.scheduled > 0 || slot.sent > 0)
            .map_or(0, |last| last + 1);
        // Up to one mean gap after the last send, or the last interval would be missing.
        let gap = report
            .achieved()
            .map_or(0.0, |per_second| per_second.recip());
        let end = (report.span.as_secs_f64() + gap) / width;
        let before = sending.saturating_sub(1);
        let last = match end - before as f64 {
            last if last >= LEAST || before == 0 && last > 0.0 => last.min(1.0),
            // The last sends fell into the slot before.
            last if before > 0 && last > -1.0 => 0.0,
            // With one send, or a late first one, the duration of sending is unknown.
            _ => 1.0,
        };
        let mut course = Course {
            slots,
            width,
            sending,
            last,
        };
        if last == 0.0 {
            course.sending = before;
            course.last = 1.0;
        }
        if slots.len() == course.sending + 1 && course.ends_quietly() {
            course.slots = &slots[..course.sending];
        }
        course
    }

    /// Returns whether the last slot has only a few responses, none of them bad or slow.
    fn ends_quietly(&self) -> bool {
        let Some((last, others)) = self.slots.split_last() else {
            return false;
        };
        let most = others.iter().map(|slot| slot.admitted).max().unwrap_or(0);
        let slowest = others
            .iter()
            .map(|slot| slot.response_max)
            .max()
            .unwrap_or_default();
        last.limited + last.failed == 0
            && last.admitted <= most / 10
            && last.response_max <= slowest
    }

    /// Returns the end, in seconds.
    pub(super) fn end(&self) -> f64 {
        match self.slots.len() {
            0 => 0.0,
            slots => self.until(slots - 1),
        }
    }

    fn until(&self, index: usize) -> f64 {
        let is_cut = index + 1 == self.sending && index + 1 == self.slots.len();
        self.width * (index as f64 + if is_cut { self.last } else { 1.0 })
    }

    /// Returns requests per second until sending ends.
    pub(super) fn requests(&self, count: fn(&Slot) -> u64) -> Vec<Vec<Point>> {
        self.steps(|index, slot| {
            let part = if index + 1 == self.sending {
                self.last
            } else {
                1.0
            };
            (index < self.sending).then(|| count(slot) as f64 / (self.width * part))
        })
    }

    /// Returns responses per second.
    pub(super) fn answers(&self, count: fn(&Slot) -> u64) -> Vec<Vec<Point>> {
        self.steps(|index, slot| {
            let seconds = self.until(index) - self.width * index as f64;
            Some(count(slot) as f64 / seconds)
        })
    }

    /// Returns durations in nanoseconds where there are any.
    pub(super) fn durations(&self, value: fn(&Slot) -> Duration) -> Vec<Vec<Point>> {
        self.steps(|_, slot| Some(value(slot).as_nanos() as f64).filter(|nanos| *nanos > 0.0))
    }

    fn steps(&self, value: impl Fn(usize, &Slot) -> Option<f64>) -> Vec<Vec<Point>> {
        let steps = self.slots.iter().enumerate().map(|(index, slot)| Step {
            from: self.width * index as f64,
            to: self.until(index),
            value: value(index, slot),
        });
        pieces(thinned(steps.collect()))
    }
}

/// Returns at most twice [`MOST`] steps: the lowest and the highest of each group.
fn thinned(steps: Vec<Step>) -> Vec<Step> {
    if steps.len() <= MOST {
        return steps;
    }
    let group = steps.len().div_ceil(MOST);
    let mut thinned = Vec::with_capacity(2 * MOST);
    for group in steps.chunks(group) {
        let (from, to) = (group[0].from, group[group.len() - 1].to);
        let values = || {
            group
                .iter()
                .enumerate()
                .filter_map(|(index, step)| Some((step.value?, index)))
        };
        let lowest = values().min_by(|one, other| one.0.total_cmp(&other.0));
        let highest = values().max_by(|one, other| one.0.total_cmp(&other.0));
        let (Some(lowest), Some(highest)) = (lowest, highest) else {
            thinned.push(Step {
                from,
                to,
                value: None,
            });
            continue;
        };
        let (first, second) = if lowest.1 < highest.1 {
            (lowest, highest)
        } else {
            (highest, lowest)
        };
        let middle = (from + to) / 2.0;
        thinned.push(Step {
            from,
            to: middle,
            value: Some(first.0),
        });
        thinned.push(Step {
            from: middle,
            to,
            value: Some(second.0),
        });
    }
    thinned
}

/// Joins steps without gaps into pieces, each with a point at its end.
fn pieces(steps: Vec<Step>) -> Vec<Vec<Point>> {
    let mut pieces = Vec::new();
    for group in steps.chunk_by(|one, other| one.value.is_some() == other.value.is_some()) {
        let points = group
            .iter()
            .filter_map(|step| Some(Point::new(step.from, step.value?)));
        let mut points: Vec<Point> = points.collect();
        if let Some(last) = group.last()
            && let Some(value) = last.value
        {
            points.push(Point::new(last.to, value));
            pieces.push(points);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(index: usize, value: Option<f64>) -> Step {
        Step {
            from: index as f64,
            to: index as f64 + 1.0,
            value,
        }
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let value = |index| match index {
            4_321 => 0.0,
            7_890 => 2_000.0,
            _ => 1_000.0,
        };
        let steps = (0..10_000).map(|index| step(index, Some(value(index))));
        let points: Vec<Point> = pieces(thinned(steps.collect())).concat();
        assert!(points.len() <= 2 * MOST + 1, "{}", points.len());
        let at = |y: f64| {
            points
                .iter()
                .find(|point| point.y() == y)
                .map(|point| point.x())
        };
        assert!(at(0.0).is_some_and(|x| (x - 4_321.0).abs() < 30.0));
        assert!(at(2_000.0).is_some_and(|x| (x - 7_890.0).abs() < 30.0));
        assert_eq!(points.last().map(|point| point.x()), Some(10_000.0));
    }

    #[test]
    fn a_gap_ends_one_piece_and_begins_another() {
        let values = [Some(1.0), Some(2.0), None, Some(3.0), None];
        let steps = values
            .into_iter()
            .enumerate()
            .map(|(index, value)| step(index, value));
        let ends = pieces(steps.collect())
            .into_iter()
            .map(|piece| (piece[0].x(), piece[piece.len() - 1].x()));
        assert_eq!(ends.collect::<Vec<_>>(), [(0.0, 2.0), (3.0, 4.0)]);
        assert!(pieces(Vec::new()).is_empty());
    }
}
